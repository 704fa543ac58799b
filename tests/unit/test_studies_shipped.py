"""Shipped studies obey the rules that their own benchmarks warn of."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from vtax.benchmarks import stream
from vtax.benchmarks.base import Context
from vtax.cli.main import group
from vtax.guest.results import CommandResult
from vtax.image.image import Image
from vtax.platforms.base import Probe
from vtax.runner.plan import make_plan
from vtax.runner.points import Point
from vtax.study.load import Chosen, load, shipped

MIB = 1 << 20
CACHES_MIB = (1, 8, 32, 36, 64, 69)  # of processors from laptops to servers


def test_the_services_study_ends_within_a_quarter_of_an_hour_which_its_fewest_blocks_fit():
    loaded = load("service")
    design = loaded.study.design
    probes = {platform: Probe(True) for platform in loaded.study.platforms}
    plan = make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes, dry=True)
    assert design.stop == "verdict"
    assert 1.5 * design.min_blocks * plan.expected_block_s() <= design.budget <= 15 * 60


def points(name: str, benchmark: str) -> Iterator[tuple[Point, Context]]:
    loaded = load(name)
    probes = {platform: Probe(True) for platform in loaded.study.platforms}
    plan = make_plan(loaded, image=Image("key", Path("/nowhere")), probes=probes, dry=True)
    return ((point, plan.context()) for point in plan.points if point.benchmark.name == benchmark)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_dry_run_warns_of_nothing(name, ordinary_user, unmade_home):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = CliRunner().invoke(group, ["run", name, "--dry-run"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "warning" not in result.output.lower()
    assert "deprecated" not in result.output.lower()


@pytest.mark.parametrize("cache_mib", CACHES_MIB)
@pytest.mark.parametrize("name", sorted(shipped()))
def test_arrays_of_stream_are_four_times_the_cache(name, cache_mib, monkeypatch):
    monkeypatch.setattr(stream, "last_level_cache_bytes", lambda: cache_mib * MIB)
    for point, context in points(name, "stream"):
        (command,) = point.benchmark.commands(point.parameters, context)
        elements, repetitions = command.argv[1:]
        kernels = "".join(f"{kernel} 9000.0 MB/s 0.5 0.5 0.5\n" for kernel in stream.KERNELS)
        said = f"threads 1\narray_bytes {8 * int(elements)}\nrepetitions {repetitions}\n{kernels}valid yes\n"
        result = CommandResult(command.argv, 0, said, "", 5.0, 5.0, cpu_s=1.0)
        outcome = point.benchmark.parse(point.parameters, context, {"single": result})
        assert outcome.warnings == ()
        assert (
            outcome.effective["array_bytes"]
            >= 4 * outcome.effective["last_level_cache_bytes"]
            == 4 * cache_mib * MIB
        )


@pytest.mark.parametrize("name", sorted(shipped()))
def test_dd_measures_the_disk_and_no_cache_but_where_a_paper_did(name):
    """Warnings of every figure say so there, and the differences that the study lists."""
    paper = load(name).study.paper
    for point, context in points(name, "dd"):
        size = point.parameters.model_dump()["file_size"]
        said = f"{size} bytes (1 GB, 1 GiB) copied, 0.5 s, 1 GB/s\n"
        result = CommandResult(("dd",), 0, "", said, 1.0, 1.0, cpu_s=0.1)
        warnings = point.benchmark.parse(point.parameters, context, {"single": result}).warnings
        declared = paper is not None and any(
            "page cache" in each.here for each in paper.differences
        )
        assert bool(warnings) == declared


@pytest.mark.parametrize("name", ["urschei2007", "folklore"])
def test_what_is_printed_of_a_study_has_its_claims_differences_figures_and_what_a_scale_changes(
    name,
):
    study = load(name).study
    result = CliRunner().invoke(
        group, ["studies", name], catch_exceptions=False, env={"COLUMNS": "200"}
    )
    differences = [each.what for each in study.paper.differences]
    ids = [each.id for each in (*study.claim, *study.figure)]
    for text in [study.paper.citation, *differences, *ids]:
        assert text in result.output
    for scale in study.scale:
        (changed,) = load(name, chosen=Chosen(scale=scale)).study.changed_by
        assert str(changed) in result.output
    values = json.loads(
        CliRunner().invoke(group, ["studies", name, "--json"], catch_exceptions=False).stdout
    )
    assert [each["option"] for each in values["changes"]] == [
        *(f"--scale {scale}" for scale in study.scale),
        *(f"--protocol {protocol}" for protocol in study.protocol),
    ]
    assert [each["id"] for each in values["claim"]] == [claim.id for claim in study.claim]
    assert [each["id"] for each in values["figure"]] == [figure.id for figure in study.figure]


@pytest.mark.parametrize("name", ["ufla2010", "urschei2007", "mauricio2013"])
def test_links_of_papers_with_gigabit_interfaces_have_that_rate(name):
    rates = {
        table.link.get("rate_mbit_s") for table in load(name).study.benchmark if table.topology
    }
    assert rates == {1000}
