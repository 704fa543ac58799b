"""sysbench OLTP: the server and where its data come from, the client and where it runs, real reports."""

from service_reports import CONTEXT, client, commands, read

from vtax.benchmarks.sysbench_oltp import SysbenchOltp, SysbenchOltpParameters
from vtax.messages import Note

BENCHMARK = SysbenchOltp()

POINT_SELECT, READ_ONLY, READ_WRITE, LOAD = (
    "sysbench-oltp/10.11-point_select.txt",
    "sysbench-oltp/11.8-read_only.txt",
    "sysbench-oltp/11.8-read_write.txt",
    "sysbench-oltp/11.8-load.txt",
)
OF_READ_WRITE = {
    "test": "oltp_read_write",
    "rows": 10_000,
    "client": "peer",
    "connection": "tcp",
    "threads": 2,
}


def parse(text, *, outside_s=100.0, cpu_s=0.0, status=0, **parameters):
    results = client(text, outside_s=outside_s, cpu_s=cpu_s, status=status)
    return BENCHMARK.parse(SysbenchOltpParameters(**parameters), CONTEXT, results)


def test_a_fixed_number_of_lookups_has_a_time_and_percentiles_of_the_histogram():
    outcome = parse(read(POINT_SELECT), events=10_000)
    assert outcome.values == {
        "transactions": 54890.13,
        "queries": 54890.13,
        "time": 0.1815,
        "latency_avg": 0.02,
        "latency_max": 3.98,
        "latency_p50": 0.016,
        "latency_p95": 0.019,
        "latency_p99": 0.028,
    }
    assert outcome.effective["events"] == 10_000


def test_a_fixed_time_has_a_rate_and_no_time():
    outcome = parse(read(READ_WRITE), **OF_READ_WRITE)
    assert outcome.values["transactions"] == 187.73
    assert outcome.values["latency_p95"] == 20.002
    assert "time" not in outcome.values
    assert outcome.warnings == (Note("transactions-repeated", failed=13, lost=0),)
    assert parse(read(READ_ONLY), test="oltp_read_only", threads=2).values["latency_p50"] > 0


def test_loading_is_timed_by_the_controller():
    outcome = parse(read(LOAD), outside_s=4.0, test="load", rows=10_000)
    assert outcome.values == {"load_time": 4.0, "load_rate": 2500.0}


def test_a_saturated_client_is_a_warning():
    assert parse(read(POINT_SELECT), cpu_s=0.1, events=10_000).warnings == ()
    (warning,) = parse(read(POINT_SELECT), cpu_s=0.18, events=10_000).warnings
    assert (warning.code, warning.data["tool"]) == ("client-saturated", "sysbench")
    assert warning.data["count"] == 1
    assert round(warning.data["share"], 2) == 0.99


def test_the_server_runs_on_a_copy_of_the_images_data():
    server, local = commands(BENCHMARK, rows=5000)
    directory = "/scratch/vtax-mariadb-3"
    assert server.before == (("cp", "-a", "/var/lib/vtax/mariadb-5000", directory),)
    assert server.makes == (directory,)
    assert (server.ready_port, local.place) == (3309, "guest")
    assert {f"--datadir={directory}", "--bind-address=198.18.0.2", "--port=3309"} <= set(
        server.argv
    )
    assert {f"--mysql-socket={directory}/socket", "--table-size=5000", "--time=10"} <= set(
        local.argv
    )


def test_the_client_at_the_peer_takes_the_network():
    _, remote = commands(BENCHMARK, client="peer", connection="tcp", events=50)
    assert remote.place == "peer"
    assert {"--mysql-host=198.18.0.2", "--mysql-port=3309", "--events=50", "--time=0"} <= set(
        remote.argv
    )


def test_loading_starts_from_a_server_without_a_table():
    assert BENCHMARK.makes_data
    empty, full = (
        BENCHMARK.data(SysbenchOltpParameters(test=test)) for test in ("load", "oltp_read_only")
    )
    assert (empty.name, full.name) == ("mariadb-0", "mariadb-1000000")
    assert "--table-size=1000000 prepare" in full.script
    server, loading = commands(BENCHMARK, test="load", rows=5000)
    assert "/var/lib/vtax/mariadb-0" in server.before[0]
    assert loading.argv[:2] == ("sysbench", "oltp_common")
    assert loading.argv[-2:] == ("--table-size=5000", "prepare")
