"""A factor is a factor: levels of guests, neighbour, tuning and links are taken among `factors` too."""

import json
import tomllib

import jsonschema
import pytest
from command_line import output_of

from vtax.errors import BadInput
from vtax.study.load import load

HEAD = 'name = "small"\nplatforms = ["native", "podman"]\n'
STREAM, NETWORK = '[[benchmark]]\nname = "stream"\n', '[[benchmark]]\nname = "iperf3"\n'
PROGRAM = '[[program]]\nname = "own"\nversion = ["true", "--version"]\n'
ARGV = 'argv.guest = ["true", "{guests}", "{tuning}"]\n'
PARAMETERS = "parameters = { guests = 1, tuning = 1 }\n"
METRIC = '[[program.metric]]\nname = "t"\nunit = "s"\nelapsed = true\nbetter = "lower"\n'


def loaded(directory, text):
    path = directory / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load(str(path)).study


@pytest.mark.slow
@pytest.mark.parametrize(
    ("among_factors", "beside"),
    [
        (
            STREAM + "factors = { guests = [1, 2], threads = [1] }",
            STREAM + "guests = [1, 2]\nfactors.threads = [1]",
        ),
        (STREAM + 'factors.neighbour = ["none", "cpu"]', STREAM + 'neighbour = ["none", "cpu"]'),
        (
            NETWORK + "factors = { link.mtu = [500, 1500] }",
            NETWORK + "link_factors = { mtu = [500, 1500] }",
        ),
        (
            NETWORK + 'factors = { "link.mtu" = [500, 1500] }\nlink_factors = { queues = [2, 4] }',
            NETWORK + "link_factors = { queues = [2, 4], mtu = [500, 1500] }",
        ),
        (
            STREAM + 'factors.tuning = ["default", "pinned"]',
            'tuning = ["default", "pinned"]\n' + STREAM,
        ),
    ],
)
def test_levels_among_the_factors_are_as_if_written_beside(tmp_path, among_factors, beside):
    top, line, tables = ("", "", beside) if beside.startswith("[[") else beside.partition("\n")
    assert loaded(tmp_path, HEAD + among_factors) == loaded(tmp_path, top + line + HEAD + tables)
    jsonschema.validate(tomllib.loads(HEAD + among_factors), json.loads(output_of("schema")))


@pytest.mark.slow
def test_the_schema_refuses_a_level_of_a_link_that_is_no_list():
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            tomllib.loads(f"{HEAD}{NETWORK}factors.link.mtu = 1500"),
            json.loads(output_of("schema")),
        )


def test_what_is_no_list_is_refused_with_a_hint_that_is_then_taken(tmp_path):
    with pytest.raises(BadInput) as error:
        loaded(tmp_path, HEAD + STREAM + 'factors = { guests = "1,2,4" }')
    wrong, _, right = str(error.value.hint).partition("write a list: ")
    assert (wrong, right) == ("", "guests = [1, 2, 4]")
    assert loaded(tmp_path, HEAD + STREAM + f"factors = {{ {right} }}").benchmark[0].guests == [
        1,
        2,
        4,
    ]
    assert loaded(tmp_path, HEAD + STREAM + right).benchmark[0].guests == [1, 2, 4]


def test_a_parameter_of_an_own_program_stays_one(tmp_path):
    own = '[[benchmark]]\nname = "own"\nfactors = { guests = [1, 2], tuning = [1, 2] }\n'
    study = loaded(tmp_path, HEAD + PROGRAM + ARGV + PARAMETERS + METRIC + own)
    assert study.benchmark[0].factors == {"guests": [1, 2], "tuning": [1, 2]}
    assert (study.benchmark[0].guests, study.tuning) == ([], [])


@pytest.mark.parametrize(
    "both",
    [
        STREAM + "guests = [1]\nfactors = { guests = [1, 2] }",
        NETWORK + "link_factors = { mtu = [500] }\nfactors = { link.mtu = [1500] }",
    ],
)
def test_a_factor_in_both_places_is_refused(tmp_path, both):
    with pytest.raises(BadInput):
        loaded(tmp_path, HEAD + both)


def test_tuning_of_one_benchmark_among_several_stays_where_it_is_for_the_check_to_refuse(tmp_path):
    study = loaded(tmp_path, HEAD + STREAM + 'factors.tuning = ["default"]\n' + NETWORK)
    assert study.tuning == []
    assert study.benchmark[0].factors == {"tuning": ["default"]}
