"""The gate of `vtax run --check`, and a busy host: exit status, files, and which run is judged.

The command has scripted platforms.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripted_command import host_of_scripts, start

from vtax.cli.main import main
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.store.store import Store

BUSY, REFUSED, FAILED, UNSEEN = 75, 2, 1, 3
GATE = ("--check", "5%", "--detect", "10%")
STUDY = """
name = "s"
platforms = ["native", "mine"]
[design]
blocks = 5
seed = 7
[[platform]]
name = "mine"
driver = "scripted"
mark = "mine"
[[benchmark]]
name = "script"
parameters = {{ code = '''if [ "$VTAX_MARK" = mine ]; then {figure}; else {native}; fi''' }}
"""
STEADY = "echo 1000 $(date +%N) | awk '{print $1 + $2 % 7}'"
SLOW = "echo 500 $(date +%N) | awk '{print $1 + $2 % 7}'"
NOISY = (
    "n=$(cat COUNTER 2>/dev/null || echo 0); echo $((n + 1)) > COUNTER; "
    "echo 600 1500 1000 1400 700 | cut -d' ' -f$((n % 5 + 1))"
)

pytestmark = pytest.mark.usefixtures("private_home")


@dataclass(frozen=True)
class Ended:
    status: int
    output: str
    errors: str


def arguments_of(directory: Path, figure: str, options: tuple[str, ...]) -> list[str]:
    """Those of `vtax run` of a study whose platform `mine` prints this."""
    study = directory / "s.toml"
    figure = figure.replace("COUNTER", str(directory / "counter"))
    study.write_text(STUDY.format(figure=figure, native=STEADY), encoding="utf-8")
    return ["run", str(study), "--yes", *options]


def run_as_process(directory: Path, figure: str, *options: str) -> Ended:
    """`vtax run` to its end, as a pipeline starts it. Its output in one line."""
    arguments = arguments_of(directory, figure, options)
    started = start(directory, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = (text.decode() for text in started.communicate(timeout=120))
    return Ended(started.returncode, " ".join(output.split()), " ".join(errors.split()))


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """`run(figure, *options)` does the same in this process."""
    host_of_scripts(monkeypatch, tmp_path / "host.lock")

    def ended(figure: str, *options: str) -> Ended:
        with pytest.raises(SystemExit) as caught:
            main(arguments_of(tmp_path, figure, options))
        output, errors = capsys.readouterr()
        return Ended(caught.value.code, " ".join(output.split()), " ".join(errors.split()))

    return ended


def runs() -> list[str]:
    with Store.existing(Home.from_environment().store_url) as store:
        return list(store.run_names())


def suite(path: Path) -> dict[str, str]:
    found = ElementTree.parse(path).getroot().find("testsuite")
    return found.attrib


def test_a_run_is_judged_at_its_end(tmp_path):
    junit = tmp_path / "gate.xml"
    passed = run_as_process(tmp_path, STEADY, *GATE, "--junit", str(junit))
    assert passed.status == 0, passed
    assert "The check passed: 1 comparison has a loss of at most 5 %." in passed.output
    assert (suite(junit)["tests"], suite(junit)["failures"]) == ("1", "0")
    assert runs() == ["s-1"]


def test_what_became_slower_fails_the_run_and_its_junit_file(tmp_path):
    junit = tmp_path / "gate.xml"
    failed = run_as_process(tmp_path, SLOW, *GATE, "--junit", str(junit))
    assert failed.status == FAILED, failed
    assert (
        "The check failed: 1 comparison is slower, above a loss of 5 %: mine on script"
        in failed.output
    )
    assert suite(junit)["failures"] == "1"


def test_what_could_not_have_been_seen_fails_only_with_detect(run):
    undecided = run(NOISY, "--check", "5%")
    assert undecided.status == 0, undecided
    assert "1 comparison is undecided: mine on script" in undecided.output
    assert "could have shown" in undecided.output
    assert run(NOISY, "--check", "5%", "--strict").status == UNSEEN
    blind = run(NOISY, *GATE)
    assert blind.status == UNSEEN, blind
    assert runs() == ["s-1", "s-2", "s-3"]


def test_what_the_margin_lets_pass_cannot_be_asked_for(run):
    for detect in ("2%", "5%"):
        refused = run(STEADY, "--check", "5%", "--detect", detect)
        assert (refused.status, refused.output) == (REFUSED, "")
        assert "where: --detect" in refused.errors
    assert not Home.from_environment().store_file.exists()


def test_a_gate_judges_the_run_that_it_made_and_no_other(run, tmp_path):
    junit = tmp_path / "gate.xml"
    assert run(SLOW).status == 0
    assert run(STEADY, *GATE, "--junit", str(junit)).status == 0
    assert runs() == ["s-1", "s-2"]
    assert "s-2" in junit.read_text(encoding="utf-8")
    assert "s-1" not in junit.read_text(encoding="utf-8")


def test_a_refused_run_gives_no_verdict(run, tmp_path):
    assert run(STEADY).status == 0
    junit = tmp_path / "gate.xml"
    gate = (*GATE, "--junit", str(junit))
    with measuring_lock("tour-7", tmp_path / "host.lock"):
        busy = run(STEADY, *gate)
    assert busy.status == BUSY
    assert "tour-7 (process " in busy.errors
    assert "try again later" in busy.errors
    refused = run(STEADY, *gate, "--sessions", "2")
    assert (refused.status, refused.output) == (REFUSED, "")
    assert busy.output == ""
    assert not junit.exists()
    assert runs() == ["s-1"]
    without = run(STEADY, "--detect", "10%")
    assert (without.status, without.output) == (REFUSED, "")
    assert "add --check 5%" in without.errors


def test_wait_runs_once_the_host_is_free_and_gives_up_in_time(run, tmp_path):
    lock = tmp_path / "host.lock"
    with measuring_lock("tour-7", lock):
        began = time.monotonic()
        busy = run(STEADY, "--wait", "2s")
        assert busy.status == BUSY, busy
        assert time.monotonic() - began > 2
        assert "tour-7 (process " in busy.errors
    holder = holds(lock, 4.0)
    waited = run(STEADY, "--wait", "60s", *GATE)
    assert holder.poll() == 0
    assert waited.status == 0, waited
    assert runs() == ["s-1"]


def holds(lock: Path, duration_s: float) -> subprocess.Popen[str]:
    """A process that holds the lock for so long, once it has it."""
    program = (
        "import sys, time; from pathlib import Path; from vtax.host.lock import measuring_lock\n"
        "with measuring_lock('tour-8', Path(sys.argv[1])): print('held', flush=True); time.sleep(float(sys.argv[2]))"
    )
    held = subprocess.Popen(
        [sys.executable, "-c", program, str(lock), str(duration_s)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert held.stdout.readline() == "held\n"
    return held
