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


def test_a_rung_can_be_the_first_and_each_keeps_what_is_new_on_it():
    plain = {rung.name: rung for rung in registry.ladders()["podman"]}
    moved = ladder_of("podman", "sandbox-overlay").rungs
    names = [rung.side.name for rung in moved]
    assert names[:3] == ["native", "sandbox-overlay", "sandbox-namespaces"]
    assert sorted(names) == sorted(plain)
    assert names[-1] == "podman"
    assert moved[1].side.options == {"root": "overlay"}
    assert moved[2].side.options == {"root": "overlay", "namespaces": True}
    assert [rung.adds for rung in moved] == [plain[name].mechanism for name in names]
    before_podman = registry.ladders()["podman"][-2]
    assert moved[-2].side.options == before_podman.options


def test_of_a_machine_the_ground_keeps_its_options():
    ground, first, *_ = ladder_of("qemu-tcg", "tcg-huge-pages").rungs
    assert first.side.options == {**ground.side.options, "huge_pages": True}


@pytest.mark.parametrize("first", ["native", "podman", "nonsense", "sandbox-closed"])
def test_what_cannot_be_the_first_rung_is_refused(first):
    refused = refusal("anatomy", "--of", "podman", "--first", first, "--dry-run")
    assert refused.where.startswith("--first")


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
