"""What the host's disks did beside what a tool asked of the guest's."""

import pytest

from vtax.benchmarks.base import DiskWork, Outcome, sum_disk_work
from vtax.counters.table import HOST, HOST_DISK_RATIO
from vtax.messages import Note
from vtax.runner.costs import compare_with_host_disks
from vtax.runner.density import combine_guests
from vtax.runner.trial import combine_flows


def counted(read=0.0, written=0.0, writes=0.0):
    values = {"disk_read_bytes": read, "disk_written_bytes": written, "disk_writes": writes}
    return {(HOST, name): value for name, value in values.items()}


def outcome(**work):
    return Outcome({"rate": 1.0}, {"size": 5}, ("first",), disk=DiskWork(1000, **work))


def test_the_ratio_of_bytes_is_an_effective_setting():
    found = compare_with_host_disks(outcome(), counted(read=200.0, written=1050.0, writes=3))
    assert (found.effective, found.warnings, found.values) == (
        {"size": 5, HOST_DISK_RATIO: 1.25},
        ("first",),
        {"rate": 1.0},
    )


@pytest.mark.parametrize(
    ("flushes", "text"), [(1, "a flush (fsync) of the guest"), (9, "9 flushes (fsync) of")]
)
def test_flushes_without_a_write_on_the_host_are_a_warning(flushes, text):
    assert text in compare_with_host_disks(outcome(flushes=flushes), counted()).warnings[-1]
    assert (
        "reached no device"
        in compare_with_host_disks(outcome(flushes=flushes), counted()).warnings[-1]
    )
    assert compare_with_host_disks(outcome(flushes=flushes), counted(writes=flushes)).warnings == (
        "first",
    )
    assert compare_with_host_disks(outcome(), counted()).warnings == ("first",)


def test_fewer_writes_on_the_host_than_half_of_the_flushes_are_a_warning():
    """A few writes of other programs do not hide that those of the guest stopped at a cache."""
    warned = compare_with_host_disks(outcome(flushes=255), counted(writes=3)).warnings[-1]
    assert (warned.code, warned.data["writes"]) == ("flushes-short", 3)
    assert compare_with_host_disks(outcome(flushes=255), counted(writes=128)).warnings == ("first",)


def test_direct_that_ends_at_a_cache_of_the_host_is_a_warning():
    assert (
        "moved 40 % of the bytes"
        in compare_with_host_disks(outcome(is_direct=True), counted(read=400.0)).warnings[-1]
    )
    assert compare_with_host_disks(outcome(is_direct=True), counted(read=500.0)).warnings == (
        "first",
    )


def test_other_tools_and_a_host_without_disk_counters_change_nothing():
    other = Outcome({"rate": 1.0})
    assert compare_with_host_disks(other, counted()) is other
    assert compare_with_host_disks(outcome(flushes=1), {}) == outcome(flushes=1)


def test_a_cache_below_the_guest_is_only_suspected_where_no_disk_was_counted():
    suspected = outcome(if_not_counted="a cache may have served")
    assert compare_with_host_disks(suspected, {}).warnings == ("first", "a cache may have served")
    assert compare_with_host_disks(suspected, counted(read=500.0)).warnings == ("first",)
    served = compare_with_host_disks(suspected, counted(read=130.0)).warnings
    assert served == (
        "first",
        Note("disks-below", share="13 %"),
    )
    assert compare_with_host_disks(outcome(), counted(read=130.0)).warnings == ("first",)


def test_direct_is_a_warning_once():
    direct = outcome(is_direct=True, if_not_counted="direct ends at the guest's disk")
    assert len(compare_with_host_disks(direct, counted(read=130.0)).warnings) == 2
    assert compare_with_host_disks(direct, counted(read=900.0)).warnings == ("first",)


def test_the_work_of_several_guests_is_that_of_all():
    """What the host's disks moved in a trial is of all its guests."""
    both = sum_disk_work([DiskWork(100, 2, True), DiskWork(300, 3, False, "suspected")])
    assert both == DiskWork(400, 5, False, "suspected")
    assert sum_disk_work([DiskWork(100), None]) is None
    merged = combine_guests([outcome(), outcome()], [])
    assert compare_with_host_disks(merged, counted(read=1000.0)).effective[HOST_DISK_RATIO] == 0.5
    assert (
        compare_with_host_disks(
            combine_flows([outcome(), outcome()], []), counted(read=1000.0)
        ).effective[HOST_DISK_RATIO]
        == 0.5
    )
