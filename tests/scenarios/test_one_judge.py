"""The rule that stops a run is the judge that reports it, and every command says its words: over the runs of
docs/examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vtax.image.image import Image
from vtax.levels import Levels
from vtax.platforms.base import Probe
from vtax.report.analysis import Analysis
from vtax.report.analysis.result import analyse, judged_run
from vtax.report.answers.compare.compute import contrast
from vtax.report.answers.gate.compute import check
from vtax.runner.plan import make_plan
from vtax.runner.stopping import Stopping
from vtax.stats.terms import Conditions
from vtax.store.query import load
from vtax.store.records import CLOCK_RATE
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

FURTHER = 20  # blocks that the rules allow beyond those that were made


def rules_after(made: int) -> tuple[dict[str, Any], ...]:
    """Designs that take more blocks than were made."""
    most = made + FURTHER
    return (
        {"stop": "verdict", "max_blocks": most},
        {"stop": "open", "blocks": most},
        {"stop": "precision", "precision": 0.05, "max_blocks": most},
    )


@pytest.mark.parametrize("name", ["tour", "runtimes", "ufla2010", "mauricio2013", "urschei2007"])
def test_what_a_further_block_holds_is_what_the_report_leaves_open(name, example, monkeypatch):
    with Store.existing(example(name)) as store:
        run = store.open_run(store.run_names()[0])
        data, values, clocks = (
            load(store.engine, run),
            run.primary_values(),
            run.cells_warned_of(CLOCK_RATE),
        )
    probes = {p.name: Probe(p.available, p.reason, marks=tuple(p.marks)) for p in run.platforms}
    monkeypatch.setattr(run, "stopped_because", "")  # a run that its time ended is judged for good
    for design in rules_after(int(data.trials.block.max()) + 1):
        monkeypatch.setattr(run, "declared", {**run.declared, "design": design})
        found = judged_run(data)
        loaded = LoadedStudy(validate({**run.declared, "must_match": []}, "test"), "test")
        plan = make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes, dry=True)
        here = {
            (c.platform.name, c.point.label, c.point.levels.canonical): c.key for c in plan.cells
        }
        key = {
            c.key: here[c.platform, c.label, Levels(c.levels).canonical] for c in run.cells
        }  # of this host's values
        assert len(set(key.values())) == len(plan.cells)
        stopping = Stopping(
            plan, [(key[k], *rest) for k, *rest in values], wrong_clocks={key[k] for k in clocks}
        )
        decision = stopping.decide(found.blocks, elapsed_s=1.0)
        left = {tuple(each.split()[-2:]) for each in decision.open}
        expected = {
            (key[each.split()[-1]], each.split()[-2]) for each in found.targets.decision.open
        }
        assert left == expected
        assert (decision.stop, decision.reason) == (
            found.targets.decision.stop,
            found.targets.decision.reason,
        )
        assert len(left) < len(plan.cells)


def words_of_show(analysis: Analysis) -> dict[tuple[str, str], tuple[str, int] | None]:
    """(section, cell) -> word and size of its family of every ratio to the baseline that answers; None: no verdict."""
    return {
        (section.name, row.cell.key): (row.verdict.kind, row.verdict.family)
        if row.verdict
        else None
        for section in analysis.answered
        for point in section.points
        for row in point.rows
        if not row.platform.is_baseline
    }


SHIPPED = ["tour", "ufla2010", "mauricio2013", "urschei2007", "trindade2018", "santos2008"]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_command_says_the_same_word_of_a_ratio(name, example):
    with Store.existing(example(name)) as store:
        run = analyse(store)
        shown, compared = words_of_show(run), {}
        gate = {
            (e.pair.section.name, e.pair.treatment.cell.key): e
            for e in check(store, run, Conditions()).comparisons
        }
        platforms = [p.name for p in run.platforms if p.available and not p.is_baseline]
        for platform in platforms:
            for each in contrast(store, platform, run.baseline, run=run).pairs:
                word = (each.verdict.kind, each.verdict.family) if each.verdict else None
                compared[each.section.name, each.treatment.cell.key] = word
        label = gate[
            next(key for key in gate if gate[key].pair.treatment.platform.name == platforms[0])
        ].pair.section
        for one in check(
            store, run, Conditions(), treatment=platforms[0], label=label.label
        ).comparisons:
            other = gate[one.pair.section.name, one.pair.treatment.cell.key]
            assert (one.outcome, one.family, one.p_beyond) == (
                other.outcome,
                other.family,
                other.p_beyond,
            )
        assert compared == shown
        assert gate.keys() == shown.keys()
        for key, one in gate.items():
            word = shown[key]
            assert one.family == (word[1] if word else 0)
            contrary = {
                "slower": ("faster", "equivalent"),
                "costs-more": ("costs-less", "equal-cost"),
                "passed": ("slower", "costs-more"),
            }  # by the run's own margin
            assert word is None or word[0] not in contrary.get(one.outcome, ())


def test_the_word_of_two_platforms_does_not_depend_on_what_is_named_beside_it(example):
    with Store.existing(example("mauricio2013")) as store:
        run = analyse(store)
        treatment, baseline = [p.name for p in run.platforms if p.available and not p.is_baseline][
            :2
        ]
        together = contrast(store, treatment, baseline, run=run)
        sizes = set()
        for label in {section.label for section in run.primary}:
            alone = contrast(store, treatment, baseline, label=label, run=run).pairs
            assert list(alone) == [each for each in together.pairs if each.section.label == label]
            sizes |= {each.verdict.family for each in alone if each.verdict}
        assert max(sizes) < len(together.pairs)
