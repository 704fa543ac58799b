"""What a trial's counting makes of readings."""

from types import SimpleNamespace

import pytest
from local_agent import LocalAgent

from vtax.counters import table
from vtax.counters.guest import NAMESPACE_PATHS, PATHS
from vtax.counters.table import GUEST, HOST, LAYER, PROGRAM
from vtax.guest.results import ClockReading, CommandResult
from vtax.runner.counting import Counting, Endpoint, clock_counters, differences, program_usage


@pytest.mark.parametrize(
    ("is_remote", "is_machine", "paths"),
    [(False, False, NAMESPACE_PATHS), (True, False, PATHS), (False, True, PATHS)],
)
def test_a_guest_with_the_hosts_kernel_is_asked_for_its_interfaces_alone(
    is_remote, is_machine, paths, monkeypatch
):
    """Of a machine the time of its boot is not believed, which is the host's here."""
    running = SimpleNamespace(
        is_remote=is_remote,
        is_machine=is_machine,
        parts=(),
        host_cpu_s=lambda: None,
        throttling=dict,
    )
    with LocalAgent() as agent:
        agent.guest.hello(20.0)
        begin, asked = agent.guest.begin_sample, []
        monkeypatch.setattr(
            agent.guest, "begin_sample", lambda paths: asked.append(paths) or begin(paths)
        )
        counting = Counting({GUEST: Endpoint(running, agent.guest)}, None)
        with counting.around():
            pass
        counting.compare()
    assert asked[-2:] == [paths, paths]
    counted = counting.differences
    names = [table.STAT["ctxt"].name, table.VMSTAT["pgfault"].name]
    in_guest, on_host = ([counted[place, name] for name in names] for place in (GUEST, HOST))
    assert (in_guest == on_host) is not (is_remote or is_machine)
    assert (GUEST, table.SNMP["Tcp", "RetransSegs"].name) in counted


def test_a_counter_is_a_difference_and_a_gauge_its_last_value():
    memory, cpu = table.PART_MEMORY.of("qemu"), table.PART_CPU.of("qemu")
    first = {(LAYER, memory): 10.0, (LAYER, cpu): 1.0, (GUEST, "forks"): 5.0}
    last = {(LAYER, memory): 30.0, (LAYER, cpu): 4.0, (GUEST, "interrupts"): 9.0}
    assert differences(first, last) == {(LAYER, memory): 30.0, (LAYER, cpu): 3.0}


def test_what_programs_used_is_added_but_for_peaks():
    def used(switches, peak):
        usage = {table.VOLUNTARY.name: switches, table.MAX_RSS.name: peak}
        return CommandResult(("x",), 0, "", "", 1.0, 1.0, usage=usage)

    assert program_usage([used(3.0, 100.0), used(4.0, 70.0)]) == {
        (PROGRAM, "voluntary_switches"): 7.0,
        (PROGRAM, "max_rss_bytes"): 100.0,
    }
    assert program_usage([]) == {}


def test_a_clock_that_is_two_percent_fast_is_measured_with_its_error():
    first = ClockReading(offset_s=0.5, round_trip_s=0.002, inside_s=100.0, outside_s=10.0)
    last = ClockReading(offset_s=0.54, round_trip_s=0.004, inside_s=102.04, outside_s=12.0)
    found = clock_counters(first, last)
    assert found["clock_rate"] == pytest.approx(1.02)
    assert found["clock_rate_error"] == pytest.approx(0.003 / 2)
    assert found["wall_clock_offset_s"] == 0.5


def test_a_rate_needs_time_and_two_readings():
    first = ClockReading(0.0, 0.001, 1.0, 1.0)
    assert clock_counters(first, ClockReading(0.0, 0.001, 1.01, 1.01)) == {
        "wall_clock_offset_s": 0.0
    }
    assert clock_counters(None, first) == clock_counters(first, None) == {}
