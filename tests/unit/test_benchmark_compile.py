"""Compiling a fixed tree: the commands, real reports of make, and what was built."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks.base import Context
from vtax.benchmarks.compile import Compile

BENCHMARK = Compile()

TOOL = Tool("compile", Context(vcpus=2, memory_bytes=2**29, flow=1), outside_s=4.0, cpu_s=3.5)
read, parse, command = TOOL.read, TOOL.parse, TOOL.command
ALL, SOME, BROKEN = "gcc-14.2.0-465-files.txt", "gcc-14.2.0-20-files.txt", "gcc-14.2.0-broken-file"
DIRECTORY = "/scratch/vtax-compile-1"


@pytest.mark.parametrize(("fixture", "files"), [(ALL, 465), (SOME, 20)])
def test_the_time_is_the_one_outside_and_what_was_built_is_recorded(fixture, files):
    outcome = parse(read(fixture), files=files)
    assert outcome.values == {"time": 4.0, "cpu_time": 3.5}
    assert outcome.effective["files"] == files
    assert outcome.effective["jobs"] == 2
    assert outcome.effective["built_sha256"] in read(fixture)


def test_platforms_must_build_the_same():
    assert BENCHMARK.same_everywhere
    assert BENCHMARK.same_everywhere == ("built_sha256",)


def test_the_tree_is_new_in_every_trial_written_back_warm_and_removed():
    made = command(files=20, jobs=3)
    make = ("make", "--silent", "-f", f"{DIRECTORY}.mk", "-C", DIRECTORY, "FILES=20")
    assert made.argv == (*make, "-j3")
    unpack, warm = made.before
    assert unpack[-1] == DIRECTORY
    assert "newlib-*.tar.xz" in unpack[2]
    assert unpack[2].endswith('sync --file-system "$1"')
    assert warm == (*make, "warm")
    assert made.makes == (DIRECTORY, f"{DIRECTORY}.mk")
    assert [file.path for file in made.files] == [f"{DIRECTORY}.mk"]
    assert command().argv[-1] == "-j2"
