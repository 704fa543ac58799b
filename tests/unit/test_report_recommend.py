"""Recommendations of runs with invented figures: places, what decides, what is missing, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from a_run import a_run
from shown import drawn, english
from shown import source_of as source

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report.analysis import Analysis
from vtax.report.answers.recommend.compute import recommend
from vtax.report.answers.recommend.ranking import Recommendation, Standing
from vtax.report.answers.recommend.view import VIEW, document_of
from vtax.report.renderers.json import as_json
from vtax.report.renderers.language import language
from vtax.report.renderers.markdown import markdown
from vtax.report.views.base import Options
from vtax.store.records import (
    CellRecord,
    PlatformRecord,
    UntestedRecord,
)

NATIVE = PlatformRecord("native", {"driver": "native"}, True, is_baseline=True)
ON = (
    NATIVE,
    PlatformRecord("docker", {"driver": "docker"}, True),
    PlatformRecord("kvm", {"driver": "qemu"}, True, marks=("nested",)),
    PlatformRecord("gvisor", {"driver": "gvisor"}, True),
)
OFF = PlatformRecord("xen", {"driver": "xen"}, False, reason="no hypervisor here", hint="boot one")
BENCHMARKS = ("sysbench-cpu", "iperf3", "dd")  # processor, network, disk
SPEED = {  # of native's, higher being better; dd's figure is a time, so its inverse is measured
    "native": (1.0, 1.0, 1.0),
    "docker": (1.0, 0.8, 0.9),
    "kvm": (0.9, 0.95, 0.7),
    "gvisor": (0.95, 0.2, 0.5),
}


def run_of(
    speed: Mapping[str, tuple[float | None, ...]] = SPEED,
    *,
    blocks: int = 8,
    noise: float = 0.01,
    platforms: tuple[PlatformRecord, ...] = (*ON, OFF),
    host: dict[str, Any] | None = None,
    seed: int = 1,
    untested: tuple[UntestedRecord, ...] = (),
    sessions: int = 1,
    drop: Callable[[str, str, int], bool] | None = None,
    status: str = "finished",
    tables: Sequence[Mapping[str, Any]] = (),
) -> Analysis:
    """A run of three benchmarks. speed: None where the platform has no cell. drop: trials that failed."""
    run = (
        a_run("study-1")
        .platforms(*platforms)
        .having(status=status, host=host or {}, untested=untested)
    )
    for name in BENCHMARKS:
        run = run.benchmark(name)
        run = run.metric("m", "s", "lower") if name == "dd" else run.metric("m")
    run = run.without(lambda cell: speed[cell.platform][BENCHMARKS.index(cell.label)] is None)
    run = run.declared(design={"stop": "fixed", "margin": 0.02}, benchmark=tables)
    random = np.random.default_rng(seed)
    hour = random.normal(0, 0.3, blocks)

    def value(cell: CellRecord, block: int, number: int) -> float:
        share = speed[cell.platform][BENCHMARKS.index(cell.label)] or 0.0
        rate = 100 * share * math.exp(hour[block] + random.normal(0, noise))
        if drop is not None and drop(cell.platform, cell.label, block):
            return math.nan
        return 1 / rate if cell.label == "dd" else rate

    return run.of_hosts([""] * sessions).with_guests().blocks(blocks).values(value).analysis()


def names(found: Recommendation) -> list[str]:
    return [each.platform.name for each in found.standings]


def standing(found: Recommendation, name: str) -> Standing:
    return next(each for each in found.standings if each.platform.name == name)


def summary(found: Recommendation) -> str:
    """The last part of its text: what is best, what to beware of, what was not tested."""
    return drawn(document_of(found)).partition("\nSummary\n")[2]


def test_weights_decide_the_order():
    analysis = run_of()
    assert names(recommend(analysis, {"cpu": 3, "disk": 1})) == ["docker", "kvm", "gvisor"]
    found = recommend(analysis, {"cpu": 1, "network": 10, "disk": 1})
    assert names(found) == ["kvm", "docker", "gvisor"]
    assert [each.place for each in found.standings] == [(1, 1), (2, 2), (3, 3)]
    first = found.standings[0]
    assert first.to_first is None
    assert all(each.to_first.high < 1 for each in found.standings[1:])
    assert first.score.estimate == pytest.approx((0.9 * 0.95**10 * 0.7) ** (1 / 12), rel=0.02)
    assert first.score.low < first.score.estimate < first.score.high
    assert first.resources["disk"].estimate == pytest.approx(0.7, rel=0.03)  # its figure is a time


def test_without_weights_all_resources_count_alike():
    found = recommend(run_of())
    assert [(each.name, each.share) for each in found.resources] == [
        ("cpu", pytest.approx(1 / 3)),
        ("disk", pytest.approx(1 / 3)),
        ("network", pytest.approx(1 / 3)),
    ]


def test_the_baseline_is_no_choice_unless_it_is_named_or_needed():
    analysis = run_of()
    assert recommend(analysis).reference is NATIVE
    chosen = recommend(analysis, choices=["native", "docker"])
    assert (names(chosen), chosen.reference) == (["native", "docker"], None)
    assert names(recommend(run_of(platforms=ON[:2]))) == ["native", "docker"]


def test_what_decides_is_what_contributes_most_to_the_lead():
    found = recommend(run_of(), {"cpu": 1, "network": 10, "disk": 1})
    most = found.contributions[0]
    assert most.resource == "network"
    assert most.ratio.estimate == pytest.approx(0.95 / 0.8, rel=0.03)
    scores = [each.score.estimate for each in found.complete[:2]]
    assert math.prod(each.factor for each in found.contributions) == pytest.approx(
        scores[0] / scores[1]
    )


def test_a_switch_is_where_the_first_place_changes():
    analysis, weights = run_of(), {"cpu": 1.0, "network": 10.0, "disk": 1.0}
    found = recommend(analysis, weights)
    (switch,) = [each for each in found.switches if each.resource == "network"]
    assert (switch.platform, switch.above) == ("docker", False)
    for factor, first in ((0.99, "docker"), (1.01, "kvm")):
        assert (
            names(recommend(analysis, {**weights, "network": switch.weight * factor}))[0] == first
        )


def test_near_equals_are_not_certain(golden):
    speed = {**SPEED, "kvm": (1.0, 0.8, 0.9)}
    found = recommend(run_of(speed, noise=0.05, blocks=5))
    first, second, _ = found.complete
    assert second.to_first.low < second.to_first.estimate <= 1 <= second.to_first.high
    assert second.to_first.estimate == pytest.approx(second.score.estimate / first.score.estimate)
    golden(summary(found))


def test_an_untested_resource_makes_the_place_a_range_with_the_reason(golden):
    speed = {**SPEED, "kvm": (0.9, None, 0.7)}
    untested = UntestedRecord(
        "kvm", "iperf3", "iperf3", "iperf3", reason="it takes one interface at most"
    )
    weights = {"cpu": 1.0, "network": 1.0}
    found = recommend(run_of(speed, untested=(untested,)), weights)
    kvm = standing(found, "kvm")
    assert kvm.to_first is None
    assert kvm.place == (1, 3)
    assert english(kvm.missing[0].reason) == "it takes one interface at most"
    assert kvm.score.low == pytest.approx((0.9 * 0.2) ** 0.5, rel=0.03)
    assert kvm.score.high == pytest.approx(0.9**0.5, rel=0.03)
    assert kvm.needed is not None
    caught_up = recommend(run_of({**SPEED, "kvm": (0.9, kvm.needed * 1.1, 0.7)}), weights)
    assert names(caught_up)[0] == "kvm"
    golden(drawn(document_of(found)))


def test_an_untested_resource_without_weight_does_not_matter():
    found = recommend(run_of({**SPEED, "kvm": (0.9, None, 0.7)}), {"cpu": 1, "disk": 1})
    assert not any(each.missing for each in found.standings)


def test_failed_trials_are_a_reason_too():
    found = recommend(run_of(drop=lambda platform, label, _: (platform, label) == ("docker", "dd")))
    assert [(m.resource, english(m.reason)) for m in standing(found, "docker").missing] == [
        ("disk", Note("no-trial-went-well"))
    ]


def test_a_platform_without_any_figure_is_named(golden):
    found = recommend(run_of())
    assert [(each.platform.name, english(each.reason)) for each in found.unranked] == [
        ("xen", OFF.reason)
    ]
    golden(drawn(document_of(found)))


def test_blocks_without_a_value_leave_the_others():
    found = recommend(
        run_of(drop=lambda platform, label, block: (platform, label, block) == ("kvm", "dd", 3))
    )
    assert len(found.complete) == 3
    assert (found.units, standing(found, "kvm").units, standing(found, "docker").units) == (7, 7, 8)
    assert all(each.to_first for each in found.complete[1:])


def test_a_platform_that_left_early_is_ranked_by_its_blocks_and_the_others_by_theirs():
    """By those of all three platforms, the others would have 3 blocks."""

    def after_three(platform: str, _: str, block: int) -> bool:
        return platform == "gvisor" and block >= 3

    found = recommend(run_of(blocks=12, drop=after_three))
    others = recommend(run_of(blocks=12), choices=["docker", "kvm"])
    assert names(found) == ["docker", "kvm", "gvisor"]
    assert [each.score for each in found.standings[:2]] == [each.score for each in others.standings]
    assert found.contributions == others.contributions
    assert (found.units, standing(found, "gvisor").units) == (12, 3)
    assert "intervals are from 12 blocks; those of gvisor from 3\n" in drawn(document_of(found))
    assert found.standings[2].to_first.high < 1


def test_one_value_of_a_platform_leaves_its_place_unsure_and_the_others_theirs():
    def after_one(platform: str, _: str, block: int) -> bool:
        return platform == "gvisor" and block >= 1

    found = recommend(run_of(blocks=12, drop=after_one))
    assert [each.to_first is None for each in found.standings] == [True, False, True]
    assert "within noise of gvisor" in summary(found)


def test_one_block_has_places_and_no_intervals(golden):
    found = recommend(run_of({**SPEED, "kvm": (0.9, None, 0.7)}, blocks=1))
    assert [each.to_first for each in found.standings] == [None] * 3
    golden(drawn(document_of(found)))
    values = as_json(document_of(found))
    assert (
        values["standings"][0]["score"]["high"]
        is values["contributions"][0]["ratio"]["high"]
        is None
    )


def test_a_platform_that_lacks_something_may_be_ahead_of_one_that_does_not():
    speed = {**SPEED, "kvm": (0.95, None, 0.9), "gvisor": (0.05, 0.05, 0.05)}
    places = {each.platform.name: each.place for each in recommend(run_of(speed)).standings}
    assert places == {"docker": (1, 2), "kvm": (1, 2), "gvisor": (3, 3)}
    assert names(recommend(run_of(speed))) == ["docker", "kvm", "gvisor"]


def test_an_unfinished_run_says_so():
    assert "study-1: running: 8 blocks" in drawn(document_of(recommend(run_of(status="running"))))
    assert as_json(document_of(recommend(run_of(status="running"))))["status"] == "running"


def test_the_summary_says_that_the_first_is_emulated_and_that_links_were_limited(golden):
    slow = (NATIVE, replace(ON[1], marks=("emulated",)), ON[3])
    linked = [{"name": "iperf3", "link": {"rate_mbit_s": 1000}}, {"name": "dd"}]
    golden(summary(recommend(run_of(platforms=slow, tables=linked))))
    assert "link limited" not in drawn(
        document_of(recommend(run_of(tables=linked), {"cpu": 1, "disk": 1}))
    )
    assert "is emulated" not in drawn(document_of(recommend(run_of())))


def test_the_first_leads_nobody_where_more_of_its_trials_failed_than_of_another():
    first, second = names(recommend(run_of()))[:2]

    def without_a_trial_of(lost: str) -> Recommendation:
        return recommend(
            run_of(blocks=20, drop=lambda platform, _, block: platform == lost and block == 3)
        )

    flattered, conservative = without_a_trial_of(first), without_a_trial_of(second)
    assert {each.to_first for each in flattered.standings} == {None}
    assert "how sure that is cannot be said" in drawn(document_of(flattered))
    assert "failures-differ" in {warning.code for warning in flattered.warnings}
    assert conservative.standings[1].to_first is not None


def test_sessions_are_the_units():
    found = recommend(run_of(blocks=9, sessions=3))
    assert (found.units, found.is_of_sessions) == (3, True)
    assert "intervals are from 3 sessions" in drawn(document_of(found))


def test_warnings_travel():
    few = recommend(run_of(blocks=3, host={"cpu_emulated": True}))
    assert {"few-blocks-for-places", "emulated-host"} <= {warning.code for warning in few.warnings}
    fast = recommend(run_of({**SPEED, "docker": (1.0, 0.8, 3.0)}))
    (warning,) = [each for each in fast.warnings if each.code == "better-than-baseline"]
    assert [(p.platform, p.subject) for p in warning.places] == [("docker", "disk")]
    assert "kvm (nested)" in drawn(document_of(fast))


def test_a_weighted_resource_that_nothing_measured_is_left_out_and_said_first(golden):
    found = recommend(run_of(), {"cpu": 1.0, "network": 2.0, "memory": 1.0})
    rest = recommend(run_of(), {"cpu": 1.0, "network": 2.0})
    assert [(s.platform.name, s.score) for s in found.standings] == [
        (s.platform.name, s.score) for s in rest.standings
    ]
    (missing,) = found.unmeasured
    assert (missing.resource, missing.weight, missing.share) == ("memory", 1.0, 0.25)
    document = document_of(found)
    golden(summary(found))
    (printed,) = as_json(document)["not_tested"]
    assert printed["reason"] == "no benchmark of this run measures it"
    assert recommend(run_of()).unmeasured == ()


def test_a_resource_without_a_value_of_the_baseline_ranks_nothing_and_says_so(golden):
    """Without the rule every platform would have 100 % of the baseline there."""
    off = UntestedRecord("native", "dd", "dd", "dd", reason="no room on the disk")
    speed = {**SPEED, "native": (1.0, 1.0, None)}
    found = recommend(run_of(speed, untested=(off,)), {"cpu": 1.0, "disk": 3.0})
    assert [each.share for each in found.resources if each.name == "disk"] == [0.0]
    assert found.standings[0].score.estimate == pytest.approx(1.0, abs=0.02)
    golden(summary(found))


def test_a_run_of_one_platform_or_without_a_block_is_refused(golden):
    with pytest.raises(BadInput) as caught:
        recommend(run_of(platforms=(NATIVE,)))
    golden(str(caught.value), "1")
    with pytest.raises(BadInput, match="no finished block"):
        recommend(run_of(drop=lambda *_: True))
    with pytest.raises(BadInput) as caught:
        recommend(run_of(drop=lambda platform, *_: platform == "native"))
    golden(str(caught.value), "2")


def test_the_view_says_why_there_is_nothing():
    document = VIEW.document(source(run_of(platforms=(NATIVE,))), Options())
    assert english(document.nothing) == "There is nothing to rank."
    assert (
        as_json(VIEW.document(source(run_of()), Options()))["standings"][0]["platform"] == "docker"
    )


def test_it_is_written_in_portuguese(golden):
    golden(
        markdown(
            document_of(recommend(run_of({**SPEED, "kvm": (0.9, None, 0.7)}))), language("pt-BR")
        )
    )
