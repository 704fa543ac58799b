"""What differs beside the layer under test is said in the answer, and what is the layer is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from a_run import measured, noisy
from shown import page, result, terminal, values

from vtax.benchmarks.base import Resource
from vtax.guest.facts import NAMES, OPEN, is_of
from vtax.report.analysis import Analysis
from vtax.report.analysis.also_differs import FACTS, also_differs
from vtax.report.renderers.markdown import markdown

COMMON = {"limit.open_files": "20000", "scratch_file_system": "ext4", "kernel_release": "6.1"}
OF_NATIVE = {**COMMON, "isolation": "nothing"}
Run = Callable[..., Analysis]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Make a run of one benchmark of a resource, whose guests have facts by platform."""
    made = measured(noisy(0.01, 0.01))[1]

    def with_facts(
        resource: Resource, facts: dict[str, dict[str, Any]], baseline: Any = OF_NATIVE
    ) -> Analysis:
        module = "vtax.report.analysis.also_differs.resource_of"
        monkeypatch.setattr(module, lambda _: resource)
        every = {made.baseline: baseline, **facts}
        guests = [replace(guest, facts=every.get(guest.platform, {})) for guest in made.guests]
        return replace(made, guests=tuple(guests))

    return with_facts


def said(analysis: Analysis) -> list[str]:
    return [f"{', '.join(each.platforms)}: {each.text}" for each in also_differs(analysis)]


OVERLAY = {**COMMON, "isolation": "confined", "scratch_file_system": "overlay"}


def test_a_container_in_another_file_system_is_named_once_beside_the_verdict(run):
    analysis = run("disk", {"first": OVERLAY, "second": OVERLAY})
    assert said(analysis) == ["first, second: /scratch is overlay, native's is ext4"]
    text = "Also differs: first, second: /scratch is overlay, native's is ext4"
    document = result(analysis)
    for shown in (terminal(analysis, 200), markdown(document)):
        assert text in " ".join(shown.split()).replace("first and second", "first, second")
    assert "/scratch is overlay" in page(analysis)
    (found,) = values(analysis)["also_differs"]
    assert (found["fact"], found["platforms"]) == ("scratch_file_system", ["first", "second"])
    assert found["text"] == "/scratch is overlay, native's is ext4"


def test_a_fact_is_named_only_of_what_it_matters_for(run):
    assert said(run("cpu", {"first": OVERLAY})) == []
    limited = {**OVERLAY, "limit.open_files": "1024"}
    assert said(run("cpu", {"first": limited})) == [
        "first: limit.open_files is 1024, native's is 20000"
    ]
    assert len(said(run("application", {"first": limited}))) == 2


MACHINE = {
    **COMMON,
    "clock_source": "kvm-clock",
    "kernel_release": "6.12",
    "limit.open_files": "1024",
    "mitigation.spectre_v2": "Vulnerable",
    "scratch_file_system": "xfs",
    "transparent_huge_pages": "never",
}
HOST = {
    **OF_NATIVE,
    "clock_source": "tsc",
    "mitigation.spectre_v2": "Mitigation: IBRS",
    "transparent_huge_pages": "always",
}


def test_a_kernel_of_its_own_is_the_layer_and_what_could_be_the_same_is_not(run):
    found = said(run("application", {"first": {**MACHINE, "isolation": "kernel"}}, HOST))
    assert found == [
        "first: limit.open_files is 1024, native's is 20000",
        "first: transparent_huge_pages is never, native's is always",
    ]


@pytest.mark.parametrize("isolation", ["confined", "elsewhere"])
def test_where_the_kernel_is_not_the_layer_all_of_it_is_named(isolation, run):
    found = said(run("application", {"first": {**MACHINE, "isolation": isolation}}, HOST))
    facts = [
        "clock_source",
        "kernel_release",
        "limit.open_files",
        "mitigation",
        "/scratch",
        "transparent_huge_pages",
    ]
    assert [line.split()[1] for line in found] == facts
    assert (
        "first: mitigation is spectre_v2 Vulnerable, native's is spectre_v2 Mitigation: IBRS"
        in found
    )


def test_only_options_for_speed_of_one_file_system_are_compared(run):
    native = {**OF_NATIVE, "scratch_mount_options": ["nodev", "nosuid", "relatime", "rw"]}
    first = {**COMMON, "isolation": "confined", "scratch_mount_options": ["relatime", "rw"]}
    assert said(run("disk", {"first": first}, native)) == []
    first["scratch_mount_options"] = ["rw", "sync"]
    assert said(run("disk", {"first": first}, native)) == [
        "first: /scratch is sync, native's is relatime"
    ]


def test_places_of_files_that_differ_are_named_for_a_machine_too(run):
    native = {**OF_NATIVE, "scratch": "memory", "scratch_file_system": "tmpfs"}
    machine = {**COMMON, "isolation": "kernel", "scratch": "volume"}
    assert said(run("disk", {"first": machine}, native)) == [
        "first: place of /scratch is volume, native's is memory"
    ]
    assert said(run("cpu", {"first": machine}, native)) == []


def test_interfaces_are_compared_in_a_lab_only(run):
    native = {**OF_NATIVE, "interface.eth0.mtu": 1500}
    first = {**COMMON, "isolation": "confined", "interface.eth0.mtu": 1400}
    assert said(run("network", {"first": first}, native)) == []
    native["started.topology"] = first["started.topology"] = "point-to-point"
    assert said(run("network", {"first": first}, native)) == [
        "first: interface.eth0.mtu is 1400, native's is 1500"
    ]
    first |= {
        "interface.eth0.offloads": ["gro"],
        "interface.eth0.driver": "virtio_net",
        "isolation": "kernel",
        "interface.eth0.mtu": 1500,
    }
    native |= {"interface.eth0.offloads": ["gso"], "interface.eth0.driver": "veth"}
    assert said(run("network", {"first": first}, native)) == [], "its interface is the layer"


def test_guests_of_one_block_are_compared_and_so_of_one_host(run):
    analysis = run("disk", {"first": OVERLAY})
    native = next(guest for guest in analysis.guests if guest.platform == analysis.baseline)
    first = next(guest for guest in analysis.guests if guest.platform == "first")
    facts = {**OF_NATIVE, "kernel_release": "6.9"}
    guests = (
        replace(native, block=1, facts={**OF_NATIVE, "scratch_file_system": "overlay"}),
        replace(native, block=2, facts=facts),
        replace(first, block=2, facts={**facts, "isolation": "confined"}),
    )
    assert said(replace(analysis, guests=guests)) == []


def test_what_is_not_known_of_both_is_no_difference(run):
    assert said(run("disk", {"first": {"isolation": "confined"}})) == []
    assert said(run("disk", {"first": {**OVERLAY, "isolation": ""}})) == []


def test_every_fact_of_the_table_is_one_that_audits_have():
    for fact in frozenset().union(*FACTS.values()):
        assert fact in OPEN or any(is_of(name, fact) for name in NAMES), fact
