"""What a claim leaves out and says so: blocks without a value, and trials that measured something else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from claimed_run import judged, measured
from shown import drawn
from shown import source_of as source

from vtax.counters.host import XEN_BELOW
from vtax.messages import Note
from vtax.report.analysis.compared import cells_of
from vtax.report.answers.claims.compute import claims
from vtax.report.answers.claims.view import VIEW
from vtax.report.document import Count
from vtax.report.renderers.format import english
from vtax.report.renderers.json import as_json
from vtax.report.views.base import Options


@pytest.mark.parametrize(
    ("lacks", "check", "notes"),
    [
        (None, {"of": "far"}, []),
        (
            ("far", 64, 3),
            {"of": "far"},
            ["1 block of 10 is left out: not every value of a comparison is there"],
        ),
        (
            ("native", 64, 3),
            {"of": "far"},
            ["1 block of 10 is left out: not every value of a comparison is there"],
        ),
        (("far", 64, 3), {"of": "near"}, []),
        (
            ("native", 64, 3),
            {"kind": "interaction", "of": "far", "to": "near", "reference": "native"},
            ["1 block of 10 is left out: not every value of a comparison is there"],
        ),
    ],
)
def test_a_block_that_a_claim_leaves_out_is_said(lacks, check, notes):
    found = judged(
        {"kind": "ratio", "below": 1, "average_over": ["size"], "benchmark": "small", **check},
        lacks=lacks,
    )
    assert [english(note) for note in found.notes] == notes
    assert max(compared.left_out for compared in found.comparisons) == len(notes)


@pytest.mark.parametrize(
    "code", ["packet-size", "packets-not-counted", "not-a-wire", "undelayed", "few-transactions"]
)
def test_no_claim_rests_on_trials_that_measured_something_else(code):
    """Super-packets, more transactions than a wire carries, or few: no comparison, and no word."""
    check = {"kind": "ratio", "of": "far", "benchmark": "small", "below": 0.75}
    assert judged(check, blocks=12).word == "reproduced"
    found = judged(check, blocks=12, other=code)
    assert found.word == "inconclusive"
    assert [note.code for note in found.judgement.warnings] == ["other-quantity"]  # type: ignore[attr-defined]
    assert found.comparisons[0].reason == found.judgement.warnings[0]
    elsewhere = {**check, "where": {"size": 256}}
    assert judged(elsewhere, blocks=12, other=code).word == "reproduced"
    assert (
        judged({**elsewhere, "where": {"size": 64}}, blocks=12, other="clock-rate").word
        == "reproduced"
    )


def test_no_verdict_rests_on_trials_that_measured_something_else():
    """The ratio is shown, without a word."""
    rows = {
        cell.row.cell.key: cell.row for cell in cells_of(measured(blocks=12, other="undelayed"))
    }
    other, alike = rows["far-small-64"], rows["far-small-256"]
    assert other.ratio is not None
    assert other.verdict.kind == "undecided"
    assert other.verdict.warnings[-1] == Note("withheld-other-quantity")
    assert alike.verdict.kind == "slower"


def test_a_claim_of_which_values_are_missing_is_judged_in_part_and_the_part_is_named():
    check = {"kind": "ratio", "of": ["near", "far"], "above": 0.2, "benchmark": "small"}
    found = judged(check, lacks=("far", 64))
    (part,) = found.missing
    assert part.data == {"platform": "far", "metric": "speed", "count": Count(1), "total": Count(3)}
    assert found.missing == found.notes
    assert judged(check).missing == ()


def test_in_each_environment_is_judged_on_each_host_by_itself():
    """The mean of two hosts is inside the range, and one of them is not."""
    check = {
        "kind": "ratio",
        "of": "far",
        "where": {"size": 64},
        "benchmark": "small",
        "below": 0.5,
    }
    two: dict[str, Any] = {"hosts": "ababab", "blocks": 30, "far_on": {"b": 2.5}}
    assert [each.of.text for each in judged(check, **two).comparisons] == ["far"]
    found = judged({**check, "each_host": True}, **two)
    assert [each.of.text for each in found.comparisons] == ["far@host=1", "far@host=2"]
    assert [each.is_inside for each in found.comparisons] == [True, False]
    assert found.comparisons[1].is_outside
    assert found.word == "contradicted"
    assert [each.of.text for each in judged({**check, "each_host": True}).comparisons] == ["far"]


def test_a_host_without_a_platform_is_a_part_that_is_missing():
    check = {"kind": "ratio", "of": "far", "benchmark": "small", "below": 0.9, "each_host": True}
    found = judged(check, hosts="ababab", blocks=30, far_absent_on="b")
    assert [part.data for part in found.missing] == [{"platform": "far", "number": "2"}]
    assert {each.of.text for each in found.comparisons} == {"far@host=1"}


@pytest.mark.parametrize(
    ("rate", "unit", "count"),
    [(850, "Mbit/s", 1), (10_000, "Mbit/s", 0), (850, "1/s", 0), (None, "Mbit/s", 0)],
)
def test_equality_of_sides_that_both_fill_their_link_may_be_the_links(rate, unit, count):
    """Native and near send 800 Mbit/s of small messages of 64."""
    link = {"rate_mbit_s": rate} if rate else None
    check = {
        "kind": "equivalence",
        "of": "near",
        "within": 0.1,
        "benchmark": "small",
        "where": {"size": 64},
    }
    found = judged(check, unit=unit, link=link)
    said = ["both sides of 1 comparison fill their link: equality may be the link's"]
    assert [english(note) for note in found.notes] == said * count
    assert judged({**check, "of": "far"}, unit="Mbit/s", link=link).notes == ()


def test_no_claim_and_no_verdict_rests_on_files_that_a_cache_held_on_one_side_alone():
    """The disk of a guest is read from the host's memory, and that of native is not."""
    check = {"kind": "ratio", "of": "far", "benchmark": "small", "below": 0.9}
    small = {**check, "where": {"size": 64}}
    assert judged(small, blocks=12).word == "reproduced"
    found = judged(small, blocks=12, other="host-cache")
    assert found.word == "inconclusive"
    assert found.comparisons[0].reason == Note("other-quantity")
    elsewhere = {**check, "where": {"size": 256}}
    assert judged(elsewhere, blocks=12, other="host-cache").word == "reproduced"
    alone = {"kind": "spread", "over": "points", "of": "far", "benchmark": "small", "above": 0.01}
    assert judged(alone, blocks=12, other="host-cache").word == "reproduced"
    rows = {
        cell.row.cell.key: cell.row for cell in cells_of(measured(blocks=12, other="host-cache"))
    }
    assert rows["far-small-64"].verdict.warnings[-1] == Note("withheld-other-quantity")
    assert rows["far-small-256"].verdict.kind == "slower"


def test_no_interaction_rests_on_a_reference_that_measured_something_else():
    check = {"kind": "interaction", "of": "near", "to": "native", "reference": "far"}
    check |= {"benchmark": "small", "where": {"size": 64}, "above": 0.5}
    assert judged(check, blocks=12).word == "reproduced"
    assert judged(check, blocks=12, other="undelayed").word == "inconclusive"


def test_levels_that_the_run_does_not_have_are_named():
    check = {
        "kind": "ratio",
        "of": "far",
        "below": 1,
        "where": {"size": [64, 512]},
        "benchmark": "small",
    }
    (part,) = judged(check).missing
    assert part.data == {"factor": "size", "levels": "512"}


def test_the_word_and_the_reason_say_that_it_is_in_part():
    check = {"kind": "ratio", "of": "far", "below": 0.75, "benchmark": "small"}
    run = measured({"check": [check]}, blocks=12, lacks=("far", 64))
    shown = " ".join(drawn(VIEW.document(source(run), Options())).split())
    assert "reproduced in part 2 of 2 intervals inside the range; " in shown
    assert "far has no value of speed at 1 of 3 points" in shown
    assert ": 1 reproduced in part " in shown
    (plain,) = as_json(VIEW.document(source(run), Options()))["claims"]
    assert plain["judgement"] == "reproduced"
    assert plain["missing"] == ["far has no value of speed at 1 of 3 points"]


@pytest.mark.parametrize(
    ("boots", "is_tested"),
    [
        ([], False),
        ([["native", "near"], ["far"]], True),
        ([["native", "far"], ["near"]], False),
    ],
)
def test_native_beside_xen_is_no_bare_linux_without_a_boot_of_its_own(boots, is_tested):
    """far is of the driver xen here: without another boot, native is the kernel of its dom0."""
    check = {"kind": "ratio", "of": "near", "above": 0.5, "benchmark": "small"}
    run = measured(
        {"check": [check]},
        {"id": "two", "check": [{**check, "of": "far", "to": "near", "above": 0.1}]},
    )
    platforms = [
        replace(p, identity={"driver": "xen"} if p.name == "far" else {}) for p in run.platforms
    ]
    declared = {**run.declared, "boot": [{"platforms": each} for each in boots]}
    of_native, of_others = claims(
        replace(run, platforms=tuple(platforms), declared=declared)
    ).claims
    assert (of_native.judgement is not None) == is_tested
    assert is_tested or "native has a hypervisor below it" in english(of_native.why)
    assert of_others.judgement is not None


def test_native_in_dom0_is_no_bare_linux_though_no_domain_is_measured():
    run = measured({"check": [{"kind": "ratio", "of": "near", "above": 0.5, "benchmark": "small"}]})
    sessions = tuple(
        replace(each, host={**each.host, "hypervisor": XEN_BELOW}) for each in run.sessions
    )
    (found,) = claims(replace(run, sessions=sessions)).claims
    assert found.judgement is None
    assert "native has a hypervisor below it" in english(found.why)


def test_a_claim_over_fewer_levels_of_a_scale_is_judged_in_part():
    check = {"kind": "ratio", "of": "far", "benchmark": "small", "below": 0.9}
    (found,) = claims(
        measured({"check": [check], "in_part": "--scale quick measures 3 of 7 levels of size"})
    ).claims
    assert [english(part) for part in found.missing] == [
        "--scale quick measures 3 of 7 levels of size"
    ]


def test_differences_from_the_publication_stand_below_the_claims():
    run = measured({"check": [{"kind": "ratio", "of": "far", "below": 1, "benchmark": "small"}]})
    differences = [{"what": "the wire", "paper": "a line", "here": "a bucket of one frame"}]
    run = replace(
        run, declared={**run.declared, "paper": {"citation": "x", "differences": differences}}
    )
    document = VIEW.document(source(run), Options())
    assert "the wire a line a bucket of one frame" in " ".join(drawn(document).split())
    assert as_json(document)["differences"] == differences
    assert "Publication: x" in drawn(document)
    assert as_json(document)["publication"] == "x"


@pytest.mark.parametrize(("times", "said"), [(2.2, True), (1.1, False)])
def test_packets_of_other_sizes_on_both_sides_are_said_beside_the_claim(times, said):
    """Packets of 1500 bytes on native, and of some times that in far."""
    check = {
        "kind": "ratio",
        "of": "far",
        "benchmark": "small",
        "below": 0.9,
        "where": {"size": 64},
    }
    run = measured({"check": [check]})
    (first, *_) = [section for section in run.sections if section.label == "small"]
    points = tuple(
        replace(
            point,
            rows=tuple(
                replace(
                    row,
                    summary=replace(
                        row.summary, mean=1500.0 * (times if row.platform.name == "far" else 1)
                    ),
                )
                for row in point.rows
                if row.summary
            ),
        )
        for point in first.points
    )
    packets = replace(
        first,
        points=points,
        metric=replace(first.metric, name="packet_bytes", unit="bytes", is_primary=False),
    )
    (found,) = claims(replace(run, sections=(*run.sections, packets))).claims
    assert ["one side are up to 2.2 times" in english(note) for note in found.notes] == [
        True
    ] * said
