"""fio: the command, which combinations are possible, and real reports of two versions."""

import json

import pytest
from tool_under_test import Tool

from vtax.benchmarks.base import Context
from vtax.benchmarks.fio import rates

MIB = 2**20
TOOL = Tool("fio", Context(vcpus=1, memory_bytes=2**29, flow=3))
command = TOOL.command
WRITE = {"rw": "write", "block_size": MIB, "size": 16 * MIB, "once": True}
FLUSHED = {"rw": "randwrite", "size": MIB, "fsync": 1, "once": True}
DIRECT = {
    "rw": "randrw",
    "size": 16 * MIB,
    "engine": "libaio",
    "iodepth": 8,
    "jobs": 2,
    "direct": True,
    "duration_s": 1,
}


def parse(fixture, **given):
    return TOOL.parse(TOOL.read(f"{fixture}.json"), **given)


@pytest.mark.parametrize("version", ["3.33", "3.39"])
def test_figures_are_those_of_the_report(version):
    job = json.loads(TOOL.read(f"{version}-write.json"))["jobs"][0]["write"]
    outcome = parse(f"{version}-write", **WRITE)
    assert outcome.values["write_iops"] == job["iops"]
    assert outcome.values["write_bandwidth"] == job["bw_bytes"] / 1e6
    assert outcome.values["write_latency_p99"] == job["clat_ns"]["percentile"]["99.000000"] / 1000
    assert not any(name.startswith("read") for name in outcome.values)


def test_a_rate_is_known_as_finely_as_its_time_in_milliseconds():
    """A trial over in 1 ms may have any rate."""
    one_ms = {"iops": 1000.0, "bw_bytes": 4096000, "runtime": 1}
    assert rates("read", one_ms)["read_iops"].step == pytest.approx(1000.0)
    assert rates("read", {**one_ms, "runtime": 100})["read_iops"].step == pytest.approx(10.0)
    assert rates("read", {**one_ms, "runtime": 0})["read_iops"] == 1000.0


@pytest.mark.parametrize("version", ["3.33", "3.39"])
def test_a_mixed_pattern_has_both_directions(version):
    outcome = parse(f"{version}-randrw-direct", **DIRECT)
    assert {
        "read_iops",
        "write_iops",
        "read_latency_p999",
        "write_latency_avg",
    } <= outcome.values.keys()
    assert outcome.disk.if_not_counted.code == "cache-below-direct"


@pytest.mark.parametrize("version", ["3.33", "3.39"])
def test_flushes_are_counted_and_timed_apart(version):
    outcome = parse(f"{version}-randwrite-fsync", **FLUSHED)
    assert outcome.effective["fsyncs"] in (255, 256)
    assert outcome.values["fsync_latency_p50"] > outcome.values["write_latency_p50"]


@pytest.mark.parametrize("version", ["3.33", "3.39"])
def test_a_read_is_a_warning_about_caches_below(version):
    outcome = parse(
        f"{version}-read-uring",
        rw="read",
        block_size=65536,
        size=8 * MIB,
        engine="io_uring",
        iodepth=4,
        once=True,
    )
    assert outcome.values["read_iops"] > 0
    assert outcome.disk.if_not_counted.code == "cache-below"


def test_writes_that_are_never_flushed_are_a_warning():
    (warning,) = parse("3.39-write", **WRITE).warnings
    assert warning.code == "guest-cache-unflushed"


def test_the_files_are_made_before_and_removed_after():
    made = command(**DIRECT)
    assert made.before[-1] == (*made.argv, "--create_only=1")
    assert made.makes == ("/scratch/vtax-fio-3",)
    assert {"--direct=1", "--iodepth=8", "--numjobs=2", "--runtime=1000ms", "--time_based"} <= set(
        made.argv
    )
    assert "--percentile_list=50:95:99:99.9" in made.argv
    assert "--time_based" not in command(once=True).argv
