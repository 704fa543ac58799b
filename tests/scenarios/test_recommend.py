"""`vtax recommend` on stored runs: the table, JSON, a chapter of a report, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import command_line
import pytest
from a_run import begin
from command_line import refusals

invoked, values = (
    partial(command_line.invoked, "recommend"),
    partial(command_line.values_of, "recommend"),
)


def shares(found: dict[str, Any]) -> dict[str, float]:
    return {each["resource"]: each["share"] for each in found["resources"]}


@pytest.mark.usefixtures("tour")
def test_platforms_are_ranked_by_the_weights():
    text = invoked("tour-1", "--weights", "cpu=1,network=3").output.replace("\xa0", " ")
    assert "weights: cpu 25 % (sysbench-cpu), network 75 % (iperf3)" in text
    assert "kvm-virtio is not ranked: guests are started as root" in text
    assert "qemu-tcg (emulated)" in text
    found = values("--weights", " cpu = 1 , network=3 ")
    assert [each["platform"] for each in found["standings"]][-1] == "qemu-tcg"
    assert shares(found) == {"cpu": 0.25, "network": 0.75}
    assert found["reference"] == "native"
    first, *others = [each["to_first"] for each in found["standings"]]
    assert first is None
    assert all(each["low"] <= each["estimate"] <= 1 for each in others)


@pytest.mark.usefixtures("tour")
def test_named_platforms_are_ranked_among_themselves():
    found = values("--platform", "docker", "--platform", "native")
    assert {each["platform"] for each in found["standings"]} == {"docker", "native"}
    assert found["reference"] is None


def test_wrong_input_is_refused(tour, capsys, golden):
    begin(tour, name="empty-1", started_at=1.0)
    weights = (
        "cpu",
        "''",
        "cpu=1,",
        "cpu=1,cpu=2",
        "cpu=-1",
        "cpu=nan",
        "cpu=inf",
        "cpu=much",
        "cpu=0,network=0",
        "disk=1",
        "gpu=1",
    )
    others = ("--platform dokcer", "--platform docker", "nothing-1", "empty-1")
    golden(refusals(capsys, "recommend", *(f"--weights {each}" for each in weights), *others))


@pytest.mark.usefixtures("tour")
def test_the_start_of_a_guest_is_weighed_where_it_is_named():
    found = values("--weights", "cpu=1,guest-start=1")
    assert shares(found) == {"cpu": 0.5, "network": 0.0, "guest-start": 0.5}
    assert "guest-start" not in shares(values())
    alone = values("--weights", "guest-start=1")
    assert {each["platform"] for each in alone["standings"]} >= {"docker", "qemu-tcg"}
    text = invoked("tour-1", "--weights", "guest-start=1").output.replace("\xa0", " ")
    assert "weights: start of a guest 100 % (guests)" in text
