"""dd: which file it moves, past which cache, and what its real outputs mean."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks.base import Context

TOOL = Tool("dd", Context(vcpus=1, memory_bytes=2**29, flow=3), outside_s=1.0)
command = TOOL.command
MIB = 2**20


def parse(fixture, **given):
    return TOOL.parse("", stderr=TOOL.read(f"{fixture}.txt"), **given)


@pytest.mark.parametrize(
    ("fixture", "parameters", "rate", "time_s"),
    [
        ("9.7-write-flushed", {"file_size": 64 * MIB}, 116.8507, 0.574313),
        ("9.7-read-direct", {"file_size": 64 * MIB, "direction": "read"}, 447.012, 0.150127),
        ("9.7-write-small", {"file_size": 1536, "block_size": 512}, 0.043412, 0.0353824),
        ("9.1-write-direct", {"file_size": 16 * MIB, "cache": "direct"}, 144.565, 0.116053),
        ("9.1-read", {"file_size": 16 * MIB, "direction": "read"}, 557.876, 0.0300734),
        ("uutils-0.0.30", {"file_size": 64 * MIB}, 510.77, 0.131387),
    ],
)
def test_the_rate_is_bytes_over_time_of_every_known_dd(fixture, parameters, rate, time_s):
    values = parse(fixture, **parameters).values
    assert values["time"] == time_s
    assert values["rate"] == pytest.approx(rate, rel=1e-4)


def test_a_rate_is_known_as_well_as_the_time_that_dd_prints():
    """uutils' dd prints tenths of a second where GNU's prints microseconds."""
    fine, coarse = (
        TOOL.parse(
            "", stderr=f"1048576 bytes (1 MB, 1 MiB) copied, {time} s, 10 MB/s", file_size=MIB
        )
        for time in ("0.100234", "0.1")
    )
    assert fine.values["rate"].step / fine.values["rate"] == pytest.approx(1e-5, rel=0.01)
    assert coarse.values["rate"].step / coarse.values["rate"] == pytest.approx(1.0)


def test_a_write_is_flushed_inside_the_time():
    written = command(file_size="64MiB", block_size="64KiB")
    assert {"of=/scratch/vtax-dd-3", "bs=65536", "count=1024", "conv=fsync"} <= set(written.argv)
    assert {"oflag=direct", "conv=fsync"} <= set(command(cache="direct").argv)
    assert not {"oflag=direct", "conv=fsync"} & set(command(cache="cached").argv)


def test_every_write_starts_without_the_file_and_leaves_none():
    for direction in ("write", "read"):
        assert command(direction=direction).makes == ("/scratch/vtax-dd-3",)


def test_a_read_finds_a_cold_file_unless_reported_otherwise():
    *_, forget = command(direction="read").before
    assert {"iflag=nocache", "count=0"} <= set(forget)
    assert not any(
        "iflag=nocache" in argv for argv in command(direction="read", cache="cached").before
    )
    assert "iflag=direct" in command(direction="read", cache="direct").argv


def test_a_cold_read_is_cold_on_the_host_too():
    assert command(direction="read", cache="cold").is_cold
    assert command(direction="read", cache="cold").before == command(direction="read").before
    assert not command(direction="read").is_cold
    assert (
        parse("9.7-read-direct", file_size=64 * MIB, direction="read", cache="cold").warnings == ()
    )


def test_what_a_figure_includes_is_said():
    (warning,) = parse("9.7-write-flushed", file_size=64 * MIB, cache="cached").warnings
    assert warning.code == "guest-cache"
    read = parse("9.7-read-direct", file_size=64 * MIB, direction="read")
    assert read.warnings == ()
    assert read.disk.if_not_counted.code == "cache-below"
    assert parse("9.7-write-flushed", file_size=64 * MIB).warnings == ()
