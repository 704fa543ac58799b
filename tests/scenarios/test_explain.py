"""`vtax explain` of runs whose counters are scripted: what truly moves is found, what does not is not."""

import json
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from command_line import output_of
from counted_run import TRIAL_S, stored

from vtax.counters import table
from vtax.messages import Note, packed
from vtax.report.analysis.source import source_of
from vtax.report.answers.explain.compute import NARROW, explained
from vtax.report.renderers.markdown import markdown as as_markdown
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.stats.intervals import t_quantile


@pytest.fixture
def store(home_store):
    return home_store


def script(platform, operations, random):
    """A switch per operation natively and three in the sandbox; faults alike; timers and a daemon by the second."""
    switches = 3.0 if platform == "sandbox" else 1.0
    counts = {
        ("guest", "context_switches"): random.poisson(operations * switches),
        ("guest", "page_faults"): random.poisson(operations * 0.5),
        ("guest", "timer_interrupts"): random.poisson(250 * TRIAL_S),
        ("guest", "forks"): 1.0,
        ("host", "swapped_in_pages"): 0.0,
        ("guest", "clock_rate"): 1.5 if platform == "sandbox" else 1.0,
        ("layer", "host_cpu_s"): TRIAL_S * (1 + random.normal(0, 0.01)),
    }
    if platform == "sandbox":
        counts["layer", "sentry.thread_cpu_s"] = 1.0
    return {key: float(value) for key, value in counts.items()}


def explained_of(store):
    source = source_of(store)
    numbers = {cell.key: n for n, cell in enumerate(source.data.run.cells)}
    return explained(
        source.data, source.analysis.sections, source.block_counters(numbers.values()), 0.95
    )


def test_the_counter_that_truly_moves_is_found_and_those_of_time_stand_apart(store):
    stored(store, script)
    [found] = explained_of(store)
    assert found.work == "operations"
    assert [(each.place, each.name) for each in found.moved] == [("guest", "context_switches")]
    assert {each.name for each in found.with_time} == {"timer_interrupts", "forks", "host_cpu_s"}
    switches = found.moved[0]
    assert switches.ratio.low < 3.0 < switches.ratio.high
    assert switches.baseline == pytest.approx(1.0, rel=0.01)
    assert switches.treatment == pytest.approx(3.0, rel=0.01)
    [alone] = found.one_sided
    assert (alone.place, alone.name, alone.platform) == ("layer", "sentry.thread_cpu_s", "sandbox")
    assert alone.value == pytest.approx(
        1.0 / (1e5 / 4 * TRIAL_S), rel=0.02
    )  # seconds per operation
    assert {each.name for each in found.comparisons}.isdisjoint({"swapped_in_pages", "clock_rate"})


@pytest.mark.parametrize("lasted_s", [0.0, math.nan])
def test_without_how_long_trials_lasted_nothing_is_said_per_second(store, lasted_s):
    moved = {(table.LINK, table.UNDER_TEST_BYTES.name): 1e9}
    stored(store, lambda *given: script(*given) | moved, lasted_s=lasted_s)
    [found] = explained_of(store)
    assert "context_switches" in {each.name for each in found.comparisons}
    assert all(each.per_second is None for each in found.comparisons)


def test_ratio_and_interval_are_those_of_a_calculation_by_hand(store):
    run = stored(store, script, blocks=6)
    [found] = explained_of(store)
    counts, values = {}, {}
    with store.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "select c.key, t.block, k.value, m.value from trial t join cell c on c.id = t.cell_id "
            "join counter k on k.trial_id = t.id and k.name = 'page_faults' "
            "join measurement m on m.trial_id = t.id where t.run_id = ?",
            (run.id,),
        ).all()
    for cell, block, count, rate in rows:
        counts.setdefault((cell, block), []).append(count)
        values.setdefault((cell, block), []).append(rate)
    logs = []
    for block in range(6):
        per_work = [
            (statistics.mean(counts[cell, block]) + 0.5)
            / (statistics.mean(values[cell, block]) * TRIAL_S)
            for cell in ("sandbox-tool", "native-tool")
        ]
        logs.append(math.log(per_work[0] / per_work[1]))
    totals = [
        sum(sum(counts[cell, b]) + 0.5 * 2 for b in range(6))
        for cell in ("sandbox-tool", "native-tool")
    ]
    counting = math.sqrt(
        1 / totals[0] + 1 / totals[1]
    )  # what counts of independent events vary by at least
    half = t_quantile(1 - 0.05 / found.family / 2, 5) * max(
        statistics.stdev(logs) / math.sqrt(6), counting
    )
    [faults] = [each for each in found.comparisons if each.name == "page_faults"]
    assert math.log(faults.ratio.estimate) == pytest.approx(statistics.mean(logs))
    assert math.log(faults.ratio.low) == pytest.approx(statistics.mean(logs) - half)
    assert not faults.moved


def test_what_only_grew_with_the_time_is_one_line_of_the_whole_run(store):
    def slow_everywhere(platform, operations, random):
        counts = {("guest", "timer_interrupts"): 500.0, ("host", "timer_interrupts"): 500.0}
        return {**counts, ("guest", "page_faults"): float(random.poisson(operations * 0.5))}

    stored(store, slow_everywhere, others=("second",), speeds={"second": 4.0})
    assert [len(each.with_time) for each in explained_of(store)] == [2, 2]
    brief = output_of("explain")
    assert brief.count("guest: timer interrupts") == 1
    assert "2 counters only grew with the running time: guest: timer interrupts" in brief
    assert "2 comparisons in which no counter moved but with the running time" in brief


def alike(platform, operations, random):
    return {("guest", "page_faults"): float(random.poisson(operations * 0.5))}


def with_a_daemon(platform, operations, random):
    daemon = {("layer", "daemon.thread_slices"): 7.0} if platform == "sandbox" else {}
    counts = {
        ("guest", name): float(random.poisson(operations)) for name in ("page_faults", "interrupts")
    }
    return {**counts, **daemon}


def many_of_one_side(platform, operations, random):
    if platform == "native":
        return {("guest", "forks"): 1.0}
    return {("layer", f"part{n}.thread_cpu_s"): 1.0 for n in range(11)}


PRINTED = {
    "nothing differs": (alike, {}),
    "a part of one platform alone": (with_a_daemon, {}),
    "many counters of one platform": (many_of_one_side, {}),
    "one block": (script, {"blocks": 1}),
    "nothing to explain": (script, {"slowdown": 1.0, "noise": 0.001}),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_moved_is_printed(store, name, golden):
    counted, run = PRINTED[name]
    stored(store, counted, **run)
    golden(output_of("explain"))
    golden(output_of("explain", "--all"), "all")


@pytest.mark.parametrize(("blocks", "spread"), [(2, 0.02), (5, 0.5)])
def test_wide_intervals_say_how_large_a_change_would_have_been_found(store, blocks, spread, golden):
    def alike(platform, operations, random):
        return {
            ("guest", name): operations * random.lognormal(0, spread)
            for name in ("page_faults", "interrupts")
        }

    stored(store, alike, blocks=blocks)
    [found] = explained_of(store)
    low, high = zip(*((each.ratio.low, each.ratio.high) for each in found.comparisons), strict=True)
    assert found.detectable == pytest.approx(
        math.exp(np.median(np.log(np.array(high) / np.array(low)) / 2))
    )
    assert found.detectable > NARROW
    golden(output_of("explain"))
    printed = json.loads(output_of("explain", "--json"))["explain"]["contrasts"][0]
    assert printed["detectable_factor"] == pytest.approx(found.detectable)


@pytest.mark.parametrize(("low", "high"), [(1e-320, 1e308), (1e-320, math.inf), (0.0, math.inf)])
def test_intervals_beyond_all_numbers_have_no_factor(store, low, high):
    stored(store, script, blocks=2)
    [found] = explained_of(store)
    wide = [
        replace(each, ratio=replace(each.ratio, low=low, high=high)) for each in found.comparisons
    ]
    assert replace(found, comparisons=tuple(wide)).detectable == math.inf


def test_a_part_that_one_platform_alone_has_is_no_absence_of_a_difference(store):
    stored(store, with_a_daemon)
    assert explained_of(store)[0].is_narrow


def test_counters_of_one_platform_have_values_and_the_layer_stands_first(store):
    counts = {
        ("layer", "sentry.thread_slices"): 2e5,
        ("layer", "sentry.thread_cpu_s"): 1.6,
        ("layer", "helper.thread_cpu_s"): 0.2,
        ("layer", "sentry.peak_memory_bytes"): 1e8,
        ("layer", "idle.thread_cpu_s"): 0.0,
    }

    def sandboxed(platform, operations, random):
        if platform == "native":
            return {("guest", "timer_interrupts"): 500.0}
        return counts

    stored(store, sandboxed)
    printed = json.loads(output_of("explain", "--json"))["explain"]["contrasts"][0]
    alone = [(f"{each['place']} {each['name']}", each["platform"]) for each in printed["one_sided"]]
    assert alone == [
        ("layer sentry.thread_cpu_s", "sandbox"),
        ("layer helper.thread_cpu_s", "sandbox"),
        ("layer sentry.thread_slices", "sandbox"),
        ("layer sentry.peak_memory_bytes", "sandbox"),
        ("guest timer_interrupts", "native"),
    ]
    values = {each["name"]: each["value"] for each in printed["one_sided"]}
    assert values["sentry.thread_slices"] == pytest.approx(2e5 / (1e5 / 4 * TRIAL_S), rel=0.02)
    assert values["sentry.peak_memory_bytes"] == 1e8
    assert values["timer_interrupts"] == pytest.approx(500 / (1e5 * TRIAL_S), rel=0.02)
    lines = output_of("explain").splitlines()
    assert [line.split()[-1] for line in lines if "layer, sentry: thread slices" in line] == [
        "3.99"
    ]


def test_counts_of_few_events_that_agree_by_chance_do_not_move(store):
    def rare(platform, operations, random):
        return {("guest", "major_page_faults"): 1.0 if platform == "sandbox" else 0.0}

    stored(store, rare, slowdown=1.5, trials=1, blocks=5)
    [found] = explained_of(store)
    [faults] = found.comparisons
    assert not faults.moved
    assert faults.half_width > 0.6


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("Mbit/s", "GB"),
        ("MiB/s", "GB"),
        ("events/s", "events"),
        ("1/s", "operation"),
        ("IOPS", "I/O"),
        ("ns/op", "op"),
        ("ns", "s"),
    ],
)
def test_the_unit_of_work_fits_the_metric(store, unit, expected):
    stored(store, script, unit=unit)
    assert explained_of(store)[0].work == expected


def test_a_time_of_the_whole_trial_is_one_piece_of_work(store):
    def slow(platform, operations, random):
        return {("guest", "page_faults"): 100.0 + float(random.poisson(10))}

    stored(store, slow, unit="µs")  # 25 000 to 100 000 µs of 2 s: no whole trial
    assert explained_of(store)[0].work == "s"
    stored(store, slow, unit="ms", name="counted-2")  # 25 s and 100 s
    assert explained_of(store)[0].work == "trial"


def test_json_has_every_counter_and_the_report_the_section(store):
    why = Note("no-hardware-counters")
    stored(
        store, script, host={"not_counted": {"cycles": packed(why), "instructions": packed(why)}}
    )
    printed = json.loads(output_of("explain", "counted-1", "--json"))["explain"]
    assert printed["not_counted"] == {"cycles": why, "instructions": why}
    [contrast] = printed["contrasts"]
    assert contrast["work"] == "operations"
    by_name = {each["name"]: each for each in contrast["counters"]}
    assert by_name["context_switches"]["moved"]
    assert not by_name["page_faults"]["moved"]
    assert by_name["timer_interrupts"]["follows_time"]
    text = as_markdown(views()["explain"].document(source_of(store), Options("report")))
    assert "guest: context switches" in text
    assert "need not be its cause" in text
    assert "cycles, instructions" not in text  # the facts of the host have them
    assert "cycles and instructions: the CPU shows no" in as_markdown(
        views()["host"].document(source_of(store), Options("report"))
    )


def test_a_guest_that_counts_nothing_is_set_apart_and_a_host_that_counts_more_is_not(store):
    def silent(platform, operations, random):
        switches = operations if platform == "native" else 0.0
        return {
            ("guest", "context_switches"): switches,
            ("host", "context_switches"): operations - switches,
        }

    stored(store, silent)
    [found] = explained_of(store)
    assert [each.place for each in found.moved] == ["host"]
    assert [each.place for each in found.silent] == ["guest"]


def test_a_filter_shows_less_and_judges_the_same(store):
    stored(store, script, others=("second", "third"))
    shown = ["--platform", "sandbox", "--json"]
    whole, narrowed = (
        json.loads(output_of("explain", *options))["explain"]["contrasts"]
        for options in (["--json"], shown)
    )
    assert {each["platform"] for each in whole} > {"sandbox"}
    assert narrowed == [each for each in whole if each["platform"] == "sandbox"]


def test_counters_of_a_stored_run_of_kernel_paths_are_per_operation(store):
    def sandboxed(platform, operations, random):
        switches = 2000.0 if platform == "sandbox" else 1000.0
        return {("guest", "context_switches"): switches + float(random.normal(0, 5))}

    kernel_paths = {
        "benchmark": "kernel-paths",
        "metric": "time",
        "unit": "ns",
        "effective": {"loops": 1000},
    }
    stored(store, sandboxed, **kernel_paths)
    [contrast] = json.loads(output_of("explain", "--json"))["explain"]["contrasts"]
    [switches] = contrast["counters"]
    assert contrast["work"] == "operation"
    assert (switches["baseline"], switches["treatment"]) == pytest.approx((1.0, 2.0), rel=0.01)
    assert "per operation" in output_of("explain")
