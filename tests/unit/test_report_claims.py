"""Claims of a study, judged by runs with invented figures: every kind of check, mapping, and what is missing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from a_run import measured as measured_at_two_sizes
from a_run import noisy
from claimed_run import claim, judged, measured
from shown import drawn
from shown import source_of as source

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.report.analysis import analyse_data
from vtax.report.analysis.published import published
from vtax.report.answers.claims.compute import claims
from vtax.report.answers.claims.view import VIEW, document_of
from vtax.report.chapters import report
from vtax.report.renderers.format import Formatter, english
from vtax.report.renderers.json import as_json
from vtax.report.renderers.language import language
from vtax.report.renderers.markdown import markdown
from vtax.report.views.base import Options


def word(**check: Any) -> str:
    return judged({"benchmark": "small", **check}, blocks=12).word


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (
            {"kind": "ratio", "of": "far", "where": {"size": 64}, "above": 0.25, "below": 0.35},
            "reproduced",
        ),
        ({"kind": "ratio", "of": "far", "where": {"size": 64}, "above": 0.4}, "contradicted"),
        ({"kind": "ratio", "of": "far", "where": {"size": 64}, "below": 0.3}, "inconclusive"),
        ({"kind": "ratio", "of": "far", "below": 0.75}, "reproduced"),
        ({"kind": "ratio", "of": "far", "below": 0.6}, "contradicted"),  # not at every size
        ({"kind": "ratio", "of": "far", "below": 0.6, "average_over": ["size"]}, "reproduced"),
        ({"kind": "ratio", "of": "far", "below": 0.6, "needs": "most"}, "reproduced"),
        (
            {"kind": "ratio", "of": "near@size=64", "to": "near@size=1024", "below": 0.3},
            "reproduced",
        ),
        (
            {"kind": "ratio", "of": "near@size=64", "to": "native", "above": 0.9, "below": 1.1},
            "reproduced",
        ),
        ({"kind": "equivalence", "of": "near", "within": 0.05}, "reproduced"),
        ({"kind": "equivalence", "of": ["near", "far"], "within": 0.05}, "contradicted"),
        ({"kind": "equivalence", "of": "near", "within": 0.005}, "inconclusive"),
        ({"kind": "rank", "of": "far", "to": ["native", "near"], "place": "last"}, "reproduced"),
        ({"kind": "rank", "of": "far", "to": ["native", "near"], "place": "first"}, "contradicted"),
        ({"kind": "rank", "of": "near", "to": ["native", "far"], "place": "first"}, "inconclusive"),
        (
            {
                "kind": "rank",
                "of": "far@size=1024",
                "to": ["far@size=64", "far@size=256"],
                "place": "first",
            },
            "reproduced",
        ),
        ({"kind": "monotone", "of": "native", "along": "size", "direction": "rises"}, "reproduced"),
        (
            {"kind": "monotone", "of": "native", "along": "size", "direction": "falls"},
            "contradicted",
        ),
        (
            {
                "kind": "monotone",
                "of": "far",
                "to": "native",
                "along": "size",
                "direction": "rises",
            },
            "reproduced",
        ),
        (
            {
                "kind": "monotone",
                "of": "near",
                "to": "native",
                "along": "size",
                "direction": "rises",
            },
            "inconclusive",
        ),
        (
            {
                "kind": "spread",
                "over": "points",
                "of": "far",
                "to": "near",
                "reference": "native",
                "above": 3,
            },
            "reproduced",
        ),
        (
            {
                "kind": "spread",
                "over": "points",
                "of": "near",
                "to": "far",
                "reference": "native",
                "above": 1,
            },
            "contradicted",
        ),
        (
            {
                "kind": "interaction",
                "of": "far@size=1024",
                "to": "far@size=64",
                "reference": "native",
                "above": 2,
            },
            "reproduced",
        ),
        (
            {
                "kind": "interaction",
                "of": "far@size=1024",
                "to": "far@size=64",
                "reference": "native",
                "below": 2,
            },
            "contradicted",
        ),
        (
            {
                "kind": "interaction",
                "of": "near@size=1024",
                "to": "near@size=64",
                "reference": "native",
                "above": 1,
            },
            "inconclusive",
        ),
    ],
)
def test_every_kind_of_check_reproduces_contradicts_and_stays_open(check, expected):
    assert word(**check) == expected


AT_LIMIT = {
    "kind": "link_rate",
    "of": "native",
    "where": {"size": 1024},
    "benchmark": "small",
    "above": 0.85,
}


@pytest.mark.parametrize(
    ("limit", "expected"), [(2000, "reproduced"), (9000, "contradicted"), (3765, "inconclusive")]
)
def test_a_value_is_compared_with_the_rate_limit_of_its_link(limit, expected):
    found = judged(AT_LIMIT, unit="Mbit/s", link={"rate_mbit_s": limit})
    assert found.word == expected
    (compared,) = found.comparisons
    blocks = compared.answer.ratio.n_blocks
    assert (compared.answer.ratio.estimate, blocks) == (pytest.approx(3200 / limit, rel=0.2), 10)


@pytest.mark.parametrize(
    ("unit", "link", "why"),
    [
        ("Mbit/s", {}, "the link of this run has no rate limit"),
        ("1/s", {"rate_mbit_s": 9}, "speed is no rate"),
    ],
)
def test_a_value_without_a_limit_is_not_compared_with_one(unit, link, why):
    found = judged(AT_LIMIT, unit=unit, link=link)
    assert (found.word, why in english(found.why)) == ("not tested", True)


def test_a_table_of_claims_says_what_was_changed_of_the_study():
    analysis = measured({"check": [{"kind": "equivalence", "of": "near", "within": 0.1}]})
    changed_by = [{"option": "--scale quick", "parts": [{"what": "duration_s ÷ 5", "label": ""}]}]
    changed = replace(analysis, declared={**analysis.declared, "changed_by": changed_by})
    document = VIEW.document(source(changed), Options())
    assert "the study was changed by --scale quick: duration_s ÷ 5" in drawn(document)
    portuguese = markdown(document, language("pt-BR"))
    assert "o estudo foi alterado por --scale quick: duration\\_s ÷ 5" in portuguese
    assert as_json(document)["changed_by"] == changed_by


@pytest.mark.parametrize(
    ("above", "expected"), [(2.0, "reproduced"), (30.0, "contradicted"), (9.0, "inconclusive")]
)
def test_a_spread_over_blocks_is_a_ratio_of_deviations(above, expected):
    """The reference divides out the common noise of blocks; of what is left, far's is about ten times near's."""
    check = {
        "kind": "spread",
        "over": "blocks",
        "of": "far",
        "to": "near",
        "reference": "native",
        "above": above,
    }
    found = judged({**check, "benchmark": "bulk", "where": {"size": 256}}, blocks=40)
    assert found.word == expected


@pytest.mark.parametrize(
    ("of", "to", "expected"), [("near", "native", "reproduced"), ("far", "native", "inconclusive")]
)
def test_pairing_in_blocks_narrows_where_noise_is_common(of, to, expected):
    """Blocks have a common noise of 10 %; of bulk, near adds 1 % of its own and far 30 %."""
    check = {
        "kind": "spread",
        "over": "pairing",
        "of": of,
        "to": to,
        "below": 0.8,
        "where": {"size": 64},
    }
    found = judged({**check, "benchmark": "bulk"}, blocks=40, noise=0.03 if of == "far" else 0.01)
    assert found.word == expected


@pytest.mark.parametrize(("guests", "expected"), [(0.1, "reproduced"), (0.0, "contradicted")])
def test_a_spread_over_trials_shows_what_a_reused_guest_hides(guests, expected):
    run = noisy(guests, 0.01)
    data, _ = measured_at_two_sizes(run, blocks=40, trials=2)
    check = {"kind": "spread", "over": "trials", "of": "first", "above": 3, "where": {"size": 64}}
    data.run.declared["claim"] = [claim(check=[check])]
    (found,) = claims(analyse_data(data)).claims
    assert found.word == expected
    (compared,) = found.comparisons
    assert compared.answer.ratio.estimate == pytest.approx(math.hypot(guests, 0.01) / 0.01, rel=0.5)


def test_a_side_may_fix_the_benchmark():
    check = {
        "kind": "ratio",
        "of": "far@benchmark=small",
        "to": "far@benchmark=bulk",
        "where": {"size": 64},
    }
    assert judged({**check, "below": 0.4}).word == "reproduced"
    assert judged({**check, "above": 0.4}).word == "contradicted"


def test_averages_over_benchmarks_are_geometric():
    check = {
        "kind": "ratio",
        "of": "far",
        "where": {"size": 64},
        "average_over": ["benchmark"],
        "above": 0.5,
        "below": 0.6,
    }
    found = judged(check)
    assert len(found.comparisons) == 1
    assert found.comparisons[0].answer.ratio.estimate == pytest.approx(
        math.sqrt(0.3 * 0.99), rel=0.05
    )
    assert found.word == "reproduced"


def test_a_ratio_of_one_point_is_that_of_the_result_table():
    analysis = measured(
        {"check": [{"kind": "ratio", "of": "far", "benchmark": "small", "above": 0.1}]},
        stop="fixed",
    )
    rows = {
        (section.label, row.cell.levels["size"]): row.ratio
        for section in analysis.sections
        for point in section.points
        for row in point.rows
        if row.platform.name == "far"
    }
    for compared in claims(analysis).claims[0].comparisons:
        expected = rows["small", int(dict(compared.point)["size"])]
        assert expected is not None
        ratio = compared.answer.ratio
        assert (ratio.estimate, ratio.low, ratio.high) == (
            expected.estimate,
            expected.low,
            expected.high,
        )


def test_a_platform_that_was_not_tested_is_named_with_its_reason():
    found = judged({"kind": "equivalence", "of": "gone", "within": 0.1, "benchmark": "small"})
    assert found.word == "not tested"
    assert Formatter().text(found.why) == "gone was not tested: this host has no hypervisor"
    assert judged({"kind": "equivalence", "of": "elsewhere", "within": 0.1}).word == "not tested"


def test_a_claim_that_no_run_can_judge_says_why():
    found = claims(measured({"not_tested": "needs two merged runs"})).claims[0]
    assert (found.word, Formatter().text(found.why)) == ("not tested", "needs two merged runs")


def test_not_tested_claims_are_no_part_of_the_family():
    open_ = {"check": [{"kind": "equivalence", "of": "gone", "within": 0.1}]}
    good = {"id": "two", "check": [{"kind": "equivalence", "of": "near", "within": 0.1}]}
    found = claims(measured(open_, good))
    assert found.family == 1
    assert [each.word for each in found.claims] == ["not tested", "reproduced"]


def test_a_platform_that_stands_for_another_is_itself_in_claims_about_it():
    about_far = {
        "id": "two",
        "check": [{"kind": "ratio", "of": "far", "below": 0.9, "benchmark": "small"}],
    }
    analysis = measured(
        {"check": [{"kind": "ratio", "of": "gone", "below": 0.9, "benchmark": "small"}]}, about_far
    )
    text = " ".join(drawn(document_of(claims(analysis, {"gone": "far"}), is_full=True)).split())
    first, second = text.split("two: reproduced")
    assert "far (for gone) (emulated) / native, size=64" in first
    assert "far (emulated) / native, size=64" in second
    assert "for gone" not in second


def test_two_platforms_that_become_one_are_not_compared():
    analysis = measured(
        {
            "check": [
                {"kind": "ratio", "of": "gone", "to": "far", "below": 0.9, "benchmark": "small"}
            ]
        }
    )
    found = claims(analysis, {"gone": "far"}).claims[0]
    assert found.word == "not tested"
    assert "are both far here" in Formatter().text(found.why)


def test_points_without_values_are_left_out_and_noted():
    check = {"kind": "ratio", "of": ["near", "far@size=64"], "above": 0.2, "benchmark": "small"}
    found = judged(check, lacks=("far", 64))
    assert [compared.of.platform for compared in found.comparisons] == ["near", "near", "near"]
    assert [note.data for note in found.notes] == [{"platform": "far", "metric": "speed"}]


def test_what_is_open_says_how_many_blocks_would_decide_it():
    wide = {
        "check": [
            {
                "kind": "ratio",
                "of": "near",
                "above": 0.9,
                "average_over": ["size"],
                "benchmark": "small",
            }
        ]
    }
    at_bounds = [
        {**wide, "id": f"n{n}", "check": [{"kind": "ratio", "of": "near", "above": 1}]}
        for n in range(19)
    ]
    run = measured(wide, *at_bounds, blocks=8, noise=0.09)
    text = " ".join(drawn(VIEW.document(source(run), Options())).split())
    assert "inconclusive" in text
    assert "would decide it" in text


def test_what_noise_leaves_open_names_the_noisiest_comparison():
    check = {
        "kind": "ratio",
        "of": ["near", "far"],
        "above": 1,
        "where": {"size": 256},
        "benchmark": "bulk",
    }
    run = measured(
        {"check": [check]}, {"id": "two", "check": [{**check, "of": "far"}]}, blocks=5, noise=0.2
    )
    text = " ".join(drawn(VIEW.document(source(run), Options())).split())
    assert "too noisy: far / native, size=256 varies between blocks" in text


HOSTS: dict[str, Any] = {"hosts": "ababab", "blocks": 30}
EFFICIENCY = {
    "kind": "interaction",
    "of": "far@host=1",
    "to": "far@host=2",
    "reference": "native",
    "where": {"size": 64},
    "benchmark": "small",
}


@pytest.mark.parametrize(
    ("check", "factor", "expected"),
    [
        ({"above": 0.9, "below": 1.1}, 1.0, "reproduced"),
        ({"above": 0.9, "below": 1.1}, 2.0, "contradicted"),
        ({"above": 1.5}, 0.5, "reproduced"),
        ({"above": 1.0}, 1.0, "inconclusive"),
    ],
)
def test_sides_on_two_hosts_of_a_merged_run_are_compared_over_sessions(check, factor, expected):
    found = judged({**EFFICIENCY, **check}, far_on={"b": factor}, **HOSTS)
    assert found.word == expected
    (compared,) = found.comparisons
    assert compared.answer.ratio.n_sessions == 3
    assert compared.answer.ratio.estimate == pytest.approx(1 / factor, rel=0.05)


def test_a_host_with_one_session_has_a_ratio_and_no_word():
    found = judged({**EFFICIENCY, "above": 1.5}, hosts="ab", blocks=20, far_on={"b": 0.5})
    assert (found.word, found.comparisons[0].answer is not None) == ("inconclusive", True)
    assert Note("one-session") in found.judgement.warnings


def test_a_side_that_names_a_host_is_compared_in_its_blocks():
    check = {"kind": "ratio", "of": "far@host=2", "benchmark": "small", "where": {"size": 64}}
    assert judged({**check, "below": 0.2}, far_on={"b": 0.5}, **HOSTS).word == "reproduced"
    assert (
        judged({**check, "of": "far@host=1", "below": 0.2}, far_on={"b": 0.5}, **HOSTS).word
        == "contradicted"
    )


def test_hosts_that_a_run_does_not_have_are_not_tested_and_may_be_mapped():
    found = judged({**EFFICIENCY, "above": 1.5})
    assert found.word == "not tested"
    assert "compares 2 hosts, and this run is of 1 host;" in Formatter().text(found.why)
    exchanged = {"host-1": "host-2", "host-2": "host-1"}
    assert (
        judged({**EFFICIENCY, "below": 0.7}, far_on={"b": 0.5}, mapped=exchanged, **HOSTS).word
        == "reproduced"
    )
    assert (
        judged({**EFFICIENCY, "below": 0.7}, mapped={"host-1": "host-2"}, **HOSTS).word
        == "not tested"
    )
    with pytest.raises(BadInput, match="no host 'host-3'"):
        judged({**EFFICIENCY, "below": 0.7}, mapped={"host-1": "host-3"}, **HOSTS)


PUBLISHED = {
    "source": "table 2",
    "benchmark": "small",
    "metric": "speed",
    "where": {"size": 64},
    "values": {"native": 815.0, "gone": 511.0},
    "plus_minus": {"gone": 31.6},
}


def test_published_numbers_are_beside_ours():
    cv = {
        **PUBLISHED,
        "statistic": "largest_cv",
        "where": {},
        "values": {"native": 0.1376},
        "plus_minus": {},
    }
    analysis = measured(published=(PUBLISHED, cv))
    document = VIEW.document(source(analysis), Options())
    found = {(e["platform"], e["statistic"]): e for e in as_json(document)["published"]}
    assert found["native", "mean"]["published"] == 815
    assert found["native", "mean"]["value"] == pytest.approx(800, rel=0.1)
    assert (
        found["native", "mean"]["low"]
        < found["native", "mean"]["value"]
        < found["native", "mean"]["high"]
    )
    assert found["gone", "mean"]["value"] is None
    assert 0.05 < found["native", "largest_cv"]["value"] < 0.2
    text = drawn(document)
    assert "not measured" in text
    assert "511.0 1/s ± 31.6" in text


def test_a_published_number_of_several_cells_names_what_they_differ_in():
    analysis = measured(published=({**PUBLISHED, "where": {}},))
    document = VIEW.document(source(analysis), Options())
    found = {each["platform"]: each for each in as_json(document)["published"]}
    assert (found["native"]["value"], found["native"]["mixed"]) == (None, ["size"])
    assert found["gone"]["mixed"] == []
    assert "several cells, by size" in drawn(document)


def test_a_published_number_has_the_unit_of_its_benchmark():
    """Two benchmarks may call their metrics alike, such as the rate of a disk and that of a CPU."""
    analysis = measured(published=({**PUBLISHED, "benchmark": "bulk"},))
    first, second = (
        replace(s, metric=replace(s.metric, unit=unit))
        for s, unit in zip(
            sorted(analysis.sections, key=lambda s: s.label == "bulk"),
            ("MB/s", "Mflop/s"),
            strict=True,
        )
    )
    found = published(replace(analysis, sections=(first, second)), {})
    assert [(each.platform, each.unit) for each in found] == [
        ("native", "Mflop/s"),
        ("gone", "Mflop/s"),
    ]


def test_a_study_without_claims_has_no_chapter():
    analysis = measured()
    assert VIEW.document(source(analysis), Options()).nothing != ""
    assert "Published findings" not in drawn(report(source(analysis)))
