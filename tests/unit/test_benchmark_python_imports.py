"""Starting an interpreter that imports a fixed set of modules: the commands, and real reports."""

import pytest
from tool_under_test import Tool

TOOL = Tool("python-imports", outside_s=1.5, cpu_s=0.75)


@pytest.mark.parametrize(
    ("file", "starts", "files", "time_ms"),
    [("3.13.5.txt", 5, 210, 300.0), ("3.11.2-one-start.txt", 1, 209, 1500.0)],
)
def test_the_time_is_that_of_one_start_by_the_outside_clock(file, starts, files, time_ms):
    outcome = TOOL.parse(TOOL.read(file), starts=starts)
    assert outcome.values == {"time": time_ms, "cpu_time": time_ms / 2}
    assert outcome.effective == {"starts": starts, "files": files}


def test_no_cpu_time_is_claimed_that_the_guest_did_not_account():
    outcome = TOOL.parse(TOOL.read("3.13.5.txt"), cpu_s=0.0)
    assert set(outcome.values) == {"time"}


def test_one_start_comes_before_those_that_are_timed_and_none_writes_compiled_files():
    made = TOOL.command(starts=7)
    (warm_up,) = made.before
    assert made.argv[4:-1] == ("7",)
    assert warm_up[4:-1] == ("1",)
    assert warm_up[:4] + warm_up[5:] == made.argv[:4] + made.argv[5:]
    assert "python3 -IBS" in made.argv[2]
    assert "unittest.mock" in made.argv[-1]
