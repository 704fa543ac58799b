"""`vtax anatomy`: which study it makes of a platform, and what it refuses."""

from __future__ import annotations

import re

import pytest
from command_line import output_of, refusal

from vtax.cli.ladder import ladder_of, orders_of
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


def test_a_mechanism_is_added_to_the_ground_first_and_left_out_of_the_platform_last():
    orders = orders_of("podman:scratch=layer", ["podman-layer", "sandbox-filter"])
    study = load("anatomy", {}, Chosen(ladder=orders, benchmarks=["nginx"])).study
    assert study.baseline == "native"
    tables = {table.name: (table.driver, table.options) for table in study.platform}
    assert tables == {
        "podman-layer": ("podman", {"scratch": "layer"}),
        "podman-layer-alone": ("native", {"scratch": "layer"}),
        "without-podman-layer": ("podman", {}),
        "sandbox-filter-alone": ("sandbox", {"filter": True}),
        "without-sandbox-filter": ("podman", {"scratch": "layer", "confinement": "none"}),
    }
    layer, of_filter = study.both_orders
    assert (layer.whole, layer.alone, layer.without) == (
        "podman-layer",
        "podman-layer-alone",
        "without-podman-layer",
    )
    assert not layer.taking
    assert "a filter of its own" in of_filter.taking


def test_what_can_be_neither_added_nor_left_out_is_named_before_the_two_that_are_measured():
    largest = ["podman", "sandbox-overlay", "sandbox-closed", "sandbox-network", "sandbox-filter"]
    orders = orders_of("podman", largest)
    alone = [each.alone.name if each.alone else "" for each in orders.mechanisms]
    assert alone == ["", "sandbox-overlay-alone", "", "sandbox-network-alone"]
    assert [each.without for each in orders.mechanisms] == [None] * 4
    assert not orders_of("podman", ["podman"]).is_measurable
    assert not orders_of("podman", []).is_measurable


def test_the_first_rung_is_its_mechanism_alone():
    [namespaces] = orders_of("podman", ["sandbox-namespaces"]).mechanisms
    assert namespaces.alone.name == "sandbox-namespaces"


def test_of_a_machine_both_ends_keep_their_options():
    rungs = registry.ladders()["qemu-tcg"]
    [pages] = orders_of("qemu-tcg", ["tcg-huge-pages"]).mechanisms
    assert pages.alone.options == {**rungs[0].options, "huge_pages": True}
    tuned = dict(rungs[-1].options)
    assert tuned.pop("huge_pages")
    assert pages.without.options == tuned
    [disk] = orders_of("qemu-tcg", ["tcg-disk"]).mechanisms
    assert disk.without is None  # a thread for the disk needs it


def test_a_load_needs_an_image_and_the_hint_has_the_whole_command():
    refused = refusal("anatomy", "--of", "docker", "--load", "wrk {url}", "--dry-run")
    assert refused.where == "--load"
    assert refused.hint == "vtax anatomy --of docker --image shop --load 'wrk {url}'"
    named = refusal(
        "anatomy", "--of", "docker", "nginx", "--image", "a", "--load", "wrk {url}", "--dry-run"
    )
    assert "BENCHMARK" in named.what


def test_named_benchmarks_are_measured_alone_and_the_study_says_so():
    study = study_of("podman", "nginx", "fio")
    assert study.benchmark_titles == ["nginx", "fio"]
    assert [change.option for change in study.changed_by] == ["--of podman", "nginx fio"]


@pytest.mark.parametrize("of", ["xen", "podmann", "podman:nonsense=1", "podman:scratch=cloud"])
def test_what_has_no_ladder_is_refused(of):
    assert refusal("anatomy", "--of", of, "--dry-run").where.startswith("--of")


@pytest.mark.parametrize(
    ("of", "why"),
    [
        ("native", "native has no ladder: it is the ground of the others"),
        ("sandbox", "sandbox has no ladder: it makes their rungs"),
        ("gvisor-systrap", "gvisor-systrap has no ladder: its driver has none"),
        ("podmann", "there is no ladder of 'podmann'"),
    ],
)
def test_why_there_is_no_ladder_is_said(of, why):
    assert why in refusal("anatomy", "--of", of, "--dry-run").what


def test_hints_about_the_budget_are_of_the_whole_of_it():
    """The ladder has two thirds."""
    refused = refusal("anatomy", "--of", "podman", "nginx", "--budget", "1s", "--dry-run")
    assert refused.what.startswith("0.67 s of the budget is too short for one block")
    (hinted_s,) = re.findall(r"--budget (\d+)s holds one", refused.hint)
    printed = output_of(
        "anatomy", "--of", "podman", "nginx", "--budget", f"{hinted_s}s", "--dry-run"
    )
    assert "of the budget fits about 1 whole block" in printed
    assert "two thirds of the budget are for the ladder" in printed
    (enough,) = re.findall(r"a verdict needs 5 blocks: --budget (\S+)", printed)
    printed = output_of("anatomy", "--of", "podman", "nginx", "--budget", enough, "--dry-run")
    assert "a verdict needs" not in printed


def test_a_benchmark_that_is_named_twice_is_measured_once():
    printed = output_of("anatomy", "--of", "podman", "nginx", "nginx", "--dry-run")
    assert "changed by nginx: no other benchmark" in printed


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
        "rung": [
            {"platform": name, "adds": f"{name} {number}"} for number, name in enumerate(rungs)
        ],
    }
    with pytest.raises(BadInput) as refused:
        validate(data, "mine.toml")
    assert where in refused.value.where


@pytest.mark.parametrize(
    ("rungs", "where"),
    [
        ({"native": "nothing"}, "[[rung]] number 1, key platform"),
        ({"native": "nothing", "podman": ""}, "[[rung]] number 2, key adds"),
        ({"native": "nothing", "podman": "nothing"}, "[[rung]] number 2, key adds"),
    ],
)
def test_every_rung_adds_something_of_its_own(rungs, where):
    data = {
        "name": "mine",
        "platforms": ["native", "podman"],
        "benchmark": [{"name": "sysbench-cpu"}],
        "rung": [{"platform": name, "adds": adds} for name, adds in rungs.items()],
    }
    with pytest.raises(BadInput) as refused:
        validate(data, "mine.toml")
    assert where in refused.value.where


def test_what_has_all_mechanisms_is_not_without_one():
    data = {
        "name": "mine",
        "platforms": ["native", "podman"],
        "benchmark": [{"name": "sysbench-cpu"}],
        "both_orders": [{"mechanism": "layer", "whole": "podman", "without": "podman"}],
    }
    with pytest.raises(BadInput) as refused:
        validate(data, "mine.toml")
    assert "[[both_orders]] number 1, key whole" in refused.value.where


def test_what_is_in_both_orders_is_a_platform():
    data = {
        "name": "mine",
        "platforms": ["native", "podman"],
        "benchmark": [{"name": "sysbench-cpu"}],
        "both_orders": [{"mechanism": "layer", "whole": "podman", "alone": "docker"}],
    }
    with pytest.raises(BadInput) as refused:
        validate(data, "mine.toml")
    assert "[[both_orders]] number 1, key alone" in refused.value.where
