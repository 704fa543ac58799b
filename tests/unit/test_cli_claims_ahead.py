"""What a plan says of its study's claims: which the run can judge, what the others need, and the blocks it takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import output_of

from vtax.stats.planning import blocks_needed, detectable_distance

pytestmark = pytest.mark.usefixtures("unmade_home", "ordinary_user")
QUICK = ("--scale", "quick", "--seed", "1")
HERE = ("-p", "native,docker,qemu-tcg-e1000")


def planned(*arguments: str) -> dict[str, Any]:
    """What the plan of a run says of claims, as JSON."""
    claims: dict[str, Any] = json.loads(output_of("run", *arguments, "--dry-run", "--json"))[
        "claims"
    ]
    return claims


def claim(claims: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in claims["of"] if each["id"] == name]
    return found


def test_claims_of_native_alone_are_judged_and_others_name_the_hypervisor_and_the_boot():
    claims = planned("urschei2007", *QUICK, *HERE)
    judged = {each["id"] for each in claims["of"] if each["can_be_judged"]}
    assert judged == {"mtu-small-slower", "buffer-larger-faster", "buffer-near-link-limit"}
    assert claims["can_be_judged"] == 3
    assert claim(claims, "mtu-small-slower")["in_part"]
    assert not claim(claims, "buffer-near-link-limit")["in_part"]
    halves = claim(claims, "domu-mtu500-halves")
    assert halves["needs"] == ["Xen", "another boot"]
    assert halves["missing_platforms"] == ["xen-pv"]
    assert claim(claims, "dom0-above-domu")["needs"] == ["Xen"]  # both are of one boot


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("qemu-half-of-native", []),
        ("virtualbox-eq-native", ["VirtualBox"]),
        ("qemu-better-on-stronger-host", ["a second machine"]),
    ],
)
def test_a_claim_needs_virtualbox_or_a_second_machine(name, needs):
    assert claim(planned("ufla2010", *QUICK, *HERE), name)["needs"] == needs


def test_what_a_scale_leaves_out_is_said_with_its_levels():
    plateau = claim(planned("urschei2007", *QUICK, *HERE), "plateau")
    assert plateau["needs"] == ["other settings"]
    assert "65536, 114688, 131072" in plateau["why_not"]
    assert plateau["blocks"] is None


def test_kvm_is_named_where_its_platforms_are_left_out():
    claims = planned("mauricio2013", *QUICK, *HERE)
    assert claims["can_be_judged"] == 0
    assert claim(claims, "kvm-virtio-eq-native")["needs"] == ["KVM"]
    assert claim(claims, "kvm-closest-cpu")["needs"] == ["KVM", "Xen", "another boot"]


def test_with_boots_named_no_claim_needs_another_one():
    claims = planned("urschei2007", *QUICK, "--boot", "bare=Linux", "--boot", "xen=Xen")
    halves = claim(claims, "domu-mtu500-halves")
    assert halves["can_be_judged"]
    assert halves["not_probed"] == ["xen-pv"]


def test_too_few_blocks_judge_no_claim():
    claims = planned("ufla2010", "--scale", "quick", "--blocks", "4", *HERE)
    assert claim(claims, "qemu-half-of-native")["needs"] == ["more blocks"]


def test_a_run_that_can_judge_none_says_so():
    text = output_of("run", "santos2008", *QUICK, *HERE, "--dry-run")
    assert "this run can judge none of the 15 claims of santos2008: 15 need Xen" in text
    assert "  cpu-equal: needs Xen and another boot (xen-pv, xen-hvm)" in text


def test_a_study_without_claims_says_nothing_of_them():
    assert planned("tour") is None
    assert "claim" not in output_of("run", "tour", "--dry-run")


def test_blocks_take_the_time_of_the_plan():
    plan = json.loads(output_of("run", "urschei2007", *QUICK, *HERE, "--dry-run", "--json"))
    limit = claim(plan["claims"], "buffer-near-link-limit")
    assert limit["by_noise"]
    assert limit["duration_s"] == pytest.approx(limit["blocks"] * plan["block_s"])
    rises = claim(plan["claims"], "buffer-larger-faster")
    assert (rises["blocks"], rises["by_noise"]) == (5, False)  # a slope: the fewest alone are known


@pytest.mark.parametrize("sd", [0.02, 0.05, 0.2])
def test_blocks_needed_are_the_fewest_that_settle_a_distance(sd):
    blocks = blocks_needed(sd, 0.05, 0.975, 0.8, 1000)
    assert blocks is not None
    assert detectable_distance(sd, blocks, 0.975) <= 0.05
    assert blocks == 5 or detectable_distance(sd, blocks - 1, 0.975) > 0.05


def test_a_distance_that_no_number_of_blocks_settles_has_none():
    assert blocks_needed(0.05, 1e-6, 0.975, 0.8, 1000) is None
