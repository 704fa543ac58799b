"""Sessions of a run: blocks split over them, and the next one begun after a pause, a reboot or a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted import StopAfter, executed, install, plan_of, study
from shown import drawn
from shown import sentence as sentence_of

from vtax.errors import BadInput, RunInterrupted
from vtax.host.home import Home
from vtax.report.analysis.source import source_of
from vtax.report.answers.explain import view as explain
from vtax.report.answers.pivot import show as pivot_part
from vtax.report.answers.pivot.compute import Axes, pivot
from vtax.report.document import Document, Paragraph
from vtax.report.renderers.json import as_json
from vtax.report.views.base import Options
from vtax.report.views.registry import views
from vtax.runner import host_sessions, stopping
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.plan import Plan
from vtax.runner.resume import check_host
from vtax.runner.session import execute
from vtax.stats.sessions import ratio_over_sessions
from vtax.stats.stopping import within_budget
from vtax.store.query import load
from vtax.store.run import RunHandle
from vtax.store.store import Store

DESIGN: dict[str, Any] = {"blocks": 7, "sessions": 3, "seed": 7}
ONE_POINT = [
    {
        "name": "script",
        "parameters": {"code": "awk -v s=$$ 'BEGIN { srand(s); print 1 + rand() / 10 }'"},
    }
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    install(monkeypatch)
    return Home(tmp_path).ensure()


def planned(**design: Any) -> Plan:
    return plan_of(study(design={**DESIGN, **design}, benchmark=ONE_POINT))


def next_session(run: RunHandle, plan: Plan, home: Home, boot: str, **facts: Any) -> None:
    """What `vtax resume --session` does, in another boot of the host."""
    added = host_sessions.check_next(run, plan.study.design)
    host = {**run.host, **facts}
    check_host(run, host, run.session.number + 1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_sessions, "boot_id", lambda: boot)
        host_sessions.begin_next(run, host, added)
    execute(plan, run, home, Observer())


def blocks_by_session(store: Store, run: RunHandle) -> dict[int, list[int]]:
    trials = load(store.engine, run).trials
    return {
        s: sorted(set(trials.block[trials.session == s].tolist()))
        for s in sorted(set(trials.session.tolist()))
    }


def shown(store: Store, name: str, view: str) -> Any:
    return as_json(views()[view].document(source_of(store, name), Options("brief")))


def method_of(store: Store, run: RunHandle) -> str:
    return drawn(views()["method"].document(source_of(store, run.name), Options("brief")))


def test_a_run_of_three_sessions_pauses_between_them_and_the_session_is_the_unit(store, home):
    plan = planned()
    run = executed(plan, store, home)
    assert (run.status, run.stopped_because) == (
        "paused",
        "session 1 of 3 is complete: 3 of 3 blocks are made",
    )
    run = store.open_run(run.name)
    assert source_of(store, run.name).analysis.missed_targets == ()
    next_session(run, plan, home, "b" * 32, kernel="6.99", cpu_microcode="0xff")
    assert (run.status, run.session.boot_id) == ("paused", "b" * 32)
    next_session(run, plan, home, "c" * 32)
    assert (run.status, run.stopped_because) == ("finished", "7 of 7 blocks are made")
    assert blocks_by_session(store, run) == {1: [0, 1, 2], 2: [3, 4], 3: [5, 6]}

    source = source_of(store, run.name)
    (section,) = source.analysis.sections
    native, other = section.points[0].rows
    logs = np.log(other.block_means / native.block_means)
    expected = ratio_over_sessions(logs, [1, 1, 1, 2, 2, 3, 3])
    assert (other.ratio.n_sessions, other.ratio.df) == (3, 2.0)
    assert (other.ratio.low, other.ratio.high) == pytest.approx((expected.low, expected.high))
    assert (other.ratio.predicted_low, other.ratio.predicted_high) == pytest.approx(
        (expected.predicted_low, expected.predicted_high)
    )
    text_of = " ".join(drawn(views()["result"].document(source, Options("all"))).split())
    assert "3 sessions in 3 boots of the host: intervals are over sessions" in text_of
    assert "3 of 3 sessions" in text_of
    found = shown(store, run.name, "sessions")
    assert [each["blocks"] for each in found["sessions"]] == [[1, 2, 3], [4, 5], [6, 7]]
    assert [each["boot_id"] for each in found["sessions"]][1:] == ["b" * 32, "c" * 32]
    changed = {
        each["fact"]: each["values"] for each in shown(store, run.name, "audit")["host_changes"]
    }
    assert set(changed) == {"kernel", "CPU microcode"}
    assert changed["kernel"][1] == "6.99"
    assert "as if sessions did not differ" in drawn(
        views()["variance"].document(source, Options("brief"))
    )
    (warning,) = [each for each in source.analysis.warnings if each.code == "host-changed-session"]
    assert warning.data["session"].value == 2


def test_method_and_reproduction_describe_every_session(store, home, golden):
    plan = planned(sessions=2, blocks=4)
    run = executed(plan, store, home)
    golden(method_of(store, run), "one session")
    assert not any("--session" in line for line in shown(store, run.name, "reproduce")["commands"])
    for boot in ("b" * 32, "c" * 32):
        next_session(run, plan, home, boot)
    golden(method_of(store, run), "three sessions")
    commands = shown(store, run.name, "reproduce")["commands"]
    assert commands[-4:] == [
        "# session 2, after a reboot or at another hour:",
        "sudo .venv/bin/vtax resume --session",
        "# session 3, after a reboot or at another hour, added after the result was known:",
        "sudo .venv/bin/vtax resume --session",
    ]


def test_a_session_that_was_killed_is_completed_before_the_next(store, home):
    plan = planned()
    run = executed(plan, store, home)
    host_sessions.begin_next(run, run.host)
    assert store.open_run(run.name).status == "interrupted"  # killed before its first trial
    with pytest.raises(BadInput, match=r"session 2 of s-1 is not complete"):
        host_sessions.check_next(store.open_run(run.name), plan.study.design)
    with pytest.raises(RunInterrupted):
        execute(plan, run, home, StopAfter(1))
    run = store.open_run(run.name)
    assert run.status == "interrupted"
    with pytest.raises(BadInput, match=r"session 2 of s-1 is not complete"):
        host_sessions.check_next(run, plan.study.design)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_sessions, "boot_id", lambda: "d" * 32)
        host_sessions.note_boot(run)
    execute(plan, run, home, Observer())
    assert (run.status, run.stopped_because) == (
        "paused",
        "session 2 of 3 is complete: 5 of 5 blocks are made",
    )
    assert blocks_by_session(store, run) == {1: [0, 1, 2], 2: [3, 4]}
    (warning,) = [
        each for each in source_of(store, run.name).analysis.warnings if each.code == "another-boot"
    ]
    assert "rebooted within session 2" in sentence_of(warning)


def test_a_finished_run_gets_a_session_of_as_many_blocks_as_its_first(store, home):
    plan = planned(blocks=2, sessions=1)
    run = executed(plan, store, home)
    assert run.status == "finished"
    lead = drawn(views()["result"].document(source_of(store, run.name), Options("brief")), 400)
    assert "measured in one session; results may differ after a reboot" in lead
    next_session(run, plan, home, "b" * 32)
    assert blocks_by_session(store, run) == {1: [0, 1], 2: [2, 3]}
    data = {each.code: each.data for each in source_of(store, run.name).analysis.warnings}
    assert [data["session-added"][name].value for name in ("session", "count")] == [2, 1]


def test_a_finished_run_gets_the_blocks_that_fit_into_a_time_and_says_so(store, home):
    """What `vtax resume --budget` does: trials of this platform last no time, so the budget is that of two blocks."""
    plan = planned(blocks=2, sessions=1)
    run = executed(plan, store, home)
    run = store.open_run(run.name)
    added = host_sessions.check_more(run, plan.study.design, 3600.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            stopping,
            "within_budget",
            lambda rule, goal, blocks, spent_s, block_s: within_budget(
                rule, goal, blocks, 1800.0 * blocks - 3600.0, 1800.0
            ),
        )
        execute(host_sessions.add_blocks(run, plan, 3600.0, added), run, home, Observer())
    assert run.status == "finished"
    assert blocks_by_session(store, run) == {1: [0, 1, 2, 3]}
    analysis = source_of(store, run.name).analysis
    data = {warning.code: warning.data for warning in analysis.warnings}
    assert data["blocks-added"]["blocks"].value == 2
    rows = analysis.sections[0].points[0].rows
    assert [row.blocks.tolist() for row in rows] == [[0, 1, 2, 3]] * 2


def test_an_open_run_takes_sessions_and_blocks_without_a_warning(store, home):
    plan = planned(blocks=2, sessions=1, stop="open")
    run = executed(plan, store, home)
    assert host_sessions.check_more(run, plan.study.design, 3600.0) is None
    next_session(run, plan, home, "b" * 32)
    assert blocks_by_session(store, run) == {1: [0, 1], 2: [2, 3]}
    analysis = source_of(store, run.name).analysis
    assert not {"session-added", "blocks-added"} & {warning.code for warning in analysis.warnings}
    assert analysis.rule.name == "open"


@pytest.mark.parametrize(
    ("status", "design", "budget_s", "printed"),
    [
        ("interrupted", {}, 60.0, "s-1 is interrupted"),
        (
            "finished",
            {"order": "sequential"},
            60.0,
            "s-1 cannot have more blocks: it has sequential order",
        ),
        (
            "finished",
            {"stop": "precision", "min_blocks": 2, "max_blocks": 5},
            60.0,
            "it has stop = 'precision'",
        ),
        ("finished", {}, 1e-9, "the budget is shorter than a block of s-1"),
    ],
)
def test_a_time_for_more_blocks_is_refused_where_it_cannot_hold_any(
    store, home, status, design, budget_s, printed
):
    plan = planned(blocks=2, sessions=1)
    run = executed(plan, store, home)
    run.finish(status, "enough", 1.0)
    other = plan.study.design.model_copy(update=design)
    with pytest.raises(BadInput, match=printed):
        host_sessions.check_more(run, other, budget_s)


@pytest.mark.parametrize(
    "design",
    [{"stop": "precision"}, {"stop": "verdict"}, {"order": "sequential"}],
)
def test_a_run_whose_rule_has_no_sessions_gets_none(store, home, design):
    made = {"blocks": 1, "sessions": 1, "min_blocks": 2, "max_blocks": 5, **design}
    if made.get("stop", "fixed") != "fixed":
        del made["blocks"]
    plan = plan_of(study(design=made, benchmark=ONE_POINT))
    run = begin(store, plan, vtax_version="test")
    run.finish("finished", "enough", 1.0)
    with pytest.raises(BadInput, match=r"s-1 cannot have another session: its study has "):
        host_sessions.check_next(run, plan.study.design)


@pytest.mark.parametrize(
    ("design", "printed"),
    [
        ({"blocks": 2, "sessions": 3}, "3 sessions are more than 2 blocks"),
        ({"stop": "verdict", "sessions": 2}, "several sessions need 'fixed', 'open' or 'budget'"),
        ({"stop": "precision", "sessions": 2}, "several sessions need 'fixed', 'open' or 'budget'"),
        ({"order": "sequential", "sessions": 2}, "'sequential' makes all blocks"),
        ({"sessions": 0}, "sessions is 0; it must be a whole number from 1"),
    ],
)
def test_a_study_cannot_ask_for_sessions_that_its_rule_does_not_have(home, design, printed):
    with pytest.raises(BadInput) as caught:
        plan_of(study(design=design))
    assert printed in str(caught.value)


def test_a_budget_is_shared_by_the_sessions(home):
    design = planned(stop="budget", budget="1h", sessions=4).study.design
    ends = [host_sessions.rule_in(design, session).budget_s for session in (1, 2, 4, 5)]
    assert ends == [900.0, 1800.0, 3600.0, 4500.0]


def test_drift_over_several_sessions_may_be_sessions_that_differ(store, home, tmp_path):
    code = f"echo >>{tmp_path}/count; n=$(wc -l <{tmp_path}/count); echo $((100 + n))"
    table = {"name": "script", "parameters": {"code": code}}
    plan = plan_of(study(design={"blocks": 8, "sessions": 2, "seed": 7}, benchmark=[table]))
    run = executed(plan, store, home)
    next_session(run, plan, home, "b" * 32)
    (warning,) = [
        each
        for each in source_of(store, run.name).analysis.warnings
        if each.code.startswith("drift")
    ]
    assert sentence_of(warning).endswith(
        "a trend, slow wander, or sessions that differ, which this test of blocks "
        "does not tell apart"
    )


def test_figures_of_blocks_say_so_of_a_run_with_several_sessions(store, home, monkeypatch):
    def percentiles() -> Document:
        source = source_of(store, run.name)
        return pivot_part.document_of(pivot(source, Axes(), "p50"))

    def explained() -> Document:
        return views()["explain"].document(source_of(store, run.name), Options("brief"))

    plan = planned(blocks=2, sessions=2)
    run = executed(plan, store, home)
    monkeypatch.setattr(
        explain, "document_of", lambda *_, **__: Document("t", (Paragraph("figures"),))
    )
    sentence = "These figures are of blocks, as if sessions did not differ"
    assert all(sentence not in drawn(made()) for made in (percentiles, explained))
    next_session(run, plan, home, "b" * 32)
    assert all(sentence in drawn(made()) for made in (percentiles, explained))
    monkeypatch.setattr(
        explain, "document_of", lambda *_, **__: Document("t", (), nothing="nothing of that")
    )
    assert sentence not in drawn(explained())
