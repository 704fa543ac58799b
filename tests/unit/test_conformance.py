"""`vtax conformance` without root: every check of declarations, parsers and documents passes, and can fail."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from conformance_plugins import (
    BAD_BENCHMARK,
    BAD_PLATFORM,
    BAD_TOPOLOGY,
    BAD_VIEW,
    BENCHMARK,
    PLATFORM,
    TOPOLOGY,
    VIEW,
    changed,
    result_of,
    target,
)

from vtax.cli.main import group
from vtax.conformance import benchmark, platform, topology, view
from vtax.conformance.check import Check, Failed, Skipped, results
from vtax.conformance.host import HostResources
from vtax.conformance.stage import CheckEnvironment
from vtax.conformance.target import find
from vtax.errors import BadInput
from vtax.guest.results import CommandResult
from vtax.host.home import Home
from vtax.platforms import registry

pytestmark = pytest.mark.slow

GOOD_OUTPUT = "2000 loops, best of 5: 7.5 usec per loop\n"
LIVE_PLATFORM = {
    "probe-without-image",
    "probe",
    "probe-leaks",
    "start",
    "confinement",
    "fairness",
    "scratch",
    "network",
}
LIVE_BENCHMARK = {"runs", "version-in-guest"}
LIVE_TOPOLOGY = {
    "check-host",
    "build",
    "ends",
    "flows",
    "host-untouched",
    "close",
    "traffic",
    "mtu-change",
    "leaks-after-kill",
}


@pytest.fixture
def environment(tmp_path: Path) -> CheckEnvironment:
    return CheckEnvironment(Home(tmp_path / "home"), None, "no guests here")


def subject(
    kind: str, source: str, environment: CheckEnvironment, tmp_path: Path
) -> tuple[Any, Any]:
    found = target(source, tmp_path)
    assert found.kind == kind
    if kind == "platform":
        return platform.CHECKS, platform.PlatformSubject(found, environment)
    if kind == "topology":
        return topology.CHECKS, topology.TopologySubject(found, environment)
    if kind == "view":
        return view.CHECKS, view.ViewSubject(found)
    good, failed = tmp_path / "good.txt", tmp_path / "failed.txt"
    good.write_text(GOOD_OUTPUT)
    failed.write_text("Traceback: no such thing\n")
    return benchmark.CHECKS, benchmark.BenchmarkSubject(found, environment, [good], [failed])


def static(changes: dict[str, tuple[str, str]], live: set[str]) -> list[str]:
    return [name for name in changes if name not in live]


CASES = [
    *(("platform", PLATFORM, BAD_PLATFORM, name) for name in static(BAD_PLATFORM, LIVE_PLATFORM)),
    *(
        ("benchmark", BENCHMARK, BAD_BENCHMARK, name)
        for name in static(BAD_BENCHMARK, LIVE_BENCHMARK)
    ),
    *(("topology", TOPOLOGY, BAD_TOPOLOGY, name) for name in static(BAD_TOPOLOGY, LIVE_TOPOLOGY)),
    *(("view", VIEW, BAD_VIEW, name) for name in BAD_VIEW),
]


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("platform", PLATFORM),
        ("benchmark", BENCHMARK),
        ("topology", TOPOLOGY),
        ("view", VIEW),
    ],
    ids=["platform", "benchmark", "topology", "view"],
)
def test_every_check_passes_what_is_right_and_skips_what_needs_guests(
    kind, source, environment, tmp_path
):
    made = list(results(*subject(kind, source, environment, tmp_path)))
    assert {each.status for each in made} <= {"pass", "skipped"}, made
    if kind == "benchmark":
        skipped = {each.name: each.reason for each in made if each.status == "skipped"}
        assert skipped == dict.fromkeys(LIVE_BENCHMARK, "no guests here")


@pytest.mark.parametrize(
    ("kind", "source", "changes", "name"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES]
)
def test_a_check_fails_what_is_wrong(kind, source, changes, name, environment, tmp_path):
    checks, bad_subject = subject(kind, changed(source, changes[name]), environment, tmp_path)
    bad = result_of(checks, name, bad_subject)
    assert (bad.status, bool(bad.reason), bool(bad.hint)) == ("fail", True, True), bad


def fake(running: Any, guest: Any, image: Any = None) -> Any:
    """A subject whose guest is a stand-in that misbehaves."""
    stage = SimpleNamespace(
        guest=lambda: guest, image=image, journal=SimpleNamespace(registered=("its directory",))
    )
    return SimpleNamespace(
        started=(stage, running),
        close=lambda: None,
        before=None,
        driver=registry.get("podman").driver,
    )


def ran(status: int = 0, stdout: str = "", stderr: str = "") -> Any:
    return lambda argv, timeout_s: CommandResult(tuple(argv), status, stdout, stderr, 0.1, 0.1)


def ever_stops(counts: list[int]) -> None:
    counts.append(1)
    if len(counts) > 1:
        raise RuntimeError("it is gone already")


@pytest.mark.parametrize(
    ("name", "running", "guest"),
    [
        ("journal", SimpleNamespace(), None),
        ("run", SimpleNamespace(), SimpleNamespace(run=ran(0, "out\n", "err\n"))),
        (
            "files",
            SimpleNamespace(scratch="/scratch"),
            SimpleNamespace(put=lambda path, data: None, get=lambda path: b"other", run=ran()),
        ),
        (
            "image-files",
            SimpleNamespace(is_remote=False),
            SimpleNamespace(get=lambda path: b"other"),
        ),
        ("limits", SimpleNamespace(notes=()), SimpleNamespace(output_of=lambda argv: "2\n")),
        (
            "confinement",
            SimpleNamespace(is_remote=False),
            SimpleNamespace(put=lambda path, data: None, run=ran(0, '["bpf"]')),
        ),
        (
            "cpu-time",
            SimpleNamespace(host_cpu_s=lambda: 3.0),
            SimpleNamespace(output_of=lambda argv: ""),
        ),
    ],
)
def test_a_guest_that_misbehaves_fails_its_check(name, running, guest, tmp_path):
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/env").write_bytes(b"the image's")
    (check,) = (check for check in platform.CHECKS if check.name == name)
    with pytest.raises(Failed):
        check.run(fake(running, guest, SimpleNamespace(tree=tmp_path)))


def test_a_guest_that_stops_once_only_and_one_that_leaves_something_fail(environment):
    stops: list[int] = []
    checks = {check.name: check for check in platform.CHECKS}
    stopped = fake(SimpleNamespace(stop=lambda: ever_stops(stops)), None)
    (result,) = results([Check("stop", checks["stop"].run, "hint")], stopped)
    assert result.status == "fail"
    before = HostResources(
        {kind: frozenset() for kind in HostResources.now(environment.home, "t").found}
    )
    environment.home.guests.mkdir(parents=True)
    assert any(
        left.startswith("mount ")
        for left in HostResources.now(environment.home, "t").more_than(before)
    )


def test_a_channel_that_many_bytes_break_fails_none_but_the_last_check_of_a_running_guest():
    """A serial line may carry too little, or stand still; no call is answered after that."""
    names = [check.name for check in platform.CHECKS]
    assert names[names.index("files") + 1] == "stop"


def test_every_check_has_a_case_that_fails():
    fakes = {
        "journal",
        "run",
        "files",
        "image-files",
        "limits",
        "cpu-time",
        "stop",
        "leaks-after-stop",
    }
    cases = {
        "platform": (platform.CHECKS, {*BAD_PLATFORM, *fakes, "leaks-after-kill"}),
        "benchmark": (benchmark.CHECKS, set(BAD_BENCHMARK)),
        "topology": (topology.CHECKS, set(BAD_TOPOLOGY)),
        "view": (view.CHECKS, set(BAD_VIEW)),
    }
    for kind, (checks, with_case) in cases.items():
        assert {check.name for check in checks} == with_case, kind  # type: ignore[attr-defined]


def test_a_check_that_hangs_fails_in_time():
    (result,) = results([Check("slow", lambda _: time.sleep(30), "be quick", limit_s=0.2)], None)
    assert (result.status, "did not end within 0.2 s" in result.reason) == ("fail", True)


def test_what_needs_a_failed_check_is_skipped_and_a_skipped_one_says_why():
    def skip(_: None) -> None:
        raise Skipped("not here")

    found = list(results([Check("a", skip, "x"), Check("b", lambda _: None, "y", ("a",))], None))
    assert [(each.status, each.reason) for each in found] == [
        ("skipped", "not here"),
        ("skipped", "a did not pass"),
    ]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(group, ["conformance", *arguments], catch_exceptions=False)


def test_the_command_names_checks_in_json_and_by_its_exit_status(
    tmp_path, ordinary_user, unmade_home
):
    path = tmp_path / "failures.py"
    path.write_text(VIEW)
    result = run(str(path), "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert (found["kind"], found["fail"], found["pass"]) == ("view", 0, len(view.CHECKS))
    path.write_text(changed(VIEW, BAD_VIEW["name"]))
    result = run(str(path))
    assert result.exit_code == 1
    assert "lower-case letters" in " ".join(result.stdout.split())


def test_skipped_checks_do_not_fail(tmp_path, ordinary_user, unmade_home):
    path = tmp_path / "timeit.py"
    path.write_text(BENCHMARK)
    assert run(str(path), "--set", "keys=10").exit_code == 0
    assert run(str(path), "--set", "keys=0").exit_code == 1


@pytest.mark.parametrize(
    "argument", ["no_such_module", "no-such-file.py", "json", "vtax.platforms.base"]
)
def test_what_is_no_plugin_is_bad_input(argument):
    with pytest.raises(BadInput):
        find(argument)


@pytest.mark.parametrize(
    "name", ["dd", "iperf3", "stream", "netperf", "sockperf", "sysbench_cpu", "iperf2"]
)
def test_shipped_benchmarks_conform(name, environment):
    (found,) = find(f"vtax.benchmarks.{name}")
    made = list(results(benchmark.CHECKS, benchmark.BenchmarkSubject(found, environment)))
    assert [result for result in made if result.status == "fail"] == []
