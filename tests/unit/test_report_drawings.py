"""What a figure of a publication shows of a run: its cells, the publication's statistic, intervals from blocks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from drawn_run import plan_of, run_of
from golden_files import Golden

from vtax.errors import BadInput
from vtax.levels import METRIC
from vtax.messages import Note
from vtax.report.analysis.result import judged_run, shown
from vtax.report.analysis.source import Source
from vtax.report.answers.figures.chart import chart_of
from vtax.report.answers.figures.compute import (
    Drawing,
    Plotted,
    cell_tests,
    drawings,
    finished_blocks,
)
from vtax.report.answers.figures.view import exported
from vtax.report.chapters import report
from vtax.report.renderers import vega
from vtax.report.renderers.format import english
from vtax.report.renderers.html import html
from vtax.study.load import Chosen, load, shipped

pytestmark = pytest.mark.slow

STUDIES = ("ufla2010", "santos2008", "mauricio2013", "trindade2018")


def run(study: str, hosts: int = 1, without: tuple[str, ...] = ()) -> Source:
    return run_of(study, 4, without, hosts)


def figures(source: Source, **mapped: str) -> dict[str, Drawing]:
    mapping = {name.replace("_", "-"): here for name, here in mapped.items()}
    return {each.figure.id: each for each in drawings(source.analysis, source.data, mapping)}


def at(drawing: Drawing, platform: str, **levels: str) -> Plotted:
    (found,) = [
        place
        for place in drawing.places
        if place.platform == platform
        and all(place.levels.get(f) == level for f, level in levels.items())
    ]
    return found


@pytest.mark.parametrize("study", STUDIES)
def test_every_declared_figure_finds_cells_of_its_own_study(study: str) -> None:
    """On every platform that it does not leave out, with all three statistics."""
    source = run(study, 2 if study == "ufla2010" else 1)
    names = [platform.name for platform in source.analysis.platforms]
    for drawing in figures(source).values():
        wanted = {name for name in names if drawing.figure.shows_platform(name)}
        assert {place.platform for place in drawing.places if place.here} == wanted, (
            drawing.figure.id
        )
        assert all(place.tests for place in drawing.places), drawing.figure.id
        assert drawing.absent == ()


def test_a_point_whose_messages_no_wire_carries_is_marked() -> None:
    """At the axis, and with a sentence below the figure."""
    planned = plan_of(load("santos2008", chosen=Chosen(scale="quick")))
    (one,) = [
        cell.key
        for cell in planned.cells
        if (cell.label, cell.platform, cell.levels.get("request_size"))
        == ("TCP small", "native", 1)
    ]
    note = Note("undelayed", request=1, response=1, module="sch_netem")
    for notes, signs in (([], [False, False]), ([note], [True, False])):
        run = planned.run().blocks(2)
        for each in notes:
            run = run.warned(one, each)
        data = run.values(
            lambda cell, *_: {"transfer_rate": 2.0} if cell.benchmark == "netperf" else {}
        ).data()
        source = Source(data, shown(data, judged_run(data)))
        chart = chart_of(figures(source)["figure-2"], source.analysis)
        assert ["†" in english(label) for _, label in chart.x_labels] == signs
        assert any("no wire carries" in english(note) for note in chart.notes) == any(signs)


def test_the_publications_statistic_is_of_all_tests_and_ours_of_blocks() -> None:
    source = run("mauricio2013")
    place = at(figures(source)["figure-5"], "kvm-virtio", metric="sent")
    key = next(
        c.key
        for c in source.analysis.cells
        if c.platform == "kvm-virtio" and c.label == "point to point"
    )
    values = cell_tests(source.data)[key, "sent"][1]
    assert place.tests is not None
    assert place.here is not None
    assert (place.tests.n, place.blocks) == (4, 4)
    assert place.tests.mean == pytest.approx(np.mean(values))
    assert place.tests.cv == pytest.approx(np.std(values, ddof=1) / np.mean(values))
    half = 3.182446305 * np.std(values, ddof=1) / 2  # t(0.975, 3) and the root of 4 tests
    assert place.tests.drawn.high == pytest.approx(np.mean(values) + half)
    assert place.ratio is not None
    assert place.ratio.value == pytest.approx(0.85, rel=0.1)


def test_printed_numbers_stand_beside_ours_measured_or_not() -> None:
    drawing = figures(run("trindade2018", without=("virtualbox",)))["table-2"]
    printed = {place.platform: place.printed for place in drawing.places if place.printed}
    assert {name: each.value for name, each in printed.items()} == {
        "native": 815,
        "docker-layer": 814,
        "lxc": 814,
        "virtualbox": 511,
        "kvm-virtio": 672,
    }
    assert at(drawing, "virtualbox").here is None
    assert drawing.absent == ("virtualbox",)
    fast = printed["kvm-virtio"]
    assert fast.high == pytest.approx(672 + 33.63)


def test_printed_numbers_are_at_their_own_metric_alone() -> None:
    drawing = figures(run("mauricio2013"))["figure-7"]
    assert {
        (p.platform, p.levels[METRIC]): p.printed.value for p in drawing.places if p.printed
    } == {("xen-pv", "throughput"): 553}


def test_the_table_of_variation_has_the_largest_of_each_group() -> None:
    source = run("santos2008")
    drawing = figures(source)["table-1"]
    place = at(drawing, "xen-hvm", benchmark="UDP medium")
    tests = cell_tests(source.data)
    cells = [
        c for c in source.analysis.cells if c.platform == "xen-hvm" and c.label == "UDP medium"
    ]
    values = [tests[cell.key, "transactions"][1] for cell in cells]
    assert place.tests is not None
    assert place.tests.cv == pytest.approx(max(np.std(v, ddof=1) / np.mean(v) for v in values))
    assert place.printed is not None
    assert place.printed.value == 0.6
    assert len({(p.levels["benchmark"], p.levels[METRIC]) for p in drawing.places}) == 11


def test_hosts_of_a_merged_run_are_hosts() -> None:
    found = figures(run("ufla2010", 2))
    first, second = found["figure-5.1"], found["figure-5.2"]
    assert [place.test for place in first.single if place.platform == "xen-pv"] == [1, 2]
    assert {place.platform for place in second.single} == {"xen-pv", "virtualbox", "qemu-tcg-e1000"}
    values = [
        place.tests.mean for place in first.single if place.platform == "xen-pv" and place.tests
    ]
    here = at(first, "xen-pv").here
    assert here is not None
    assert here.value == pytest.approx(sum(values) / 2)
    assert {place.host for place in found["figure-5.5"].places} == {1, 2}


def test_a_run_of_one_host_has_no_second_host() -> None:
    found = figures(run("ufla2010"))
    assert found["figure-5.3"].is_measured
    assert not found["figure-5.4"].is_measured
    assert found["figure-5.4"].hosts == 1


def test_a_mapped_platform_is_drawn_in_place_of_the_publications(golden: Golden) -> None:
    source = run("santos2008", without=("xen-hvm",))
    place = at(figures(source, xen_hvm="kvm-virtio")["cpu"], "kvm-virtio")
    assert place.there == "xen-hvm"
    assert place.printed is not None
    assert place.printed.value == 218.3
    with pytest.raises(BadInput, match=r"santos2008 .*'lxc'"):
        figures(source, lxc="kvm-virtio")
    with pytest.raises(BadInput) as caught:
        figures(run("santos2008", without=("xen-hvm", "xen-pv")), xen_pv="xen-hvm")
    golden(str(caught.value))


def notes(drawing: Drawing, source: Source) -> list[str]:
    return [english(note) for note in chart_of(drawing, source.analysis).notes]


def test_a_chart_names_what_stands_for_the_publications_platforms() -> None:
    """A heatmap has no legend, so that its notes are the only place that says it."""
    source = run("urschei2007", without=("xen-dom0", "xen-pv"))
    found = figures(source, xen_dom0="docker", xen_pv="kvm-virtio")
    assert notes(found["figure-7"], source)[0] == "docker stands for xen-dom0, by request."
    assert notes(found["figure-3"], source)[0] == "kvm-virtio stands for xen-pv, by request."
    assert found["figure-2"].mapped == {}
    assert found["figure-5"].mapped == {"xen-dom0": "docker", "xen-pv": "kvm-virtio"}
    result = exported(list(found.values()), source.analysis)
    assert result.figures[5].drawing.mapped == {"xen-dom0": "docker"}


def test_a_chart_names_its_publication_and_what_is_not_of_it() -> None:
    source = run("mauricio2013")
    said = notes(figures(source)["figure-5"], source)
    assert "Not in the publication: kvm-virtio-user." in " ".join(said)
    assert any(text.startswith("Publication: Mauricio and Rubinstein") for text in said)
    assert not any(
        text.startswith("Not in")
        for text in notes(figures(run("ufla2010"))["figure-5.5"], run("ufla2010"))
    )


def test_a_chart_says_what_the_scale_changed_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(vega, "static_svg", lambda *_: "")  # a fifth of a second each
    source = run(
        "urschei2007", without=("xen-dom0", "xen-pv", "docker")
    )  # else of thousands of cells
    fewer = tmp_path / "fewer.toml"
    text = shipped()["urschei2007"].read_text(encoding="utf-8")
    fewer.write_text(
        text.replace("message_size = [512, 1048576] }\n\n#", "message_size = [512, 65536] }\n\n#")
    )
    study = load(str(fewer), chosen=Chosen(scale="quick")).study.model_dump(mode="json")
    declared = {
        **source.analysis.declared,
        "figure": study["figure"],
        "changed_by": study["changed_by"],
    }
    source = Source(source.data, replace(source.analysis, declared=declared))
    drawn = figures(source)
    found = notes(drawn["figure-5"], source)
    (changed,) = [
        note for note in found if note.startswith("the study was changed by --scale quick: ")
    ]
    assert "message_size 512, 65536 of 8 levels" in changed
    assert [note for note in found if note.startswith("Left out")] == [
        "Left out by --scale: message size 1 MiB."
    ]
    assert not [note for note in notes(drawn["figure-4"], source) if note.startswith("Left out")]
    whole = html(report(source)).replace("study-changed</code> the study", "")
    lead = whole[: whole.index("<section")]
    assert (
        lead.count("the study was changed by --scale quick")
        == whole.count("the study was changed by --scale")
        == 1
    )
    assert lead.count("Publication: ") == whole.count("Publication: ") == 1


def test_a_chart_says_what_the_scale_changed_of_its_own_benchmarks_alone() -> None:
    source = run("santos2008")
    parts = [
        {"what": "request_size 1", "label": "TCP small"},
        {"what": "repetitions ÷ 2", "label": "memory"},
        {"what": "5 blocks"},
    ]
    changed_by = [{"option": "--scale quick", "parts": parts}]
    source = Source(
        source.data,
        replace(source.analysis, declared={**source.analysis.declared, "changed_by": changed_by}),
    )
    found = notes(figures(source)["figure-7"], source)
    assert "the study was changed by --scale quick: memory: repetitions ÷ 2; 5 blocks" in found


def test_a_figure_of_the_publications_platforms_draws_no_others() -> None:
    source = run("ufla2010", without=("virtualbox",))
    assert "Without a value in this run: virtualbox." in " ".join(
        notes(figures(source)["figure-5.1"], source)
    )
    for name in ("figure-5.1", "figure-5.3", "figure-5.5"):
        assert not figures(source)[name].figure.shows_platform("docker")
    assert figures(source)["others"].figure.shows_platform("docker")


def test_efficiency_of_times_is_the_inverse_of_their_ratio() -> None:
    source = run("trindade2018")
    declared = dict(source.analysis.declared)
    declared["figure"] = [{**declared["figure"][0], "quantity": "efficiency"}]
    analysis = source.analysis.__class__(**{**vars(source.analysis), "declared": declared})
    (drawing,) = drawings(analysis, source.data)
    place = at(drawing, "kvm-virtio")
    assert place.here is not None
    assert place.tests is not None
    assert place.ratio is not None
    assert place.here.value == pytest.approx(1 / place.ratio.value)
    assert place.here.value == pytest.approx(0.85, rel=0.1)
    assert place.tests.mean == pytest.approx(0.85, rel=0.1)
    assert place.here.low is not None
    assert place.here.low < place.here.value < (place.here.high or math.inf)


def test_a_block_is_finished_when_every_cell_has_a_trial() -> None:
    data = run("ufla2010").data
    assert finished_blocks(data) == 4
