"""`trials = "auto"`: a pilot or a stored run chooses the trials of a block, and the run keeps what was chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripted import ScriptedDriver, StopAfter, executed, plan_of, study
from sqlalchemy import text

from vtax.errors import RunInterrupted
from vtax.host.home import Home
from vtax.report.analysis import analyse
from vtax.runner.allocation import PILOT_BLOCKS, PILOT_TRIALS, from_stored, with_trials
from vtax.runner.execute import begin, execute
from vtax.runner.plan import Plan
from vtax.store.query import load
from vtax.store.store import Store

CODES = ("trials", "host-busy", "clock-rate")


def auto_plan(tmp_path: Path, **design: object) -> Plan:
    """Short trials that alternate between two values, so that trials vary far more than blocks."""
    code = f"echo >>{tmp_path}/count; n=$(wc -l <{tmp_path}/count); echo $((100 + n % 2 * 30))"
    table = {"name": "script", "parameters": {"code": code}}
    return plan_of(study(benchmark=[table], design={"blocks": 3, "seed": 3, "trials": "auto", **design}))


def test_a_pilot_chooses_trials_that_are_stored_with_the_run(
    driver: ScriptedDriver, store: Store, home: Home, tmp_path: Path
) -> None:
    run = executed(auto_plan(tmp_path, warmup=1), store, home)
    data = load(store.engine, run)
    chosen = store.open_run(run.name).declared["design"]["trials"]
    assert chosen > 1
    for block in PILOT_BLOCKS:
        assert (data.trials.block == block).sum() == 2 * (1 + PILOT_TRIALS)
    assert data.trials.is_warmup[data.trials.block < 0].all()
    measured = ~data.trials.is_warmup
    assert np.bincount(data.trials.block[measured]).tolist() == [2 * chosen] * 3
    (note,) = [warning.text for warning in data.warnings if warning.code == "trials"]
    assert note.startswith(
        f"{chosen} trials of every cell in a block, chosen from a pilot of 3 blocks: a block costs"
    )
    assert analyse(store, run.name).blocks == 3


def test_warnings_of_a_pilot_are_not_those_of_the_result(
    driver: ScriptedDriver, store: Store, home: Home, tmp_path: Path
) -> None:
    run = executed(auto_plan(tmp_path), store, home)
    with store.engine.begin() as connection:
        connection.execute(text("delete from warning where code <> 'trials'"))
        for code in ("host-busy", "clock-rate"):
            connection.execute(
                text(
                    "insert into warning (run_id, cell_id, trial_id, code, text) "
                    "select run_id, cell_id, id, :code, 'noticed' from trial"
                ),
                {"code": code},
            )
    data = load(store.engine, run)
    counts = {code: sum(each.times for each in data.warnings if each.code == code) for code in CODES}
    assert (data.trials.block < 0).any()
    assert counts == {"trials": 1, "host-busy": (data.trials.block >= 0).sum(), "clock-rate": data.trials.block.size}


def test_a_stored_run_of_the_same_cells_chooses_without_a_pilot(
    driver: ScriptedDriver, store: Store, home: Home, tmp_path: Path
) -> None:
    first = executed(auto_plan(tmp_path), store, home)
    planned = with_trials(auto_plan(tmp_path), store)
    assert planned.study.design.trials > 1
    assert f"chosen from run {first.name}" in planned.trials_chosen
    second = executed(planned, store, home)
    data = load(store.engine, second)
    assert (data.trials.block >= 0).all()
    assert second.declared["design"]["trials"] == planned.study.design.trials
    assert any(planned.trials_chosen == warning.text for warning in data.warnings)


@pytest.mark.parametrize("change", ["another host", "other cells", "one trial a block"])
def test_other_runs_choose_nothing(
    driver: ScriptedDriver, store: Store, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    declared = auto_plan(tmp_path)
    made = auto_plan(tmp_path, trials=1 if change == "one trial a block" else 3)
    executed(made, store, home)
    if change == "another host":
        monkeypatch.setattr("vtax.runner.estimates.machine_id", lambda: "another")
    if change == "other cells":
        declared = replace(declared, cells=tuple(replace(cell, key="other") for cell in declared.cells))
    assert from_stored(declared, store) is None
    assert with_trials(declared, store) is declared


def test_a_run_that_stops_in_its_pilot_is_resumed_there(
    driver: ScriptedDriver, store: Store, home: Home, tmp_path: Path
) -> None:
    run = begin(store, auto_plan(tmp_path), vtax_version="test")
    with pytest.raises(RunInterrupted):
        execute(auto_plan(tmp_path), run, home, StopAfter(5))
    stopped = store.open_run(run.name)
    assert stopped.declared["design"]["trials"] == "auto"
    assert analyse(store, run.name).blocks == 0
    plan = replace(auto_plan(tmp_path), seed=run.seed)
    execute(plan, stopped, home, StopAfter(10**6))
    data = load(store.engine, stopped)
    assert (data.trials.block < 0).sum() == len(PILOT_BLOCKS) * 2 * PILOT_TRIALS
    assert store.open_run(run.name).declared["design"]["trials"] > 1
    assert (data.trials.block == 2).any()


def test_a_benchmark_that_always_fails_gets_one_trial(driver: ScriptedDriver, store: Store, home: Home) -> None:
    table = {"name": "script", "parameters": {"code": "exit 1"}}
    design = {"blocks": 2, "seed": 3, "trials": "auto"}
    run = executed(plan_of(study(benchmark=[table], design=design)), store, home)
    assert store.open_run(run.name).declared["design"]["trials"] == 1
    assert run.status == "finished"
