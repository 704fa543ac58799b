"""`vtax explain` begins with facts that differ where platforms do, and the run that tests each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from a_run import PLATFORMS, a_run
from shown import drawn, view

from vtax.report.analysis import Analysis
from vtax.report.answers.explain.suspects import anatomies, suspects
from vtax.report.renderers.html import html
from vtax.report.renderers.json import as_json
from vtax.report.renderers.markdown import markdown
from vtax.store.records import CellRecord, PlatformRecord

COMMON = {
    "limit.open_files": "20000",
    "scratch_file_system": "ext4",
    "seccomp_filters": 0,
    "root_file_system": "ext4",
}
OF_NATIVE = {**COMMON, "isolation": "nothing"}
OF_CONTAINER = {**COMMON, "isolation": "confined"}
SPEED = {"native": 1.0, "podman": 0.8, "lxc": 0.8, "sandbox": 1.0, "qemu": 1.0}


def analysis(study: str = "service", **facts: dict[str, Any]) -> Analysis:
    """Return a run of nginx and sysbench-cpu in which podman and lxc are slower, with facts of their guests."""
    platforms = [PLATFORMS[0]]
    for name in list(SPEED)[1:]:
        platforms.append(PlatformRecord(name, {"driver": name, "options": {}}, True))
    run = a_run().platforms(*platforms).having(study=study)
    for benchmark in ("nginx", "sysbench-cpu"):
        run = run.benchmark(benchmark).metric("rate", "1/s")

    def speed(cell: CellRecord, block: int, number: int) -> float:
        return SPEED[cell.platform] * 100 * (1 + 0.002 * (block % 3))

    made = run.blocks(10).values(speed).with_guests().analysis()
    every = {"native": OF_NATIVE, **facts}
    guests = [replace(guest, facts=every.get(guest.platform, {})) for guest in made.guests]
    return replace(made, guests=tuple(guests))


LAYER = {**OF_CONTAINER, "scratch_file_system": "overlay"}


def test_a_fact_that_an_option_changes_has_the_run_that_changes_it_alone():
    [suspect] = suspects(analysis(podman=LAYER))
    assert (suspect.fact, suspect.platforms, suspect.labels) == (
        "scratch_file_system",
        ("podman",),
        ("nginx",),
    )
    assert not suspect.is_layer
    assert suspect.commands == (
        "sudo vtax run service --ab podman:scratch=layer,podman:scratch=volume",
    )


def test_what_a_rung_of_a_ladder_adds_is_measured_there_and_no_suspect():
    made = analysis(podman=LAYER, lxc=LAYER)
    rungs = [{"platform": "native"}, {"platform": "podman", "adds": "scratch = layer"}]
    [suspect] = suspects(replace(made, declared={**made.declared, "rung": rungs}))
    assert suspect.platforms == ("lxc",)


def test_a_study_of_ones_own_is_a_file():
    [suspect] = suspects(analysis(study="mine", podman=LAYER))
    assert suspect.commands == (
        "sudo vtax run mine.toml --ab podman:scratch=layer,podman:scratch=volume",
    )


def test_what_differs_on_a_platform_as_fast_as_the_baseline_is_no_suspect():
    assert suspects(analysis(sandbox=LAYER)) == ()
    [suspect] = suspects(analysis(podman=LAYER, sandbox=LAYER))
    assert suspect.platforms == ("podman",)


def test_what_can_be_tested_comes_first_and_the_layer_itself_last():
    filtered = {**LAYER, "limit.open_files": "1024", "seccomp_filters": 2}
    found = suspects(analysis(podman=filtered))
    assert [(each.fact, each.is_layer, bool(each.commands)) for each in found] == [
        ("scratch_file_system", False, True),
        ("limit.open_files", False, False),
        ("seccomp_filters", True, True),
    ]
    assert found[-1].commands == (
        "sudo vtax run service --ab podman:confinement=default,podman:confinement=none",
    )


def test_of_facts_alike_the_one_of_most_comparisons_comes_first():
    native = {**OF_NATIVE, "limit.processes": "96365"}
    lxc = {**OF_CONTAINER, "limit.processes": "1000"}
    podman = {**lxc, "limit.open_files": "1024"}
    found = suspects(analysis(native=native, podman=podman, lxc=lxc))
    assert [each.fact for each in found] == ["limit.processes", "limit.open_files"]


@pytest.mark.parametrize(
    ("driver", "option"),
    [
        ("podman", "confinement=default,{}:confinement=none"),
        ("sandbox", "filter=true,{}:filter=false"),
    ],
)
def test_a_filter_is_turned_off_by_the_option_that_the_driver_has(driver, option, monkeypatch):
    monkeypatch.setitem(SPEED, driver, 0.8)
    [suspect] = suspects(analysis(**{driver: {**OF_CONTAINER, "seccomp_filters": 1}}))
    assert suspect.commands == (f"sudo vtax run service --ab {driver}:{option.format(driver)}",)


def test_a_machine_with_an_emulated_nic_is_tried_with_virtio_where_packets_matter(monkeypatch):
    monkeypatch.setitem(SPEED, "qemu", 0.5)
    lab = {"started.topology": "point-to-point"}
    native = {**OF_NATIVE, **lab, "interface.eth0.driver": "veth"}
    machine = {**COMMON, **lab, "isolation": "kernel", "interface.eth0.driver": "e1000"}
    [suspect] = suspects(analysis(native=native, qemu=machine))
    assert (suspect.fact, suspect.is_layer, suspect.labels) == (
        "interface.eth0.driver",
        True,
        ("nginx",),
    )
    assert suspect.commands == ("sudo vtax run service --ab qemu:nic=e1000,qemu:nic=virtio-net",)
    virtio = {**machine, "interface.eth0.driver": "virtio_net"}
    [suspect] = suspects(analysis(native=native, qemu=virtio))
    assert suspect.commands == ()


def test_a_fact_that_no_option_changes_has_no_command():
    [suspect] = suspects(analysis(podman={**OF_CONTAINER, "root_file_system": "overlay"}))
    assert suspect.is_layer
    assert suspect.commands == ()


@pytest.mark.parametrize("render", [markdown, html, drawn])
def test_facts_are_shown_before_everything_else_with_the_run_that_tests_them(render):
    made = analysis(podman={**LAYER, "seccomp_filters": 2})
    document = view("explain", made)
    text = " ".join(str(render(document)).replace("\\_", "_").split())
    place = text.index("/scratch is overlay")
    assert place < text.index("sudo vtax run service --ab podman:scratch=layer")
    assert place < text.index("seccomp_filters is 2")
    assert text.index("beside the layer") < place
    [scratch, filters] = as_json(document)["facts"]
    assert (scratch["fact"], filters["fact"]) == ("scratch_file_system", "seccomp_filters")
    assert scratch["commands"] == [
        "sudo vtax run service --ab podman:scratch=layer,podman:scratch=volume"
    ]


def test_a_slower_platform_with_a_ladder_is_taken_apart_on_what_the_study_of_ladders_measures():
    made = analysis()
    assert anatomies(made) == (
        "sudo vtax anatomy --of podman nginx",
        "sudo vtax anatomy --of lxc nginx",
    )
    brief, full = (drawn(view("explain", made, every_metric=every)) for every in (False, True))
    assert "Mechanism by mechanism: sudo vtax anatomy --of podman nginx" in brief
    assert "--of lxc" not in brief
    assert "--of lxc" in full
