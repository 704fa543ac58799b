"""`vtax show --trials` and `--raw`: what was carried out, and what the programs printed. Figures are invented."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest
from a_run import FAILED, begin, fill, trial
from command_line import output_of, refusals

from vtax.store.records import OutputRecord
from vtax.store.store import Store

HOSTILE = "\x1b]0;title\x07\x1b[2Jclear\u202eesrever\r\nnext\x00\n"


@pytest.fixture(scope="module", autouse=True)
def store(module_store: Store) -> Store:
    """tour-1 of two blocks, and odd-1: a trial with hostile output and one without any, before the first block."""
    run = begin(module_store, "odd-1", started_at=1.0)
    cell = next(cell for cell in run.cells if cell.key == "s-docker")
    both = (
        OutputRecord("client", ("iperf3", "-c", "a b\x1b[2J\nc"), -9, HOSTILE, "error \x9b2J\n"),
        OutputRecord("server", ("iperf3", "-s"), 0, "", ""),
    )
    run.add_trial(trial(cell, block=0, position=1, outputs=both, started_at=1_700_000_001.25))
    run.add_trial(
        trial(
            cell,
            block=-1,
            position=0,
            outputs=(),
            status="failed",
            error="no guest\nno fun",
            is_warmup=True,
            values={},
            outside_s=None,
        )
    )
    run.finish("finished", "", 2.0)
    fill(begin(module_store), blocks=4)
    return module_store


def trials(*arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(
        output_of("show", *arguments, "--trials", "--json")
    )["trials"]
    return found


def test_every_trial_is_listed_in_the_order_it_was_made():
    found = trials("tour-1")
    assert [each["position"] for each in found] == list(range(4 * 12 * 3))
    assert {each["block"] for each in found} == {1, 2, 3, 4}
    assert sum(each["is_warmup"] is True for each in found) == 4 * 12
    (failed,) = (each for each in found if each["status"] == "failed")
    assert (failed["cell"], failed["error"]) == (
        "r-qemu-tcg",
        FAILED,
    )
    assert failed["levels"] == {"direction": "receive"}
    lines = output_of("show", "tour-1", "--trials").splitlines()
    assert sum(" native " in line for line in lines) == 4 * 9


def test_start_times_are_of_iso_8601_in_utc():
    last = trials("odd-1")[-1]
    assert last["started"] == "2023-11-14T22:13:21.250Z"
    assert datetime.fromisoformat(str(last["started"])).timestamp() == 1_700_000_001.25
    assert "2023-11-14T22:13:21Z" in output_of("show", "odd-1", "--trials")


def test_filters_leave_what_they_name_and_not_the_baseline():
    found = trials("tour-1", "--platform", "docker", "--where", "direction=send")
    assert {each["cell"] for each in found} == {"s-docker"}
    assert len(found) == 12


@pytest.mark.parametrize("width", ["80", "120", "160"])
def test_the_table_of_trials_fits(width, set_width):
    set_width(width)
    text = output_of("show", "tour-1", "--trials")
    assert max(map(len, text.splitlines())) <= int(width)
    assert "iperf3: unable" in " ".join(text.split())


def test_raw_output_is_shown_with_every_stream_and_no_control_character():
    text = output_of("show", "odd-1", "--raw", "1")
    assert text.startswith(
        "==== trial 1: docker, iperf3, direction=send, block 1, ok (2023-11-14T22:13:21.250Z)\n"
    )
    assert "---- client: iperf3 -c 'a b\ufffd[2J c' (signal 9)\n" in text
    assert "\\x1b]0;title\\x07\\x1b[2Jclear\\u202eesrever\nnext\\x00\n" in text
    assert "---- client stderr\nerror \\x9b2J\n" in text
    assert "---- server: iperf3 -s (exit status 0)\n" in text
    assert "server stdout" not in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_raw_output_as_json_is_what_was_stored():
    (found,) = json.loads(output_of("show", "odd-1", "--raw", "1", "--json"))["trials"]
    assert [output["role"] for output in found["outputs"]] == ["client", "server"]
    assert found["outputs"][0]["stdout"] == HOSTILE
    assert found["position"] == 1


def test_without_a_number_every_trial_that_is_wanted_is_printed():
    whole = output_of("show", "odd-1", "--raw")
    assert whole.count("==== trial ") == 2
    assert (
        "trial 0: docker, iperf3, direction=send, before the first block, warm-up, failed: no guest no fun"
        in whole
    )
    some = output_of("show", "tour-1", "--raw", "--platform", "lxc", "--benchmark", "sysbench-cpu")
    assert some.count("==== trial ") == some.count("what it said\n") == 12
    assert some.count(": lxc, sysbench-cpu, block ") == 12


def test_what_is_no_trial_is_refused(capsys, golden):
    golden(
        refusals(
            capsys,
            "show",
            "tour-1 --raw 999",
            "tour-1 --raw 0 --where direction=send --platform lxc",
            "--raw odd-1",
            "tour-1 --raw 1 --variance",
        )
    )


def test_a_trial_without_output_says_that_none_is_stored():
    heading, note = output_of("show", "odd-1", "--raw", "0").splitlines()[:2]
    assert heading.startswith("==== trial 0: ")
    assert note == "no output is stored for this trial"
    assert "no output" not in output_of("show", "odd-1", "--raw", "1")


def test_settings_in_force_and_the_ratio_of_the_hosts_disks_are_shown(store):
    run = begin(store, "disk-1", started_at=3.0)
    cell = next(cell for cell in run.cells if cell.key == "s-docker")
    for position, ratio in enumerate((1.93, 0.125)):
        made = trial(cell, block=position, position=position)
        run.add_trial(replace(made, effective={"size": 4096, "host_disk_ratio": ratio}))
    run.add_trial(trial(cell, block=2, position=2))
    run.finish("finished", "", 4.0)
    assert [each["effective"] for each in trials("disk-1")] == [
        {"size": 4096, "host_disk_ratio": 1.93},
        {"size": 4096, "host_disk_ratio": 0.125},
        {},
    ]
    lines = output_of("show", "disk-1", "--trials").splitlines()
    assert lines[0].endswith("host disk")
    assert [line.split()[-1] for line in lines if " docker " in line] == ["1.93", "0.125", "–"]
    assert "host disk" not in output_of("show", "tour-1", "--trials")
    (found,) = json.loads(output_of("show", "disk-1", "--json"))["effective"]
    assert (found["cell"], found["platform"]) == ("s-docker", "docker")
    assert found["settings"] == {"size": [4096], "host_disk_ratio": [1.93, 0.125]}
