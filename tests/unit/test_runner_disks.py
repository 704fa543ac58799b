"""What the host's disks did beside what a tool asked of the guest's."""

import pytest

from vtax.benchmarks.base import DiskWork, Outcome
from vtax.counters.table import HOST
from vtax.runner.disks import RATIO, on_host


def counted(read=0.0, written=0.0, writes=0.0):
    values = {"disk_read_bytes": read, "disk_written_bytes": written, "disk_writes": writes}
    return {(HOST, name): value for name, value in values.items()}


def outcome(**work):
    return Outcome({"rate": 1.0}, {"size": 5}, ("first",), disk=DiskWork(1000, **work))


def test_the_ratio_of_bytes_is_an_effective_setting():
    found = on_host(outcome(), counted(read=200.0, written=1050.0, writes=3))
    assert (found.effective, found.warnings, found.values) == ({"size": 5, RATIO: 1.25}, ("first",), {"rate": 1.0})


@pytest.mark.parametrize(("flushes", "text"), [(1, "a flush (fsync) of the guest"), (9, "9 flushes (fsync) of")])
def test_flushes_without_a_write_on_the_host_are_a_warning(flushes, text):
    assert text in on_host(outcome(flushes=flushes), counted()).warnings[-1]
    assert "reached no device" in on_host(outcome(flushes=flushes), counted()).warnings[-1]
    assert on_host(outcome(flushes=flushes), counted(writes=flushes)).warnings == ("first",)
    assert on_host(outcome(), counted()).warnings == ("first",)


def test_fewer_writes_on_the_host_than_half_of_the_flushes_are_a_warning():
    """A few writes of other programs do not hide that those of the guest stopped at a cache."""
    assert (
        "most reached no device, as the host's disks completed 3 writes"
        in (on_host(outcome(flushes=255), counted(writes=3)).warnings[-1])
    )
    assert on_host(outcome(flushes=255), counted(writes=128)).warnings == ("first",)


def test_direct_that_ends_at_a_cache_of_the_host_is_a_warning():
    assert "moved 40% of the bytes" in on_host(outcome(is_direct=True), counted(read=400.0)).warnings[-1]
    assert on_host(outcome(is_direct=True), counted(read=500.0)).warnings == ("first",)


def test_other_tools_and_a_host_without_disk_counters_change_nothing():
    other = Outcome({"rate": 1.0})
    assert on_host(other, counted()) is other
    assert on_host(outcome(flushes=1), {}) == outcome(flushes=1)
