"""Ctrl-C ends a run with what is there: its result so far, and how to go on. Platforms are scripted."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from scripted_command import start, study_file

from vtax.host.home import Home
from vtax.host.lock import is_measuring
from vtax.store.store import Store

TIME_S = 60.0
CODE = "sleep 0.1; echo 1$(( $(date +%N) % 7 ))"

pytestmark = pytest.mark.usefixtures("private_home")


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are looked at with the measuring lock of the test."""
    monkeypatch.setattr(
        "vtax.store.store.is_measuring", lambda: is_measuring(tmp_path / "host.lock")
    )


def stored_trials() -> int:
    try:
        with Store.existing(Home.from_environment().store_url) as store:
            return store.open_run("last").next_position()
    except Exception:  # it is being made
        return 0


def stopped(
    directory: Path, trials: int, request: signal.Signals, code: str = CODE
) -> tuple[int, str, str]:
    """Return status, output and errors of a run that is asked to stop after so many trials."""
    process = start(
        directory,
        "run",
        study_file(directory, blocks=500, code=code),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + TIME_S
    while stored_trials() < trials:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(request)
    output, errors = process.communicate(timeout=TIME_S)
    status = process.returncode
    return status if status >= 0 else 128 - status, output.decode(), errors.decode()


def test_ctrl_c_prints_the_result_so_far_after_the_lock_is_free(tmp_path):
    status, output, errors = stopped(tmp_path, 12, signal.SIGINT)
    assert status == 130
    lines = output.splitlines()
    assert lines[0].startswith("s-1: interrupted: ")
    assert any(line.startswith("other ") and "%" in line for line in lines)
    assert errors.rstrip().endswith("sudo vtax resume s-1")
    assert not is_measuring(tmp_path / "host.lock")
    assert list(Home.from_environment().journal.iterdir()) == []


def test_one_block_has_no_result_to_print(tmp_path):
    status, output, errors = stopped(tmp_path, 1, signal.SIGINT, "sleep 2; echo 1")
    assert (status, output) == (130, "")
    assert "everything measured so far is kept" in errors


def test_another_request_to_stop_waits_for_no_reader(tmp_path):
    assert stopped(tmp_path, 12, signal.SIGTERM)[:2] == (143, "")
