"""`--platform`, `--benchmark` and `--where`: what is shown is less, and is judged as before. Figures are invented."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from a_run import begin, cells, fill
from command_line import output_of, refusals

from vtax.report.views.registry import DEFAULT, views


@pytest.fixture(scope="module", autouse=True)
def store(module_store):
    """tour-1, finished."""
    fill(begin(module_store))
    return module_store


def shown(*arguments: str) -> Any:
    return json.loads(output_of("show", "tour-1", "--json", *arguments))


def rows_of(result: Any) -> dict[tuple[str, str, str], Any]:
    return {
        (section["label"], section["metric"], row["cell"]): row
        for section in result["results"]
        for point in section["points"]
        for row in point["rows"]
    }


def test_what_remains_is_judged_as_in_the_whole_run():
    whole, part = (
        shown(),
        shown("--platform", "docker", "--benchmark", "iperf3", "--where", "direction=send"),
    )
    rows = rows_of(part)
    assert set(rows) == {("iperf3", "throughput", "s-native"), ("iperf3", "throughput", "s-docker")}
    for key, row in rows.items():
        assert row == rows_of(whole)[key]
    (section,) = part["results"]
    assert section["family"] == 6  # three platforms at two points
    assert part["filter"] == {
        "platforms": ["docker"],
        "benchmarks": ["iperf3"],
        "levels": {"direction": ["send"]},
    }
    assert whole["filter"] is None
    assert [answer["platform"] for answer in part["answers"]] == ["docker"]
    assert part["trials"] == whole["trials"]


def test_levels_of_one_factor_are_alternatives_and_a_cell_without_the_factor_is_left_out():
    cells = {
        cell
        for _, _, cell in rows_of(
            shown("--where", "direction=SEND", "--where", "factor_direction=receive")
        )
    }
    assert cells == {
        f"{point}-{name}" for point in "sr" for name in ("native", "docker", "lxc", "qemu-tcg")
    }
    assert {cell for _, _, cell in rows_of(shown("--where", "direction=send, receive"))} == cells


def test_a_label_with_a_comma_is_one_name_also_beside_others(module_store):
    labels = {"s": "send, 64 B", "r": "send", "c": "CPU"}
    renamed = [replace(cell, label=labels[cell.point]) for cell in cells()]
    fill(begin(module_store, "labels-1", cells=renamed), blocks=2)

    def benchmarks(*arguments: str) -> Any:
        given = [word for text in arguments for word in ("--benchmark", text)]
        return json.loads(output_of("show", "labels-1", "--json", *given))["filter"]["benchmarks"]

    assert benchmarks("send, 64 B") == ["send, 64 B"]
    assert benchmarks("CPU,send,64 B", "send") == ["CPU", "send, 64 B", "send"]
    assert benchmarks("send,CPU") == ["send", "CPU"]


def test_warnings_and_misses_are_those_of_what_is_shown():
    text = output_of("show", "tour-1", "--platform", "docker")
    assert "shown: platform=docker; verdicts" in text
    for hidden in ("lxc", "qemu-tcg", "kvm-virtio", "no memory limit", "unable to connect"):
        assert hidden not in text
    assert "unable to connect" in output_of("show", "tour-1", "--platform", "qemu-tcg", "--all")


def test_variance_is_of_the_whole_run_too():
    whole = shown("--variance")["variance"]
    part = shown("--variance", "--platform", "docker", "--benchmark", "iperf3")["variance"]
    assert 0 < len(part) < len(whole)
    assert all(each in whole for each in part)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(v.name for v in views().values() if not v.command and v.name != DEFAULT)
)
def test_every_view_takes_a_filter(name):
    arguments = ("--platform", "docker", "--where", "direction=send")
    option = [f"--{name}"]
    assert "shown: platform=docker, direction=send" in output_of(
        "show", "tour-1", *option, *arguments
    )
    views_of = shown(*option, *arguments)
    assert views_of["filter"]["platforms"] == ["docker"]


@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_filter_that_leaves_nothing_says_what_there_is(command, capsys, golden):
    golden(
        refusals(
            capsys,
            f"{command} tour-1",
            "--platform dokcer",
            "--benchmark iperf",
            "--where direktion=send",
            "--where direction=sent",
            "--where direction",
            "--platform kvm-virtio",
            "--benchmark sysbench-cpu --where direction=send",
        )
    )
