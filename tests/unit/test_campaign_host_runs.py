"""Runs in the background: one for an id, its state from what is there, and nothing loaded that only draws."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from a_run import begin, fill, put_store
from command_line import invoked, output_of, refusal

from vtax.campaign import detached, host_runs
from vtax.campaign.detached import carry_out, start, systemd_command
from vtax.campaign.host_runs import End, Request, RequestedRun, ids, state_of
from vtax.errors import BadInput, NotFound, RunInterrupted, VtaxError
from vtax.extras import EXTRAS
from vtax.host.home import Home
from vtax.host.lock import is_measuring, measuring_lock
from vtax.host.waiting import wait_until
from vtax.messages import Note
from vtax.store.store import Store

REQUEST = Request("/studies/mine.toml", "ab" * 32)
STARTED_S = 30.0
FULL = "the disk is full"


@pytest.fixture
def place(private_home: Home) -> RequestedRun:
    """The place of the id `c1-s1`, for which nothing was requested yet."""
    return RequestedRun.of(private_home, "c1-s1")


@pytest.fixture
def without_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "SYSTEMD", Path("/nonexistent"))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids whose process would have been started; none is."""
    found: list[str] = []
    monkeypatch.setattr(detached, "_launch", lambda place: found.append(place.id))
    return found


def stored(place: RequestedRun, status: str, because: str = "", tag: str = "") -> None:
    """A run of the store with the tag, of four blocks, that ended so."""
    put_store(place.home.store_file, measure, status, because, tag or place.tag)


def measure(store: Store, status: str, because: str, tag: str) -> None:
    run = begin(store, tags=[tag])
    fill(run, blocks=4, finishes=False)
    if status != "running":
        run.finish(status, because, 1_700_000_900.0)


def requested(place: RequestedRun, end: End | None = None) -> None:
    place.write_request(REQUEST)
    if end is not None:
        place.write_end(end)


def test_nothing_that_was_never_requested_is_there(place):
    assert state_of(place).state == "absent"
    assert not place.directory.exists()
    assert ids(place.home) == []
    with pytest.raises(NotFound, match="no run c1-s1 was requested"):
        carry_out(place)


@pytest.mark.parametrize("text", ["", "-a", "A", "a/b", "..", "a" * 31, "a b", "a\n"])
def test_an_id_is_a_plain_name(private_home, text):
    with pytest.raises(BadInput, match="no id of a run"):
        RequestedRun.of(private_home, text)


@pytest.mark.parametrize(
    ("status", "end", "state"),
    [
        ("finished", End(0, "", "/b.vtax.gz", "cd" * 32), "done"),
        ("finished", End(1, "every trial of tour-1 failed", "/b.vtax.gz", "cd" * 32), "failed"),
        ("finished", End(1, "the disk is full"), "interrupted"),
        ("finished", None, "interrupted"),
        ("paused", End(0), "paused"),
        ("paused", End(2, "vtax resume refused it"), "interrupted"),
        ("paused", End(75, "tour-9 has this host to itself"), "busy"),
        ("interrupted", End(143), "interrupted"),
        ("failed", End(1), "failed"),
        ("running", None, "interrupted"),
    ],
)
def test_the_state_is_that_of_the_run_and_of_its_process(place, status, end, state):
    requested(place, end)
    stored(place, status, "because of something")
    found = state_of(place)
    assert (found.state, found.run) == (state, "tour-1")
    assert (found.block, found.done_trials > 0, found.failed_trials) == (4, True, 1)
    if end is not None:
        assert (found.bundle, found.bundle_sha256) == (end.bundle, end.bundle_sha256)
        assert found.reason == (
            end.reason or ("" if status == "finished" else "because of something")
        )


def test_a_further_request_keeps_the_log_and_has_an_error_of_its_own_alone(place, launched):
    requested(place, End(143))
    stored(place, "interrupted", "stopped")
    place.log.write_text(f"vtax: {FULL}\n")
    start(place, REQUEST)
    assert FULL in place.log.read_text()
    place.end.unlink()
    assert (launched, state_of(place).state, state_of(place).reason) == (
        ["c1-s1"],
        "interrupted",
        "",
    )


def test_what_did_not_begin_says_why(place):
    requested(place, End(2, FULL))
    assert (state_of(place).state, state_of(place).reason) == ("refused", FULL)
    requested(place, End(75, "tour-9 has this host to itself"))
    assert state_of(place).state == "busy"
    place.end.unlink()
    place.log.write_text(
        f"image 34c4 is not built yet\nvtax: {FULL}\n  hint: free some of 'vtax: mine'\n"
    )
    found = state_of(place)
    assert (found.state, found.reason) == (
        "interrupted",
        f"{FULL} hint: free some of 'vtax: mine'",
    )


def test_a_run_of_another_id_is_not_its_run(place):
    requested(place, End(0))
    stored(place, "finished", tag="host-run-c1-s10")
    assert (state_of(place).state, state_of(place).run) == ("refused", "")


def test_it_runs_while_its_process_holds_its_lock(place):
    requested(place)
    with measuring_lock("vtax host work c1-s1", place.lock):
        assert (state_of(place).state, state_of(place).run, state_of(place).block) == (
            "running",
            "",
            None,
        )
        stored(place, "running")
        assert (state_of(place).state, state_of(place).run, state_of(place).block) == (
            "running",
            "tour-1",
            4,
        )
        found = json.loads(output_of("host", "status", "--json"))
        assert found["schema"] == "vtax.host-status/1"
        assert [(each["id"], each["state"]) for each in found["runs"]] == [("c1-s1", "running")]
    assert "interrupted" in output_of("host", "status", "c1-s1")


@pytest.mark.parametrize(
    ("status", "end", "next_session", "starts"),
    [
        ("", None, False, True),
        ("", End(2, "refused"), False, True),
        ("", End(75, "busy"), False, True),
        ("interrupted", End(143), False, True),
        ("finished", None, False, True),
        ("paused", End(0), True, True),
        ("paused", End(0), False, False),
        ("finished", End(0), True, False),
        ("failed", End(1), False, False),
    ],
)
def test_a_further_request_starts_what_is_missing_and_nothing_else(
    place, launched, status, end, next_session, starts
):
    requested(place, end)
    if status:
        stored(place, status)
    start(place, Request("/studies/mine.toml", "ab" * 32, next_session=next_session))
    assert launched == ["c1-s1"] * starts


def test_the_first_request_starts_it_and_one_while_it_runs_does_not(place, launched):
    start(place, REQUEST)
    assert launched == ["c1-s1"]
    assert place.request() == REQUEST
    with measuring_lock("vtax host work c1-s1", place.lock):
        assert start(place, REQUEST).state == "running"
    assert launched == ["c1-s1"]


def test_an_id_is_of_one_study_and_scale(place, launched):
    start(place, REQUEST)
    study, digest = REQUEST.study, REQUEST.digest
    for other in (
        Request(study, "cd" * 32),
        Request(study, digest, "quick"),
        Request(study, digest, blocks=9),
    ):
        with pytest.raises(BadInput, match="c1-s1 is the id of another study"):
            start(place, other)
    assert launched == ["c1-s1"]
    assert place.request() == REQUEST


def test_a_host_of_a_controller_needs_no_database_of_others(place, launched, use_store, golden):
    use_store("postgresql://user:secret@db.example/vtax")
    with pytest.raises(BadInput) as refused:
        start(place, REQUEST)
    golden(str(refused.value))
    assert "secret" not in str(refused.value)
    assert launched == []


def test_the_command_requests_a_study_by_its_path_and_digest(
    private_home, launched, taken_for_root, tmp_path
):
    found = json.loads(
        output_of("host", "run", "c1-s1", "santos2008", "--scale", "quick", "--seed", "7", "--json")
    )
    assert (found["schema"], found["id"]) == ("vtax.host-run/1", "c1-s1")
    request = RequestedRun.of(private_home, "c1-s1").request()
    assert (Path(request.study).name, request.scale, request.seed, len(request.digest)) == (
        "santos2008.toml",
        "quick",
        7,
        64,
    )
    output_of("host", "run", "c1-s2", "tour", "--blocks", "12", "--json")
    assert RequestedRun.of(private_home, "c1-s2").request().blocks == 12
    assert "no study 'toor'" in str(refusal("host", "run", "c1-s1", "toor"))
    assert "no scale 'slow'" in str(refusal("host", "run", "c1-s1", "tour", "--scale", "slow"))
    assert launched == ["c1-s1", "c1-s2"]


@pytest.mark.parametrize(
    ("status", "request_", "command"),
    [
        (
            "",
            Request("/m.toml", "", "quick", 12, 7, trust=True),
            [
                "run",
                "/m.toml",
                "--yes",
                "--tag",
                "host-run-c1-s1",
                "--scale",
                "quick",
                "--blocks",
                "12",
                "--seed",
                "7",
                "--trust",
            ],
        ),
        (
            "interrupted",
            Request("/m.toml", "", "quick", tune_host=True),
            ["resume", "tour-1", "--tune-host"],
        ),
        ("paused", Request("/m.toml", "", next_session=True), ["resume", "tour-1", "--session"]),
        ("paused", Request("/m.toml", ""), []),
        ("finished", Request("/m.toml", "", next_session=True), []),
    ],
)
def test_its_process_does_what_is_missing_and_writes_the_bundle(place, status, request_, command):
    place.write_request(request_)
    if status:
        stored(place, status)
    called = []

    def vtax(place: RequestedRun, arguments: list[str]) -> int:
        assert is_measuring(place.lock)
        called.append(list(arguments))
        if arguments[0] == "export":
            Path(arguments[-1]).write_bytes(b"a bundle")
        elif not status:
            stored(place, "finished")
        return 0

    carry_out(place, vtax)
    bundle = place.directory / "run.vtax.gz"
    assert called == [*([command] if command else []), ["export", "tour-1", "-o", str(bundle)]]
    found = state_of(place)
    assert (found.bundle, len(found.bundle_sha256)) == (str(bundle), 64)


@pytest.mark.parametrize(
    ("status", "end", "ends"),
    [
        ("finished", End(0), 0),
        ("", End(75, "tour-9 has this host to itself"), 75),
        ("interrupted", End(143), 1),
        ("", End(2, "no such study"), 1),
        ("finished", End(1, "every trial failed"), 1),
    ],
)
def test_in_the_foreground_the_exit_status_is_that_of_the_run(
    place, taken_for_root, monkeypatch, status, end, ends
):
    def carried_out(place: RequestedRun) -> None:
        if status:
            stored(place, status)
        place.write_end(end)

    monkeypatch.setattr(detached, "carry_out", carried_out)
    found = invoked("host", "run", "c1-s1", "santos2008", "--foreground", "--json")
    assert (getattr(found.exception, "exit_status", 0), end.reason in found.output) == (ends, True)


def test_a_bundle_that_cannot_be_written_is_written_by_the_next_request_and_nothing_is_measured(
    place, monkeypatch
):
    requested(place)
    stored(place, "finished")
    place.log.write_text(f"vtax: {FULL}\n")
    carry_out(place, lambda place, arguments: 1)
    assert (state_of(place).state, state_of(place).reason) == ("interrupted", FULL)
    called: list[str] = []

    def vtax(place: RequestedRun, arguments: list[str]) -> int:
        called.append(arguments[0])
        return Path(arguments[-1]).write_bytes(b"a bundle") and 0

    monkeypatch.setattr(detached, "_run_vtax", vtax)
    start(place, REQUEST, in_foreground=True)
    assert (state_of(place).state, called) == ("done", ["export"])


def test_a_request_to_stop_ends_the_run_first_and_keeps_its_bundle(place):
    requested(place)

    def vtax(place: RequestedRun, arguments: list[str]) -> int:
        if arguments[0] == "run":
            stored(place, "interrupted", "stopped on request (SIGTERM)")
            raise RunInterrupted("stopped on request (SIGTERM)", signal=signal.SIGTERM)
        Path(arguments[-1]).write_bytes(b"a bundle")
        return 0

    with pytest.raises(RunInterrupted):
        carry_out(place, vtax)
    found = state_of(place)
    assert (found.state, found.reason) == ("interrupted", Note("stopped", name="SIGTERM"))
    assert found.bundle.endswith("run.vtax.gz")


@pytest.mark.slow
def test_a_real_process_outlives_the_request_and_says_why_it_refused(place, without_systemd):
    began = time.monotonic()
    start(place, Request("/nonexistent/mine.toml", ""))
    assert time.monotonic() - began < STARTED_S
    assert wait_until(lambda: state_of(place).state == "refused", STARTED_S, 0.1)
    assert "no such file" in state_of(place).reason
    assert not is_measuring(place.lock)


@pytest.mark.slow
def test_a_real_process_writes_a_bundle_that_others_can_read(place, without_systemd):
    requested(place)
    stored(place, "finished")
    start(place, REQUEST)
    assert wait_until(lambda: state_of(place).state == "done", STARTED_S, 0.1), state_of(place)
    found = state_of(place)
    with gzip.open(found.bundle) as bundle:
        assert b"vtax" in bundle.readline()


def test_a_process_that_does_not_start_is_an_error(place, monkeypatch, without_systemd):
    monkeypatch.setattr(detached, "_START_S", 0.2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(VtaxError, match=r"c1-s1 .*not start"):
        start(place, REQUEST)


def test_where_systemd_runs_a_unit_of_its_own_holds_the_process(place):
    command = systemd_command(place, ["python", "-m", "vtax"], {"VTAX_HOME": "/h", "PATH": "/bin"})
    assert command[:4] == ["systemd-run", "--quiet", "--collect", "--unit=vtax-host-run-c1-s1"]
    assert "--property=KillMode=mixed" in command
    assert command[-6:] == [
        "--setenv=PATH=/bin",
        "--setenv=VTAX_HOME=/h",
        "--",
        "python",
        "-m",
        "vtax",
    ]


@pytest.mark.slow
def test_a_measuring_host_loads_nothing_that_only_draws(place):
    """Nor the run that it makes, whose plan is the command of a run that nothing is measured by."""
    code = (
        "import os, sys\n"
        "from vtax.campaign import detached\n"
        "from vtax.cli.main import main\n"
        "detached._launch, os.geteuid = (lambda place: None), (lambda: 0)\n"
        "for words in (['check', '--json'], ['status'], ['run', 'c1-s1', 'tour']):\n"
        "    if words[0] == 'run': os.remove(sys.argv[1])\n"
        "    try: main(['host', *words])\n"
        "    except SystemExit as end: assert end.code == 0, (words, end.code)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    requested(place, End(0))
    stored(place, "finished")
    environment = {**os.environ, "VTAX_HOME": str(place.home.root), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", code, place.directory / "request.json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(done.stderr.splitlines()[-1].replace("'", '"')))
    assert {"vtax", "sqlalchemy"} <= loaded
    assert loaded & {*EXTRAS, "pandas", "statsmodels", "matplotlib"} == set()


def test_ids_are_listed_in_order(private_home):
    for name in ("b", "a"):
        requested(RequestedRun.of(private_home, name))
    (host_runs.host_runs_of(private_home) / "NOT").mkdir()
    assert ids(private_home) == ["a", "b"]


def test_a_run_over_several_boots_goes_on_when_it_is_requested_again(place, launched):
    request = replace(REQUEST, has_boots=True)
    place.write_request(request)
    place.write_end(End(0))
    stored(place, "paused")
    assert start(place, request).state == "paused"  # as none is started here
    assert launched == ["c1-s1"]
    assert detached._next_command(place, request) == ["resume", "tour-1"]
    assert detached._next_command(place, REQUEST) == []


@pytest.mark.parametrize("command", ["status", "stop"])
def test_a_run_that_nobody_requested_is_an_error(private_home, command, taken_for_root):
    assert "no run nobody was requested" in str(refusal("host", command, "nobody"))


def test_a_controller_is_answered_that_a_run_is_absent(private_home):
    assert (
        json.loads(output_of("host", "status", "nobody", "--json"))["runs"][0]["state"] == "absent"
    )
