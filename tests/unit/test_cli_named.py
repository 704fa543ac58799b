"""`vtax topologies NAME`, `vtax studies NAME`, and errors in how a command was typed."""

from __future__ import annotations

import json

import pytest
from command_line import output_of, refusals

from vtax.study.load import shipped


def test_a_topology_is_explained_with_all_settings_of_its_links(golden):
    golden(output_of("topologies", "vlan-pairs"))
    described = json.loads(output_of("topologies", "vlan-pairs", "--json"))
    assert {"mtu", "pairs"} <= {key["name"] for key in described["link"]}


def test_a_study_is_explained_with_its_design_and_benchmarks(golden):
    golden(output_of("studies", "tour"))
    assert json.loads(output_of("studies", "tour", "--json"))["cells"] == 42
    assert output_of("studies", "tour", "--toml") == shipped()["tour"].read_text()


@pytest.mark.usefixtures("unmade_home")
def test_what_was_typed_wrongly_is_said_as_every_error(capsys, golden):
    golden(
        refusals(
            capsys,
            "",
            "show --foo",
            "run",
            "list x",
            "run tour --sessions=x",
            "run tour --sessions=0",
            "run tour --blocks=2.5",
            "run tour -p native,docker -p nope",
            "run tour -p kvm-virtoi",
            "run tour --budget 5bananas --dry-run",
            "run tour --budget 0s --dry-run",
            "contrast",
            "Run",
            "platforms lxcc",
            "list --where study",
            "list --where study-1",
            "list --where seed=5",
            "list --where since=yesterday",
        )
    )
