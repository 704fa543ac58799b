"""Points that a platform cannot carry have no cell: the rest runs, and is judged as if they had never been wanted.

The platform is scripted, and what it cannot carry is invented: real limits are in the tests of networks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedDriver, StopAfter, executed, install, plan_of, study
from shown import drawn, english, source_of, values

from vtax.errors import BadInput, RunInterrupted
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import Platform, Probe
from vtax.report.analysis import Analysis, analyse
from vtax.report.parts.sentences import answers
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.runner.begin import begin
from vtax.runner.plan import make_plan
from vtax.runner.points import Point
from vtax.runner.session import execute
from vtax.runner.stopping import Stopping
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

REASON = BadInput(
    "interfaces of other carry an MTU of at most 2", where="key platforms", hint="take other out"
)
CANNOT_UNPIN = Note("cannot-unpin", name="other", level="default")
TABLES = [
    {"name": "script", "factors": {"size": [1, 2, 3]}, "parameters": {"code": "echo 1.5"}},
    {"name": "script", "label": "both", "parameters": {"code": "echo 2.5"}},
]


def exact(values):
    """Values as a run has them, of a tool without a smallest step."""
    return [(*value, 0.0) for value in values]


def three(**changes: Any) -> dict[str, Any]:
    """A study on three platforms, of which `other` cannot carry size 3."""
    third = [{"name": "third", "driver": "scripted"}]
    given = {"platforms": ["native", "other", "third"], "platform": third, "benchmark": TABLES}
    return study(**{**given, **changes})


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> ScriptedDriver:
    def why_not(platform: Platform, point: Point, source: str) -> BadInput | None:
        return REASON if platform.name == "other" and point.levels.get("size") == 3 else None

    monkeypatch.setattr("vtax.runner.untested.network_obstacle", why_not)
    return install(monkeypatch)


@pytest.fixture
def analysis(store: Store, home: Home) -> Analysis:
    executed(plan_of(three(design={"blocks": 6, "seed": 7})), store, home)
    return analyse(store)


def test_the_rest_of_the_study_is_planned_and_run(analysis, store):
    made = {(cell.platform, cell.label, cell.levels.get("size")) for cell in analysis.cells}
    assert len(made) == 3 * 4 - 1
    assert ("other", "script", 3) not in made
    assert analysis.trials == 6 * 11
    assert analysis.failed == 0
    (untested,) = store.open_run("last").untested
    assert (untested.platform, untested.label, untested.levels) == ("other", "script", {"size": 3})
    assert (untested.reason, untested.hint) == (REASON.what, REASON.hint)


def test_results_say_what_was_not_tested_and_why(analysis):
    text = drawn(views()["result"].document(source_of(analysis), Options("brief")))
    assert "Not tested" in text
    assert "other in script" in text
    assert "size=3" in text
    assert REASON.what in text
    (plain,) = values(analysis)["not_tested"]
    assert (plain["platform"], plain["levels"], plain["reason"]) == (
        "other",
        {"size": 3},
        REASON.what,
    )


def test_families_and_answers_hold_the_contrasts_that_there_are(analysis):
    script, both = analysis.primary
    assert (script.family, both.family) == (5, 2)
    rows = {
        (row.platform.name, point.levels["size"]): row
        for point in script.points
        for row in point.rows
    }
    assert len(rows) == 8
    assert all(row.verdict is not None for row in rows.values() if row.platform.name != "native")
    for answer in answers(analysis):
        assert "no answer" not in english(answer.text)


def test_a_rule_is_met_without_the_cells_that_there_are_not():
    plan = plan_of(
        three(design={"stop": "precision", "precision": 0.05, "min_blocks": 3, "seed": 7})
    )
    already = [
        (cell.key, block, "figure", 100.0 + block) for cell in plan.cells for block in range(3)
    ]
    decision = Stopping(plan, exact(already)).decide(3, elapsed_s=1)
    assert (decision.stop, decision.reached) == (True, True)
    slow = {
        cell.key
        for cell in plan.cells
        if cell.platform.name == "third" and cell.point.levels.get("size") == 3
    }
    noisy = [(key, b, m, v * (1 + b * (key in slow))) for key, b, m, v in already]
    judge = Stopping(plan, exact(noisy))
    decision = judge.decide(3, elapsed_s=1)
    assert not decision.stop
    pending = [cell for cell in plan.cells if cell.key in judge.pending(decision)]
    assert {(cell.platform.name, cell.point.levels["size"]) for cell in pending} == {
        ("native", 3),
        ("third", 3),
    }


def test_an_interrupted_run_is_resumed_with_the_same_cells(store, home):
    plan = plan_of(three())
    run = begin(store, plan, vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, StopAfter(5))
    again = plan_of(three())
    assert [cell.key for cell in again.cells] == [cell.key for cell in plan.cells]
    execute(again, store.open_run("last"), home, StopAfter(1000))
    assert analyse(store).trials == 2 * 11


def test_cells_without_a_network_ride_with_the_first_network_that_their_platform_has(monkeypatch):
    """So that audits of guests that were started alike compare them with the others'."""
    tables = [
        {"name": "stream"},
        {"name": "iperf3", "topology": "router"},
        {"name": "netperf"},
    ]
    monkeypatch.undo()
    declared = {"name": "s", "platforms": ["native", "gvisor-ptrace"], "benchmark": tables}
    loaded = LoadedStudy(validate(declared, "test"), "test")
    probes = {name: Probe(True) for name in ("native", "gvisor-ptrace")}
    plan = make_plan(loaded, image=Image("key", Path("/nowhere")), seed=7, probes=probes)
    guests = {
        session.platform.name
        + " "
        + (session.networked.topology if session.networked else ""): sorted(
            cell.point.label for cell in session.cells
        )
        for session in plan.guests(0)
    }
    assert guests == {
        "native router": ["iperf3", "stream"],
        "native point-to-point": ["netperf"],
        "gvisor-ptrace point-to-point": ["netperf", "stream"],
    }


def test_a_platform_that_carries_nothing_is_not_started(monkeypatch, driver, store, home, probe_by):
    monkeypatch.setattr(
        "vtax.runner.untested.network_obstacle",
        lambda platform, *_: REASON if platform.name == "other" else None,
    )
    probed: list[str] = []
    probe_by(lambda self, image: probed.append(self.name) or Probe(True))
    run = executed(plan_of(three()), store, home)
    assert probed == ["native", "third"]
    (other,) = [platform for platform in run.platforms if platform.name == "other"]
    assert (other.available, other.reason, other.hint) == (False, REASON.what, REASON.hint)
    assert store.open_run("last").untested == ()
    assert {cell.platform for cell in run.cells} == {"native", "third"}


@pytest.mark.parametrize(
    ("tunings", "level", "what"),
    [
        (("pinned",), "default", "cannot run unpinned, as tuning level 'default' asks"),
        (("default", "pinned"), "pinned+hugepages", "cannot have its memory in huge pages"),
        (("pinned", "hugepages"), "hugepages", "cannot run unpinned"),
        ((), "pinned", "cannot be pinned"),
    ],
)
def test_a_baseline_that_cannot_follow_a_level_is_refused(driver, tunings, level, what):
    driver.tunings = tunings
    with pytest.raises(BadInput, match=f"native {what}") as caught:
        plan_of(study(tuning=[level]))
    assert caught.value.where == "test: key tuning"
    assert driver.started == []


def test_a_platform_has_no_cells_at_a_level_that_it_cannot_follow(driver, store, home):
    fewer = ScriptedDriver()
    fewer.name = "fewer"
    fewer.tunings = ("pinned",)
    fewer.variants = {"other": {}}
    driver.variants = {"native": {}}
    driver.others = {"fewer": fewer}
    run = executed(plan_of(study(tuning=["pinned", "default"], benchmark=TABLES[1:])), store, home)
    assert run.status == "finished"
    levels = [(cell.platform, cell.levels["tuning"]) for cell in run.cells]
    assert set(levels) == {("native", "pinned"), ("native", "default"), ("other", "pinned")}
    untested = store.open_run("last").untested
    assert {(each.platform, each.levels["tuning"], each.reason) for each in untested} == {
        ("other", "default", CANNOT_UNPIN)
    }
    text = drawn(views()["result"].document(source_of(analyse(store)), Options("brief")), 400)
    assert CANNOT_UNPIN in text
    alone = plan_of(study(tuning=["default"], benchmark=TABLES[1:]))
    assert {cell.platform.name for cell in alone.cells} == {"native"}
    (other,) = [entry for entry in alone.platforms if entry.platform.name == "other"]
    assert other.probe.reason == CANNOT_UNPIN


def test_a_host_without_huge_pages_runs_the_other_levels(driver, tmp_path, policy_in):
    policy_in(tmp_path)
    plan = plan_of(study(tuning=["pinned", "pinned+hugepages"], benchmark=TABLES[1:]))
    assert {(cell.platform.name, cell.point.tuning) for cell in plan.cells} == {
        ("native", "pinned"),
        ("other", "pinned"),
    }
    reasons = {(each.platform.name, each.point.tuning, each.error.what) for each in plan.untested}
    why = Note("no-huge-pages")
    assert reasons == {(name, "pinned+hugepages", why) for name in ("native", "other")}
    with pytest.raises(BadInput) as refused:
        plan_of(study(tuning=["hugepages"]))
    assert refused.value.what.endswith(f" native does not run here: {why}")
