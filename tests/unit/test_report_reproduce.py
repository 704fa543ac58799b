"""What a report says of making a run again is enough to make it again, and its CSV is what the proof's tools read."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from a_run import DECLARED, begin, cells, fill

from vtax.messages import Note
from vtax.report.analysis import analyse
from vtax.report.answers.reproduce.compute import commands, study_toml
from vtax.report.files import write
from vtax.store.store import Store
from vtax.study.load import load, shipped

WITH_BOOTS = {name for name in shipped() if load(name).study.boot}


def test_a_run_is_made_again_with_the_tuning_it_had(tmp_path):
    table = {**DECLARED["benchmark"][1], "topology": "router-openflow"}
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        run = begin(opened, declared={**DECLARED, "benchmark": [table]})
        run.add_warning(Note("tuned", changes="governor performance"))
        printed = commands(analyse(opened))
    assert (
        "sudo .venv/bin/vtax image build" in printed
    )  # the run builds the layer of its study itself
    assert printed[-1] == "sudo .venv/bin/vtax run tour.toml --seed 1099511627783 --tune-host"


def test_a_run_over_several_boots_is_made_again_boot_by_boot(tmp_path):
    boots = [{"name": "linux", "platforms": ["native"]}, {"name": "xen", "platforms": ["xen-pv"]}]
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        fill(begin(opened, declared={**DECLARED, "boot": boots}), blocks=2)
        found = analyse(opened)
    (session,) = found.sessions
    found = replace(found, sessions=(session, replace(session, number=2)))
    run, _, more = commands(found)[-3:]
    assert (run, more) == (
        "sudo .venv/bin/vtax run tour.toml --seed 1099511627783",
        "sudo .venv/bin/vtax resume",
    )


def test_the_proof_on_real_noise_reads_the_csv_of_a_run(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "bench" / "statistics"))
    monkeypatch.delitem(sys.modules, "real_noise", raising=False)
    from real_noise import read

    native = [cell for cell in cells() if cell.key == "c-native"]
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as opened:
        fill(begin(opened))
        write(opened, "last", "csv", tmp_path / "all.csv")
        expected = next(
            r.block_means
            for s in analyse(opened).sections
            for p in s.points
            for r in p.rows
            if s.metric.name == "events" and r.cell.key == native[0].key
        )
    lines = (tmp_path / "all.csv").read_text().splitlines(keepends=True)
    (tmp_path / "native.csv").write_text(
        "".join([lines[0], *(line for line in lines if '"c-native"' in line)])
    )
    values = read(tmp_path / "native.csv", "events")
    assert values.shape == (8, 2)
    assert values.mean(axis=1) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stop"),
    [
        (name, stop)
        for name in sorted(shipped())
        for stop in ("fixed", "precision", "verdict", "budget")
        if stop == "fixed" or name not in WITH_BOOTS  # which allow no other
    ],
)
def test_the_study_of_a_report_is_accepted_and_is_the_same(name, stop, tmp_path):
    declared = load(name).study.declared()
    declared["design"] |= {
        "stop": stop,
        "order": "randomized",
        "budget": 3600.0 if stop == "budget" else None,
    }
    path = tmp_path / "again.toml"
    path.write_text(study_toml(declared))
    again = load(str(path), {}).study.declared()
    idle = ("blocks", "max_blocks")
    assert {k: v for k, v in again["design"].items() if k not in idle} == {
        k: v for k, v in declared["design"].items() if k not in idle
    }
    assert {**again, "design": 0} == {**declared, "design": 0}


def test_sizes_and_durations_of_a_study_are_written_with_units(tmp_path):
    declared = load("tour").study.declared()
    declared["guest"]["memory"] = 768 * 1024**2
    declared["design"] |= {"timeout": 600.0, "budget": 5400.5}
    text = study_toml(declared)
    assert 'memory = "768MiB"\n' in text
    assert 'timeout = "10min"\n' in text
    declared["design"]["budget"] = 1234567.25
    text = study_toml(declared)
    assert "budget = 1234567.25\n" in text
    path = tmp_path / "again.toml"
    path.write_text(text)
    again = load(str(path), {}).study.declared()
    assert again["guest"] == declared["guest"]
    assert (again["design"]["timeout"], again["design"]["budget"]) == (600.0, 1234567.25)
