"""`vtax run --image NAME --load COMMAND`: the study that it makes, and options that do not go together."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from vtax.benchmarks.base import Context
from vtax.benchmarks.program import ProgramBenchmark
from vtax.cli.main import group
from vtax.cli.own_image import study_of
from vtax.cli.run_options import RunOptions
from vtax.errors import BenchmarkError
from vtax.guest.results import CommandResult
from vtax.image.image import Image
from vtax.runner.points import checked_points
from vtax.study.drafts import LOADS, served
from vtax.study.load import load

REPORTS = Path(__file__).parent / "fixtures" / "loads"
FIGURES = {
    "wrk": (44.59, {"latency_p50": 45.1, "latency_p90": 46.02, "latency_p99": 1480.0}, 45),
    "h2load": (44.0, {"latency_p50": 47.1, "latency_p95": 55.9, "latency_p99": 56.0}, 44),
    "ab": (2311.6, {"latency_p50": 0.831, "latency_p95": 1.402, "latency_p99": 2.011}, 50),
    "pgbench": (
        4321.512345,
        {"latency_p50": 0.22, "latency_p95": 0.31, "latency_p99": 0.402},
        8643,
    ),
    "siege": (1915.38, {}, 1245),
}
"""Tool -> rate, latencies in ms and number of answers in its report."""
CLIENTS = {tool: (tool, "{guest_address}:{port}") for tool in LOADS}


def drafted(tmp_path, *words, server=("{entry}",)):
    path = tmp_path / "shop.toml"
    path.write_text(served("shop", "shop", server, words, 8080))
    (program,) = load(str(path)).study.program
    return program, load(str(path)).study


def test_a_known_program_has_its_package_and_its_requests(tmp_path):
    program, study = drafted(tmp_path, "wrk", "-d5", "{url}", server=("{entry}", "nginx"))
    assert study.guest.image == "shop"
    assert (program.packages, program.server_in, program.port) == (["wrk"], "guest", 8080)
    assert program.argv.server == ["{entry}", "nginx"]
    assert program.argv.client == ["wrk", "--latency", "-d5", "http://{guest_address}:{port}/"]
    assert program.metric[0].pattern is not None
    assert (program.metric[0].unit, program.metric[0].better) == ("requests/s", "higher")


def test_transactions_of_pgbench_are_its_figure(tmp_path):
    program, _ = drafted(tmp_path, "pgbench", "-S", "-h", "{guest_address}", "-p", "{port}")
    metric = program.metric[0]
    waits, *client = program.argv.client[2:]
    assert waits.startswith(
        "for n in $(seq 300); do pg_isready --quiet -h {guest_address} -p {port} && break"
    )
    assert client[:3] == ["sh", "python3", "-c"]
    options = ["--log", "--log-prefix=LOG", "-S", "-h", "{guest_address}", "-p", "{port}"]
    assert client[4:] == ["{scratch}", "pgbench", *options]
    assert (metric.name, metric.unit, program.packages) == (
        "transactions",
        "transactions/s",
        ["postgresql-contrib"],
    )
    report = "latency average = 0.2 ms\ntps = 4321.5 (without initial connection time)\n"
    assert re.search(metric.pattern, report, re.MULTILINE)[1] == "4321.5"


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("wrk -t2 -c4 -d5s {url}", 5.5),
        ("wrk -t2 {url}", 10.0),
        ("h2load --h1 --duration=500ms {url}", 1.0),
        ("h2load -n 100 -D 3 {url}", 3.5),
        ("pgbench -t 100 -h {guest_address}", 10.0),
        ("pgbench -T 4 -h {guest_address}", 4.5),
        ("ab -n 10 -c 1 {url}", 10.0),
    ],
)
def test_a_trial_lasts_about_as_long_as_its_load_says(tmp_path, line, seconds):
    program, _ = drafted(tmp_path, *line.split())
    assert program.expected_duration == seconds


def read_report(tmp_path, report):
    """What a drafted study reads from a report, TOOL-NAME.txt."""
    program, _ = drafted(tmp_path, *CLIENTS[report.partition("-")[0]])
    benchmark = ProgramBenchmark(program)
    text = (REPORTS / f"{report}.txt").read_text()
    results = {"client": CommandResult(tuple(program.argv.client), 0, text, "", 9.0, 9.0)}
    outcome = benchmark.parse(benchmark.Parameters(), Context(1, 2**28), results)
    assert benchmark.work is not None
    return outcome.values, benchmark.work.number(outcome)


@pytest.mark.parametrize("tool", LOADS)
def test_answers_that_succeeded_are_the_figure_of_every_known_program(tmp_path, tool):
    values, operations = read_report(tmp_path, f"{tool}-ok")
    rate, latencies, number = FIGURES[tool]
    assert (next(iter(values.values())), operations) == (rate, number)
    assert {name: values[name] for name in values if "latency" in name} == latencies


def test_a_benchmark_is_called_as_its_image_unless_vtax_has_one_of_that_name(monkeypatch):
    monkeypatch.setattr("vtax.cli.own_image.known_load", lambda words: LOADS["wrk"])
    for image, name in (("shop", "shop"), ("redis", "redis-served")):
        with click.Context(group):
            study = load(study_of(RunOptions(image=image, load_of="wrk {url}"))).study
            assert [program.name for program in study.program] == [name]
            assert [table.name for table in study.benchmark] == [name]


def test_the_latencies_of_a_log_are_those_of_all_its_answers(tmp_path):
    """The log has the µs of each answer as its third word, in one file or several."""
    program, _ = drafted(tmp_path, "h2load", "{url}")
    script = program.argv.client[2].replace("{{", "{").replace("}}", "}")
    writes = "seq 1 100 | sed 's/^/1 200 /' > LOG.1; seq 101 200 | sed 's/^/1 200 /' > LOG.2; echo report"
    argv = [sys.executable, "-c", script, str(tmp_path), "sh", "-c", writes]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    latencies = [f"latency of {percent} %: 0.{2 * percent:03} ms" for percent in (50, 95, 99)]
    assert done.stdout.splitlines() == ["report", *latencies]
    assert subprocess.run([*argv[:-1], "exit 3"], capture_output=True, check=False).returncode == 3


@pytest.mark.parametrize(
    "report",
    [*(f"{tool}-bad" for tool in LOADS), "h2load-all-404", "h2load-redirected", "wrk-errors"],
)
def test_answers_that_failed_are_no_figure(tmp_path, report):
    tool = report.partition("-")[0]
    if tool in ("h2load", "pgbench"):  # within an interpreter
        tool = "the client"
    with pytest.raises(BenchmarkError, match=f"^{tool} reports (a failure|no success)"):
        read_report(tmp_path, report)


def test_a_load_whose_report_is_not_known_is_said_not_to_be_checked():
    words = ["run", "--dry-run", "--image", "shop", "--load"]
    unknown = CliRunner().invoke(group, [*words, "curl {url}"])
    assert "Answers are not checked" in unknown.output
    assert "not checked" not in CliRunner().invoke(group, [*words, "wrk {url}"]).output


def test_of_another_program_the_time_is_the_figure(tmp_path):
    program, _ = drafted(tmp_path, "my-load", "{guest_address}", "{port}")
    assert program.metric[0].elapsed
    assert program.packages == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "STUDY is missing"),
        (["tour", "--serve", "x"], "need --load"),
        (["tour", "--image", "shop", "--load", "wrk {url}"], "takes the place of STUDY"),
        (["--load", "wrk {url}"], "needs --image"),
        (["--image", "shop", "--load", "wrk"], "does not say what it loads"),
        (["--image", "../x", "--load", "wrk {url}"], "image cannot be '../x': names are"),
        (["--image", "shop", "--load", "wrk '{url}"], "cannot be split"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words, said):
    done = CliRunner().invoke(group, ["run", "--dry-run", *words])
    assert said in str(done.exception) + done.output


def test_a_file_that_a_program_brings_need_not_be_in_the_image(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nplatforms = ["native"]\n[[program]]\nname = "brought"\nfiles = ["tool"]\n'
        'argv = { guest = ["{files}/tool"] }\n[[program.metric]]\nname = "time"\nunit = "s"\nbetter = "lower"\n'
        'elapsed = true\n[[benchmark]]\nname = "brought"\n[[benchmark]]\nname = "dd"\n'
    )
    brought, dd = checked_points(load(str(tmp_path / "mine.toml")), Image("key", tmp_path))
    assert brought.programs("guest") == []
    assert dd.programs("guest") == ["dd"]
    assert dd.programs("peer") == []
