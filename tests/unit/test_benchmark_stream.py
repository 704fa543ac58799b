"""STREAM: how large its arrays are, and what the real outputs of vtax-stream mean."""

import pytest
from tool_under_test import Tool

from vtax.benchmarks import stream
from vtax.benchmarks.base import Context
from vtax.benchmarks.stream import (
    StreamBenchmark,
    StreamParameters,
    default_array_bytes,
    last_level_cache_bytes,
)
from vtax.messages import Note

BENCHMARK = StreamBenchmark()
MIB = 2**20
TOOL = Tool("stream", Context(vcpus=2, memory_bytes=512 * MIB), outside_s=2.0)
command = TOOL.command


@pytest.fixture(autouse=True)
def cache_of(monkeypatch):
    """`cache_of(bytes)` is what this host shows; 8 MiB before."""

    def put(size):
        monkeypatch.setattr(stream, "last_level_cache_bytes", lambda: size)

    put(8 * MIB)
    return put


def parse(fixture, *, change=("", ""), **given):
    return TOOL.parse(TOOL.read(f"{fixture}.txt").replace(*change), **given)


@pytest.mark.parametrize(
    ("fixture", "rates"),
    [
        ("1.0-1-thread", (6267.4, 4614.8, 4905.4, 6640.0)),
        ("1.0-2-threads", (2559.9, 2196.6, 3080.1, 3452.0)),
        ("1.0-emulated", None),
    ],
)
def test_all_four_kernels_are_read(fixture, rates):
    values = parse(fixture).values
    assert set(values) == {"copy", "scale", "add", "triad"}
    assert rates is None or tuple(values.values()) == rates


def test_rates_by_the_outside_clock_are_in_its_seconds():
    """A guest whose clock runs at half the rate says twice what it moves."""
    own = parse("1.0-1-thread", inside_s=1.0)
    outside = parse("1.0-1-thread", inside_s=1.0, clock="outside")
    assert own.values["triad"] == 6640.0
    assert outside.values == {name: rate / 2 for name, rate in own.values.items()}
    assert (own.effective.get("clock"), outside.effective["clock"]) == (None, "outside")


def test_settings_really_used_are_recorded():
    used = parse("1.0-2-threads").effective
    assert (used["threads"], used["array_bytes"], used["repetitions"]) == (2, 104_000_000, 5)
    assert used["last_level_cache_bytes"] == 8 * MIB


def test_the_default_array_is_four_times_the_cache_if_the_memory_allows():
    assert default_array_bytes(1024 * MIB, 8 * MIB) == 32 * MIB
    assert default_array_bytes(512 * MIB, 300 * MIB) == 106 * MIB
    assert default_array_bytes(512 * MIB, None) == 106 * MIB
    assert default_array_bytes(256 * MIB, None) == 51 * MIB
    assert default_array_bytes(1024 * MIB, 69 * MIB) == 276 * MIB


@pytest.mark.parametrize("memory_mib", [256, 1024, 2048, 4096, 65536])
def test_default_arrays_fit_the_guest_whatever_the_cache_is(memory_mib, cache_of):
    cache_of(65536 * MIB)
    context = Context(vcpus=2, memory_bytes=memory_mib * MIB)
    assert BENCHMARK.commands(StreamParameters(), context)


def test_arrays_and_threads_reach_the_program():
    requested = command(array_size="80MiB", repetitions=7, threads=3)
    assert requested.argv == ("vtax-stream", str(10 * MIB), "7")
    assert requested.environment["OMP_NUM_THREADS"] == "3"
    assert command().argv[1] == str(4 * MIB)
    assert command().environment["OMP_NUM_THREADS"] == "2"


def test_an_array_below_four_times_the_cache_is_a_warning(cache_of):
    assert parse("1.0-2-threads").warnings == ()
    cache_of(300 * MIB)
    (warning,) = parse("1.0-2-threads").warnings
    assert warning == Note("array-in-cache", size="99 MiB", times=4, cache="300 MiB")


def test_a_host_that_hides_its_cache_is_a_warning(cache_of):
    cache_of(None)
    assert parse("1.0-2-threads").warnings == (Note("cache-size-unknown"),)


def test_kernels_too_short_for_the_clock_are_a_warning():
    (warning,) = parse("1.0-2-threads", change=("0.094692474", "0.000092474")).warnings
    assert warning == Note("kernel-short")


def test_the_largest_data_cache_of_the_host_counts(tmp_path):
    for index, (kind, size) in enumerate(
        [("Data", "48K"), ("Instruction", "900M"), ("Unified", "32768K")]
    ):
        directory = tmp_path / "cache" / f"index{index}"
        directory.mkdir(parents=True)
        (directory / "type").write_text(f"{kind}\n")
        (directory / "size").write_text(f"{size}\n")
    assert last_level_cache_bytes(tmp_path) == 32 * MIB
    assert last_level_cache_bytes(tmp_path / "nothing") is None
