"""Terminal output: listings, and the lines of trials with their levels."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.text import Text

from vtax.cli.main import group
from vtax.cli.output import print_table
from vtax.cli.progress import PlainProgress, done_text
from vtax.cli.show import console
from vtax.runner.events import EndedTrial, Progress

PROGRESS = Progress(0, 3, 5, 336, 60.0, 90.0)


def test_a_listing_prints_brackets_as_they_are(capsys):
    printed = " ".join(CliRunner().invoke(group, ["topologies"]).output.split())
    assert "a [[platform]] with uplinks" in printed
    print_table(("[a]", "b"), [("[red]x[/red]", Text("y", style="red"))])
    head, _, row = capsys.readouterr().out.strip().splitlines()
    assert (head.split(), row.split()) == (["[a]", "b"], ["[red]x[/red]", "y"])


@pytest.mark.parametrize(("columns", "maximum"), [("80", 80), ("", 160), ("many", 160), ("0", 160)])
def test_a_listing_in_a_pipe_is_as_wide_as_columns_says_and_pads_nothing(
    capsys, columns, maximum, set_width
):
    set_width(columns)
    print_table(("name", "text"), [("a", "word " * 100), ("b", "")])
    lines = capsys.readouterr().out.splitlines()
    assert maximum - 10 < max(map(len, lines)) <= maximum
    assert all(line == line.rstrip() for line in lines)
    assert console().width == maximum


def test_a_line_tells_the_levels_of_its_point(capsys):
    with PlainProgress() as printed:
        printed.trial_ended(
            EndedTrial(
                "native", "netperf", "mtu=1500, message_size=64", (10510.0, "Mbit/s"), "", PROGRESS
            )
        )
        printed.trial_ended(
            EndedTrial(
                "native",
                "netperf",
                "mtu=500, message_size=64",
                None,
                "no answer\nand more",
                PROGRESS,
            )
        )
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "[block 1/3, 5/336] native netperf mtu=1500, message_size=64: 10.51 Gbit/s (about 1 min 30 s left)"
    )
    assert "native netperf mtu=500, message_size=64: FAILED: no answer (" in second


def test_a_warm_up_trial_is_not_counted_as_none_of_the_measured(capsys):
    first = Progress(0, 1, 0, 1, 1.0, 3.0, is_warmup=True)
    for progress in (first, replace(first, done_trials=1, is_warmup=False)):
        with PlainProgress() as printed:
            printed.trial_ended(EndedTrial("native", "dd", "", (1.0, "MB/s"), "", progress))
    warmup, measured = capsys.readouterr().err.splitlines()
    assert warmup.startswith("[block 1/1, warm-up] native dd: 1.000 MB/s")
    assert measured.startswith("[block 1/1, 1/1] native dd: 1.000 MB/s")
    assert done_text(first) == ""
    assert done_text(PROGRESS) == "5/336"


def test_short_trials_give_a_line_every_ten_seconds_and_one_for_each_failure(capsys, monkeypatch):
    clock = 0.0
    monkeypatch.setattr("time.monotonic", lambda: clock)
    with PlainProgress() as printed:
        for number in range(300):
            clock = 100 + number / 10
            error = "no answer" if number == 42 else ""
            progress = replace(PROGRESS, done_trials=number)
            printed.trial_ended(EndedTrial("native", "dd", "", (1.0, "MB/s"), error, progress))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("]")[0] for line in lines] == [
        f"[block 1/3, {number}/336" for number in (0, 42, 142, 242)
    ]
    assert ["FAILED" in line for line in lines] == [False, True, False, False]
