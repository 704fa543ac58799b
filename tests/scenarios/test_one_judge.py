"""The rule that stops a run is the judge that reports it: over the stored runs of docs/examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.report.analysis.result import judged_run
from vtax.runner.plan import make_plan
from vtax.runner.stopping import Stopping
from vtax.store.query import load
from vtax.store.records import CLOCK_RATE
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate
from vtax.study.units import format_levels

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
FURTHER = 20  # blocks that the rules allow beyond those that were made
RULES: tuple[dict[str, Any], ...] = (
    {"stop": "verdict", "max_blocks": FURTHER},
    {"stop": "open", "blocks": FURTHER},
    {"stop": "precision", "precision": 0.05, "max_blocks": FURTHER},
)


@pytest.mark.parametrize("name", ["tour", "ufla2010", "mauricio2013", "urschei2007"])
def test_what_a_further_block_holds_is_what_the_report_leaves_open(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{tmp_path}/store.sqlite")
    assert CliRunner().invoke(group, ["import", str(EXAMPLES / f"{name}.vtax.gz")]).exit_code == 0
    with Store.open(f"sqlite:///{tmp_path}/store.sqlite", read_only=True) as store:
        run = store.open_run(store.run_names()[0])
        data, values, clocks = load(store.engine, run), run.primary_values(), run.cells_warned_of(CLOCK_RATE)
    probes = {p.name: Probe(p.available, p.reason, marks=tuple(p.marks)) for p in run.platforms}
    for design in RULES:
        monkeypatch.setattr(run, "declared", {**run.declared, "design": design})
        found = judged_run(data)
        loaded = LoadedStudy(validate({**run.declared, "must_match": []}, "test"), "test")
        plan = make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes, dry=True)
        here = {(c.platform.name, c.point.label, format_levels(c.point.levels)): c.key for c in plan.cells}
        key = {c.key: here[c.platform, c.label, format_levels(c.levels)] for c in run.cells}  # of this host's values
        assert len(set(key.values())) == len(plan.cells)
        stopping = Stopping(plan, [(key[k], *rest) for k, *rest in values], wrong_clocks={key[k] for k in clocks})
        decision = stopping.decide(found.blocks, elapsed_s=1.0)
        left = {tuple(each.split()[-2:]) for each in decision.open}
        expected = {(key[each.split()[-1]], each.split()[-2]) for each in found.targets.decision.open}
        assert left == expected
        assert (decision.stop, decision.reason) == (found.targets.decision.stop, found.targets.decision.reason)
        assert len(left) < len(plan.cells)
