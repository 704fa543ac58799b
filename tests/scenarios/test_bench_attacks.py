"""bench/attacks.py: makes the campaigns that are asked for, keeps what ended well, and fails when a part does."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
FRAMES = "test_frames.py::test_whatever_a_guest_sends"


def attacks(log, *options):
    argv = [sys.executable, BENCH / "attacks.py", "--log", log, "--kills", "0", *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def test_parts_that_ended_well_are_noted_and_not_made_again(tmp_path):
    made = attacks(tmp_path, "--only", FRAMES, "--attacks", "200")
    assert made.returncode == 0, made.stderr
    (row,) = [line for line in made.stdout.splitlines() if line.startswith("| test_")]
    assert row.split("|")[2:4] == [" 200 ", " 0 "]
    (log,) = tmp_path.iterdir()
    noted = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted((part["seed"], part["attacks"]) for part in noted) == [(1, 100), (2, 100)]
    again = attacks(tmp_path, "--only", FRAMES, "--attacks", "200")
    assert row in again.stdout
    assert len(log.read_text().splitlines()) == 2


def test_a_part_that_fails_fails_the_campaign(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCH))
    from attacks import Campaigns, Job, Program

    argv = (sys.executable, "-c", "raise SystemExit('hung')")
    campaigns = Campaigns(tmp_path, tmp_path, 1)
    program = Program("test_of_this", 1)
    campaigns.programs.append(program)
    campaigns.pending.append(
        Job(program, 1, 100, argv, tmp_path / "a/log", tmp_path / "a/output", True)
    )
    campaigns.run()
    assert campaigns.failed
    assert "| test_of_this | 100 | 1 |" in capsys.readouterr().out
