"""`vtax anatomy`: which study it makes of a platform, and what it refuses."""

from __future__ import annotations

import pytest
from command_line import refusal

from vtax.cli.ladder import ladder_of
from vtax.errors import BadInput
from vtax.platforms import registry
from vtax.study.load import Chosen, load, validate
from vtax.study.model import Study


def study_of(of: str, *benchmarks: str) -> Study:
    return load("anatomy", {}, Chosen(ladder=ladder_of(of), benchmarks=benchmarks)).study


@pytest.mark.parametrize("of", registry.ladders())
def test_the_rungs_of_a_ladder_take_the_place_of_platforms(of):
    study, rungs = study_of(of), registry.ladders()[of]
    assert study.platforms == [rung.platform for rung in study.rung]
    assert study.platforms == [rung.name for rung in rungs]
    assert [rung.adds for rung in study.rung] == [rung.mechanism for rung in rungs]
    assert study.baseline == rungs[0].name
    tables = {table.name: table.options for table in study.platform}
    for rung in rungs:
        platform = registry.platform_of(rung)
        if rung.name in tables:
            made = registry.make(rung.name, rung.driver, tables[rung.name])
        else:
            made = registry.get(rung.name)
        assert made.identity() == platform.identity()


def test_an_option_of_the_platform_is_a_rung_above_it():
    study = study_of("podman:scratch=layer:runtime=crun")
    assert study.platforms[-3:] == ["podman", "podman-layer", "podman-layer-crun"]
    assert [rung.adds for rung in study.rung[-2:]] == ["scratch = layer", "runtime = crun"]
    assert study.platform[-1].options == {"scratch": "layer", "runtime": "crun"}


def test_what_a_rung_adds_is_measured_alone_beside_the_ladder():
    of = ladder_of("podman:scratch=layer", ["sandbox-overlay", "podman-layer"])
    study = load("anatomy", {}, Chosen(ladder=of, benchmarks=["nginx"])).study
    assert study.platforms[-2:] == ["sandbox-overlay-alone", "podman-layer-alone"]
    assert study.platforms[:-2] == [rung.platform for rung in study.rung]
    alone = {rung.platform: rung.alone for rung in study.rung if rung.alone}
    assert alone == {name: f"{name}-alone" for name in ("sandbox-overlay", "podman-layer")}
    tables = {table.name: (table.driver, table.options) for table in study.platform}
    assert tables["sandbox-overlay-alone"] == ("sandbox", {"root": "overlay"})
    assert tables["podman-layer-alone"] == ("native", {"scratch": "layer"})


def test_of_a_machine_the_ground_keeps_its_options():
    rungs = {rung.side.name: rung for rung in ladder_of("qemu-tcg", ["tcg-huge-pages"]).rungs}
    alone = rungs["tcg-huge-pages"].alone
    assert alone.options == {**rungs["tcg-ground"].side.options, "huge_pages": True}


@pytest.mark.parametrize(
    "rung", ["native", "podman", "nonsense", "sandbox-closed", "sandbox-namespaces"]
)
def test_what_cannot_be_alone_is_refused(rung):
    refused = refusal("anatomy", "--of", "podman", "--alone", rung, "--dry-run")
    assert refused.where.startswith("--alone")


def test_named_benchmarks_are_measured_alone_and_the_study_says_so():
    study = study_of("podman", "nginx", "fio")
    assert study.benchmark_titles == ["nginx", "fio"]
    assert [change.option for change in study.changed_by] == ["--of podman", "nginx fio"]


@pytest.mark.parametrize("of", ["xen", "podmann", "podman:nonsense=1", "podman:scratch=cloud"])
def test_what_has_no_ladder_is_refused(of):
    assert refusal("anatomy", "--of", of, "--dry-run").where.startswith("--of")


def test_a_benchmark_that_the_study_does_not_have_is_refused():
    refused = refusal("anatomy", "--of", "podman", "ngnix", "--dry-run")
    assert refused.where == "BENCHMARK"
    assert "nginx" in refused.what


@pytest.mark.parametrize(
    ("rungs", "where"),
    [
        (["native", "docker"], "[[rung]] number 2, key platform"),
        (["native", "native"], "[[rung]] number 2, key platform"),
        (["podman", "native"], "[[rung]] number 1, key platform"),
    ],
)
def test_rungs_are_platforms_once_each_and_begin_with_the_baseline(rungs, where):
    data = {
        "name": "mine",
        "platforms": ["native", "podman"],
        "benchmark": [{"name": "sysbench-cpu"}],
        "rung": [{"platform": name, "adds": name} for name in rungs],
    }
    with pytest.raises(BadInput) as refused:
        validate(data, "mine.toml")
    assert where in refused.value.where


def test_what_is_alone_is_a_platform():
    data = {
        "name": "mine",
        "platforms": ["native", "podman"],
        "benchmark": [{"name": "sysbench-cpu"}],
        "rung": [
            {"platform": "native", "adds": "nothing"},
            {"platform": "podman", "adds": "podman", "alone": "docker"},
        ],
    }
    with pytest.raises(BadInput) as refused:
        validate(data, "mine.toml")
    assert "[[rung]] number 2, key alone" in refused.value.where
