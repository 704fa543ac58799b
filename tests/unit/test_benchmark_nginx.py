"""nginx: its configuration, a paced and an unpaced client, and real reports of h2load."""

import json
import subprocess
import sys

import pytest
from service_reports import CONTEXT, client, commands, read

from vtax.benchmarks.nginx import Nginx, NginxParameters
from vtax.benchmarks.service import timed_by_log
from vtax.messages import Note

BENCHMARK = Nginx()


def parse(fixture, *, status=0, change=("", ""), log="", **parameters):
    text = read(f"nginx/{fixture}.txt").replace(*change, 1)
    results = client(text, stderr=log or read(f"nginx/{fixture}.err"), status=status)
    return BENCHMARK.parse(NginxParameters(duration_s=2, **parameters), CONTEXT, results)


@pytest.mark.parametrize(("version", "rate"), [("1.52.0", 18113.5), ("1.64.0", 25180.0)])
def test_requests_have_a_rate_and_percentiles_of_the_log(version, rate):
    outcome = parse(version)
    assert outcome.values["requests"] == rate
    assert (
        outcome.values["latency_p50"]
        < outcome.values["latency_p99"]
        < outcome.values["latency_max"]
    )
    assert outcome.warnings == ()


@pytest.mark.parametrize("version", ["1.52.0", "1.64.0"])
def test_a_paced_client_warns_below_its_rate(version):
    assert parse(f"{version}-rate", rate=400).warnings == ()
    assert parse(f"{version}-rate", rate=500).warnings == (
        Note("rate-not-reached", requested=500, unit="requests/s", found=400),
    )
    assert (
        parse(f"{version}-rate", rate=500, threads=64).effective["threads"]
        == parse(f"{version}-rate").effective["connections"]
    )


def test_a_saturated_client_is_a_warning():
    found = {**json.loads(read("nginx/1.64.0.err")), "cpu_s": 3.0}
    (warning,) = parse("1.64.0", log=json.dumps(found)).warnings
    assert (warning.code, warning.data["tool"]) == ("client-saturated", "h2load")
    assert warning.data["count"] == 1
    assert warning.data["share"] == pytest.approx(0.99, abs=0.005)


def test_the_server_serves_one_file_at_the_guests_address():
    server, remote = commands(BENCHMARK, file_size=4096, rate=1000, connections=4, threads=8)
    (configuration,) = server.files
    assert b"listen 198.18.0.2:8083;" in configuration.data
    assert ("truncate", "--size=4096", "/scratch/vtax-nginx-3/files/page") in server.before
    assert server.makes == ("/scratch/vtax-nginx-3",)
    assert {"--clients=4", "--threads=4", "--rps=250", "http://198.18.0.2:8083/page"} <= set(
        remote.argv
    )
    assert remote.place == "peer"
    assert not any(argument.startswith("--rps") for argument in commands(BENCHMARK)[1].argv)


def test_the_program_around_a_client_reads_its_log_and_passes_its_status(tmp_path):
    lines = "".join(
        f"{1_000_000 + 10_000 * n} 200 {n}\n" for n in range(1, 101)
    )  # starts 10 ms apart
    code = f"import sys; open(sys.argv[1] + '.0', 'w').write({lines!r}); sys.exit(3)"
    argv = (sys.executable, "-c", code, "{log}")
    directory, line, (program,) = timed_by_log(str(tmp_path), 0, 2, "0*1+2*1", 0.5, argv)
    (tmp_path / "vtax-client-0").mkdir()
    (tmp_path / "vtax-client-0" / "timed_by_log.py").write_bytes(program.data)
    done = subprocess.run([sys.executable, *line[1:]], capture_output=True, text=True, check=False)
    found = json.loads(done.stderr)
    assert (done.returncode, found["count"], directory) == (3, 100, str(tmp_path / "vtax-client-0"))
    assert found["ms"] == {
        "latency_avg": 0.0505,
        "latency_max": 0.1,
        "latency_p50": 0.05,
        "latency_p95": 0.095,
        "latency_p99": 0.099,
    }
    assert found["cpu_s"] > 0
    assert found["per_s"] == [100.0] * 10  # of the last half a second: 50 answers


def test_rates_of_intervals_are_samples():
    found = {**json.loads(read("nginx/1.64.0.err")), "per_s": [24000.0, 26000.0]}
    outcome = parse("1.64.0", log=json.dumps(found))
    assert outcome.samples == {"requests": [24000.0, 26000.0]}
    assert outcome.effective["interval_s"] == 0.2
    assert "interval_s" not in parse("1.64.0").effective
