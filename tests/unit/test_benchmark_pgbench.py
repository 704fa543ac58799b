"""pgbench: server, client and data, and real reports with the times of every transaction."""

import pytest
from service_reports import CONTEXT, client, commands, read

from vtax.benchmarks.pgbench import Pgbench, PgbenchParameters
from vtax.messages import Note

BENCHMARK = Pgbench()

TPCB = {"duration_s": 2, "scale": 1, "clients": 2}
SELECT = {
    "duration_s": 2,
    "scale": 1,
    "test": "select",
    "rate": 200,
    "client": "guest",
    "connection": "socket",
}


def parse(fixture, *, status=0, change=("", ""), **parameters):
    text, log = read(f"pgbench/{fixture}.txt"), read(f"pgbench/{fixture}.err")
    return BENCHMARK.parse(
        PgbenchParameters(**parameters),
        CONTEXT,
        client(text.replace(*change, 1), stderr=log, status=status),
    )


@pytest.mark.parametrize(("version", "rate"), [("15", 552.23817), ("17", 414.218462)])
def test_transactions_have_a_rate_and_percentiles_of_the_log(version, rate):
    outcome = parse(f"{version}-tpcb", **TPCB)
    assert outcome.values["transactions"] == rate
    assert (
        outcome.values["latency_p50"]
        < outcome.values["latency_p95"]
        < outcome.values["latency_max"]
    )
    assert outcome.warnings == (Note("clients-wait", clients=2, branches=1),)


@pytest.mark.parametrize("version", ["15", "17"])
def test_a_paced_client_warns_below_its_rate(version):
    assert parse(f"{version}-select-rate", **SELECT).warnings == ()
    (warning,) = parse(f"{version}-select-rate", **{**SELECT, "rate": 300}).warnings
    assert (warning.code, warning.data["requested"]) == ("rate-not-reached", 300)
    assert warning.data["unit"] == "transactions/s"


def test_the_server_is_not_root_and_runs_on_a_copy_of_its_data():
    server, remote = commands(BENCHMARK, scale=2)
    assert "setpriv --reuid=postgres" in server.argv[2]
    directory = "/scratch/vtax-postgresql-3"
    assert server.before == (("cp", "-a", "/var/lib/vtax/postgresql-2", directory),)
    assert server.makes == (directory,)
    assert (server.ready_port, remote.place) == (5435, "peer")
    assert {"--host=198.18.0.2", "--port=5435", "--builtin=tpcb-like"} <= set(remote.argv)
    assert remote.before[0][-4:] == ("--host", "198.18.0.2", "--port", "5435")
    assert "--log-prefix=/scratch/vtax-client-3/log" in remote.argv
    assert not any(argument.startswith("--rate") for argument in remote.argv)
    _, local = commands(BENCHMARK, **SELECT)
    assert {"--host=/scratch/vtax-postgresql-3", "--rate=200"} <= set(local.argv)


def test_data_follow_the_scale():
    data = BENCHMARK.data(PgbenchParameters(scale=7))
    assert data.name == "postgresql-7"
    assert "--scale=7 pgbench" in data.script
