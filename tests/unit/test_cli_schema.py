"""`vtax schema`: editors complete and check a study file by it, with all that is installed here."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import output_of
from doc_examples import blocks
from foreign_driver import good
from installed_package import fresh_registries

from vtax.benchmarks.registry import benchmarks
from vtax.host import plugins
from vtax.platforms.registry import drivers
from vtax.study.load import shipped

STUDY = {"name": "mine", "platforms": ["native"], "benchmark": [{"name": "dd"}]}
PRINTED = json.loads(output_of("schema"))
KIND = jsonschema.validators.validator_for(PRINTED)
SCHEMA = KIND(PRINTED)


def with_platform(driver: str, **options: Any) -> dict[str, Any]:
    return {**STUDY, "platform": [{"name": "other", "driver": driver, **options}]}


def with_benchmark(name: str, **keys: Any) -> dict[str, Any]:
    return {**STUDY, "benchmark": [{"name": name, **keys}]}


def test_it_is_a_schema() -> None:
    KIND.check_schema(PRINTED)
    assert not SCHEMA.is_valid({"name": "x", "platforms": ["native"]})


@pytest.mark.parametrize("path", shipped().values(), ids=shipped())
def test_every_shipped_study_is_accepted(path: Path) -> None:
    SCHEMA.validate(tomllib.loads(path.read_text()))


STUDIES = {
    place: study
    for place, text in blocks("toml")
    if {"name", "platforms", "benchmark"} <= (study := tomllib.loads(text)).keys()
}


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_every_whole_study_of_the_documentation_is_accepted_but_for_plug_ins(
    study: dict[str, Any],
) -> None:
    used = {table["name"] for table in study["benchmark"]}
    own = {program["name"] for program in study.get("program", ())}
    assert used <= {*benchmarks(), *own, "timeit"}
    SCHEMA.validate(study)


@pytest.mark.parametrize("name", drivers())
def test_a_platform_takes_the_options_of_its_driver_and_no_others(name: str) -> None:
    driver = drivers()[name]
    named: list[Mapping[str, Any]] = [{driver.argument: "lab3"}] if driver.argument else []
    for options in [*driver.variants.values(), *named]:
        SCHEMA.validate(with_platform(name, **options))
        assert not SCHEMA.is_valid(with_platform(name, **options, optoin="x"))


def test_an_unknown_driver_and_an_option_of_another_one_are_refused() -> None:
    assert SCHEMA.is_valid(with_platform("docker", runtime="crun"))
    assert not SCHEMA.is_valid(with_platform("docker", runtime="krun"))
    assert not SCHEMA.is_valid(with_platform("dokcer"))
    assert not SCHEMA.is_valid(with_platform("lxc", runtime="crun"))


@pytest.mark.parametrize("name", benchmarks())
def test_a_benchmark_takes_its_parameters_and_no_others(name: str) -> None:
    model = benchmarks()[name].Parameters
    for key, field in model.model_fields.items():
        if not field.is_required() and field.default is not None:
            SCHEMA.validate(with_benchmark(name, parameters={key: field.default}))
            SCHEMA.validate(with_benchmark(name, factors={key: [field.default]}))
        assert not SCHEMA.is_valid(with_benchmark(name, parameters={key: ["a", "list"]}))
        assert not SCHEMA.is_valid(with_benchmark(name, factors={key: "no list"}))
    for table in ("parameters", "factors"):
        assert not SCHEMA.is_valid(with_benchmark(name, **{table: {"duratoin_s": [1]}}))


@pytest.mark.parametrize(
    ("keys", "is_valid"),
    [
        ({"topology": "router", "link": {"mtu": 500}}, True),
        ({"topology": "ruoter"}, False),
        ({"link": {"mut": 500}}, False),
        ({"link": {"mtu": 1}}, False),
        ({"link_factors": {"mtu": [500, 1500]}}, True),
        ({"link_factors": {"mut": [500, 1500]}}, False),
        ({"factors": {"link.mtu": [500], "guests": [1, 2], "tuning": ["pinned"]}}, True),
        ({"factors": {"link.mut": [500]}}, False),
        ({"factors": {"neighbour": ["none", "tape"]}}, False),
    ],
)
def test_links_and_what_else_is_a_factor_are_checked(keys: dict[str, Any], is_valid: bool) -> None:
    assert SCHEMA.is_valid(with_benchmark("iperf3", **keys)) == is_valid


def test_the_parameters_of_a_program_are_its_own() -> None:
    SCHEMA.validate(with_benchmark("my-hashing", parameters={"buffers": 5}))


def test_every_key_says_what_it_means_in_which_unit_and_its_default() -> None:
    tables = {entry["title"]: entry for entry in PRINTED["$defs"]["BenchmarkTable"]["anyOf"]}
    parameters = tables["fio"]["properties"]["parameters"]["properties"]
    assert parameters["block_size"]["description"] == (
        "bytes of one read or write; unit: bytes; default: 4KiB"
    )
    for driver in PRINTED["$defs"]["PlatformTable"]["anyOf"]:
        own = driver["properties"].keys() - {"name"}
        assert all(driver["properties"][key]["description"] for key in own), driver["title"]
    for name in benchmarks():
        keys = tables[name]["properties"]["parameters"]["properties"].values()
        assert all(key["description"] for key in keys), name


def test_it_has_what_a_file_of_ones_own_brings(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(good("theirs", '{"theirs-fast": {}}'))
    file.chmod(0o644)
    try:
        with fresh_registries():
            printed = json.loads(output_of("--plugin", str(file), "schema"))
    finally:
        plugins._FILES.clear()
    assert not SCHEMA.is_valid(with_platform("theirs"))
    assert KIND(printed).is_valid(with_platform("theirs"))
    assert "theirs-fast" in json.dumps(printed["properties"]["platforms"])
