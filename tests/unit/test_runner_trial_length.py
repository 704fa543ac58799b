"""The count of work of trials of equal time: found out in a few trials, whatever a platform's speed and start."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from vtax.benchmarks import length, registry
from vtax.benchmarks.base import Outcome
from vtax.runner.plan import PlannedCell
from vtax.runner.points import Point
from vtax.runner.trial import TrialResult
from vtax.runner.trial_length import CalibrationFailed, TrialLengths

BENCHMARK = registry.get("sysbench-cpu")
COUNT = BENCHMARK.counts
PARAMETERS = length.with_count(BENCHMARK.Parameters(), COUNT, COUNT.least)


def cell(trial_time_s=0.1):
    point = Point("p", "sysbench-cpu", BENCHMARK, PARAMETERS, "", None, trial_time_s=trial_time_s)
    return PlannedCell("c", None, point)


def stored(**parameters):
    return [SimpleNamespace(key="c", parameters=parameters)]


class Host:
    """A host on which an event takes a while, and the tool another to start."""

    def __init__(self, event_s, start_s, error=""):
        self.event_s, self.start_s, self.error = event_s, start_s, error
        self.events = []

    def run(self, cell):
        events = cell.point.parameters.events
        self.events.append(events)
        noise = 1.1 if len(self.events) % 2 else 0.9
        outside_s = self.start_s * noise + events * self.event_s
        foreground = SimpleNamespace(outside_s=outside_s)
        return TrialResult(0.0, Outcome({}), {}, foreground, {}, (), self.error)


@pytest.mark.parametrize("event_s", [1e-6, 0.0006, 0.02])
@pytest.mark.parametrize("start_s", [0.005, 0.3])
def test_a_few_trials_find_the_count_whatever_the_tool_needs_to_start(event_s, start_s):
    host = Host(event_s, start_s)
    found = TrialLengths(stored(events=None)).find_out(cell(), host.run)
    lasts_s = found.point.parameters.events * event_s
    assert lasts_s == pytest.approx(0.1, rel=0.4)
    assert len(host.events) <= 9
    assert max(host.events) * event_s < max(0.2, 5 * start_s)


def test_it_is_found_out_once_and_known_to_every_session():
    lengths = TrialLengths(stored(events=None))
    assert lengths.known(cell()) is None
    found = lengths.find_out(cell(), Host(0.001, 0.01).run)
    assert lengths.known(cell()) == found
    resumed = TrialLengths(stored(events=found.point.parameters.events))
    assert resumed.known(cell()).point.parameters == found.point.parameters


def test_cells_of_other_studies_are_as_they_are():
    fixed = replace(cell(), point=replace(cell().point, trial_time_s=None))
    assert TrialLengths([]).known(fixed) is fixed


def test_a_trial_that_fails_is_the_result():
    host = Host(0.001, 0.01, error="sysbench failed")
    with pytest.raises(CalibrationFailed) as caught:
        TrialLengths(stored(events=None)).find_out(cell(), host.run)
    assert caught.value.result.error == "sysbench failed"


def test_the_key_of_a_point_does_not_know_the_count():
    one, other = cell().point, cell().point.with_count(COUNT, 160)
    assert one.stored_parameters == other.stored_parameters
    assert one.stored_parameters["trial_time"] == 0.1
    names = {metric.name for metric in one.own_metrics}
    assert {"events_per_s", "latency_avg", "host_cpu_per_event"} <= names
    assert not {"time", "latency_max", "latency_min"} & names
