"""Bonnie++: the command, real reports of it, and the two memories that its file must exceed."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks import bonnie
from vtax.benchmarks.base import Context
from vtax.benchmarks.bonnie import host_memory_bytes
from vtax.messages import Note

MIB = 2**20
TOOL = Tool("bonnie", Context(vcpus=1, memory_bytes=512 * MIB, flow=3))
read, parse, command = TOOL.read, TOOL.parse, TOOL.command
LARGE = {"size": 1024 * MIB}
SMALL = {"size": 16 * MIB, "files": 1, "seeks": 64, "characters": True}
ONE_GIB, CHARACTERS, DEBIAN_12 = (
    "2.00a-1-gib-16-files.csv",
    "2.00a-16-mib-characters.csv",
    "2.00a-debian12-25-files.csv",
)


@pytest.fixture
def host_of(monkeypatch):
    """`host_of(bytes)` of memory."""
    return lambda size: monkeypatch.setattr(bonnie, "host_memory_bytes", lambda: size)


def test_rates_are_in_megabytes_and_counts_as_printed():
    outcome = parse(read(ONE_GIB), **LARGE)
    assert outcome.values == pytest.approx(
        {
            "write": 222.292992,
            "rewrite": 1217.491968,
            "read": 1676.1856,
            "seeks": 14320,
            "create": 4491,
            "create_random": 24782,
        }
    )
    assert outcome.effective == {
        "size": 1024 * MIB,
        "files": 16,
        "seeks": 8192,
        "seek_processes": 4,
    }


def test_what_was_too_fast_to_time_is_a_warning_and_no_value():
    outcome = parse(read(DEBIAN_12), files=25, **LARGE)
    assert outcome.values.keys() == {"write", "rewrite", "create", "create_random"}
    names = ("read", "seeks", "stat", "delete", "stat_random", "delete_random")
    assert Note("too-fast-to-time", names=names) in outcome.warnings


def test_characters_are_read_where_they_were_requested():
    values = parse(read(CHARACTERS), **SMALL).values
    assert values == pytest.approx(
        {
            "write_characters": 0.989184,
            "read_characters": 1.731584,
            "create": 603,
            "create_random": 727,
        }
    )


def test_a_file_that_is_not_twice_both_memories_is_a_warning_with_both(host_of):
    host_of(2048 * MIB)
    (warning,) = parse(read(ONE_GIB), **LARGE).warnings[:1]
    assert warning == Note("file-not-twice-memory", size="1 GiB", guest="512 MiB", host="2 GiB")


def test_a_file_that_is_twice_both_is_none(host_of):
    host_of(512 * MIB)
    assert not any("memory" in warning for warning in parse(read(ONE_GIB), **LARGE).warnings)


def test_the_hosts_memory_is_the_kernels_figure(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:       2048 kB\nMemFree: 1 kB\n")
    assert host_memory_bytes(tmp_path / "meminfo") == 2 * MIB


def test_the_file_is_in_a_directory_of_its_own_that_is_removed():
    made = command()
    assert made.argv == (
        *("bonnie++", "-q", "-u", "root", "-m", "vtax", "-d", "/scratch/vtax-bonnie-3", "-r", "0"),
        *("-s", "1024:8k:8192:4", "-n", "16", "-f"),
    )
    assert made.before == (("mkdir", "/scratch/vtax-bonnie-3"),)
    assert made.makes == ("/scratch/vtax-bonnie-3",)
    made = command(size=16 * MIB, characters=True, files=0)
    assert "-f" not in made.argv
    assert made.argv[-3:] == ("16:8k:8192:4", "-n", "0")
