"""Whoever reads what vtax says may stall: that costs no measurement, holds no lock, and can always be ended.

Readers are real pipes that are full and real terminals that are paused.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scripted_command import start as start_command
from scripted_command import study_file

from vtax.host.home import Home
from vtax.host.lock import is_measuring
from vtax.store.store import Store

XOFF, XON = b"\x13", b"\x11"  # what Ctrl-S and Ctrl-Q send
TIME_S = 30.0

pytestmark = pytest.mark.usefixtures("private_home")


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIME_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def writes_in_vain(process: subprocess.Popen[bytes], descriptor: int) -> bool:
    """Whether a thread of a process is in write(2) to this open file."""
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        number, words = "", list[str]()
        with suppress(
            ProcessLookupError, FileNotFoundError
        ):  # a thread that ended since it was listed
            number, *words = (task / "syscall").read_text().split()
        if (
            number in ("1", "64") and words and words[0] == hex(descriptor)
        ):  # of write on x86-64 and on arm64
            return True
    assert process.poll() is None
    return False


def status_of_the_run() -> str:
    try:
        with Store.existing(Home.from_environment().store_url) as store:
            return next((run.status for run in store.runs()), "")
    except Exception:  # it is being made
        return ""


def ended(process: subprocess.Popen[bytes], request: signal.Signals) -> int:
    """The exit status, as a shell tells it, of a process that is asked to stop; at once, since nobody reads."""
    process.send_signal(request)
    status = process.wait(60)
    return status if status >= 0 else 128 - status


_started: list[subprocess.Popen[bytes]] = []


def start(*arguments: Any, **streams: Any) -> subprocess.Popen[bytes]:
    _started.append(start_command(*arguments, **streams))
    return _started[-1]


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a failed test leaves waiting is ended. Runs are looked at with the measuring lock of the test."""
    monkeypatch.setattr(
        "vtax.store.store.is_measuring", lambda: is_measuring(tmp_path / "host.lock")
    )
    yield
    while _started:
        _started.pop().kill()


@pytest.fixture
def full_pipe() -> Iterator[tuple[int, int]]:
    """(reading, writing) end of a pipe that takes nothing more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"#" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    yield reading, writing
    for end in (reading, writing):
        try:
            os.close(end)
        except OSError:
            continue


@pytest.fixture
def paused_terminal() -> Iterator[tuple[int, int]]:
    """(our, its) end of a terminal on which Ctrl-S was typed."""
    ours, its = pty.openpty()
    os.write(ours, XOFF)
    time.sleep(0.1)
    yield ours, its
    os.close(ours)
    os.close(its)


def read_all(reading: int) -> str:
    found = b""
    while piece := _read(reading):
        found += piece
    return found.decode().lstrip("#")


def _read(reading: int) -> bytes:
    try:
        return os.read(reading, 65536)
    except OSError:  # of a terminal without another end
        return b""


def test_a_run_ends_and_frees_the_host_while_nobody_reads_what_it_says(tmp_path, full_pipe):
    reading, writing = full_pipe
    with (tmp_path / "out").open("wb") as out:
        process = start(tmp_path, "run", study_file(tmp_path), stdout=out, stderr=writing)
    os.close(writing)
    wait_for(lambda: status_of_the_run() == "finished" and not is_measuring(tmp_path / "host.lock"))
    wait_for(lambda: "equivalent" in (tmp_path / "out").read_text())
    assert process.poll() is None
    printed = read_all(reading)
    assert process.wait(TIME_S) == 0
    assert "[block 1/2, 1/4]" in printed
    assert printed.endswith("report: vtax report s-1\n")


@pytest.mark.parametrize("kind", ["full_pipe", "paused_terminal"])
def test_a_request_to_stop_is_obeyed_while_nobody_reads(tmp_path, kind, request):
    _, its = request.getfixturevalue(kind)
    study = study_file(tmp_path, blocks=50, code="sleep 0.1; echo 1")
    process = start(tmp_path, "run", study, stdin=subprocess.DEVNULL, stdout=its, stderr=its)
    wait_for(lambda: status_of_the_run() == "running")
    wait_for(lambda: writes_in_vain(process, 2))
    assert ended(process, signal.SIGTERM) == 143
    assert status_of_the_run() == "interrupted"
    assert not is_measuring(tmp_path / "host.lock")
    assert list(Home.from_environment().guests.iterdir()) == []
    assert list(Home.from_environment().journal.iterdir()) == []


def test_a_paused_terminal_gets_all_of_it_later(tmp_path, paused_terminal):
    ours, its = paused_terminal
    with (tmp_path / "out").open("wb") as out:
        process = start(tmp_path, "run", study_file(tmp_path), stdin=its, stdout=out, stderr=its)
    wait_for(lambda: status_of_the_run() == "finished" and not is_measuring(tmp_path / "host.lock"))
    os.write(ours, XON)
    printed = b""
    while b"report: vtax report s-1\r\n" not in printed:
        printed += os.read(ours, 65536)
    assert process.wait(TIME_S) == 0
    assert b"order: block 1: native, other" in printed


@pytest.mark.parametrize("request_to_stop", [signal.SIGTERM, signal.SIGINT])
def test_a_result_waits_for_its_reader_and_for_nothing_else(tmp_path, full_pipe, request_to_stop):
    _, writing = full_pipe
    process = start(
        tmp_path, "run", study_file(tmp_path), stdout=writing, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: status_of_the_run() == "finished" and not is_measuring(tmp_path / "host.lock"))
    wait_for(lambda: writes_in_vain(process, 1))
    assert ended(process, request_to_stop) == 128 + request_to_stop


@pytest.mark.parametrize("command", [["show"], ["show", "--json"], ["list"], ["--help"]])
@pytest.mark.parametrize("request_to_stop", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_nobody_reads_can_be_ended(
    tmp_path, full_pipe, tour_file, use_store, command, request_to_stop
):
    use_store(tour_file)
    process = start(tmp_path, *command, stdout=full_pipe[1], stderr=subprocess.PIPE)
    wait_for(lambda: writes_in_vain(process, 1))
    assert ended(process, request_to_stop) == 128 + request_to_stop
    assert b"Traceback" not in process.communicate()[1]
