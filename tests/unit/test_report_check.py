"""Outcomes of checks of runs with invented figures, and their cases as JUnit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from a_run import measured
from shown import drawn

from vtax.messages import Note
from vtax.report.analysis import Analysis
from vtax.report.answers.gate.compute import Checks, check
from vtax.report.answers.gate.show import document_of
from vtax.report.document import Case, Document, Suite, msg
from vtax.report.renderers.json import as_json
from vtax.report.renderers.junit import junit
from vtax.report.renderers.language import language
from vtax.stats.terms import Conditions

FIVE_PERCENT = Conditions({"speed": 0.05})


def run_of(
    first: float = 1.0,
    second: float = 1.0,
    *,
    noise: float = 0.005,
    blocks: int = 8,
    seed: int = 2,
    **design: Any,
) -> Analysis:
    """A run whose platforms reach these shares of native's rate."""
    random, speed = np.random.default_rng(seed), {"native": 1.0, "first": first, "second": second}

    def value(platform: str, size: int, block: int, number: int) -> float:
        return 100 * size * speed[platform] * math.exp(random.normal(0, noise))

    return measured(value, blocks, 1, **design)[1]


def outcomes(found: Checks) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {}
    for each in found.comparisons:
        result.setdefault(each.pair.treatment.platform.name, set()).add(each.outcome)
    return result


def test_slower_means_beyond_the_margin():
    analysis = run_of(0.9, 0.97)
    found = check(None, analysis, FIVE_PERCENT)
    assert outcomes(found) == {"first": {"slower"}, "second": {"passed"}}
    assert (found.status, found.families) == ("failed", (4,))
    assert outcomes(check(None, analysis, Conditions({"speed": 0.15}))) == {
        "first": {"passed"},
        "second": {"passed"},
    }
    assert outcomes(check(None, analysis, Conditions({"speed": 0.01}))) == {
        "first": {"slower"},
        "second": {"slower"},
    }


def test_at_the_margin_it_is_undecided_and_says_why():
    found = check(None, run_of(0.95, noise=0.02), FIVE_PERCENT)
    assert outcomes(found)["first"] == {"undecided"}
    assert found.status == "undecided"
    each = found.comparisons[0]
    assert each.p_beyond is not None
    assert each.p_passed is not None
    assert min(each.p_beyond, each.p_passed) > found.alpha
    assert each.detectable is not None
    assert each.detectable > 0.05


def test_p_values_are_corrected_for_the_family():
    analysis = run_of(0.93, 0.95, noise=0.012)
    alone = replace(analysis, platforms=analysis.platforms[:2])
    many, few = (check(None, each, FIVE_PERCENT).comparisons[0] for each in (analysis, alone))
    assert (many.ratio.low, many.ratio.high) == (few.ratio.low, few.ratio.high)
    assert (
        many.loss.at_most == few.loss.at_most < few.loss.at_most_family < many.loss.at_most_family
    )
    assert many.p_beyond is not None
    assert few.p_beyond is not None
    assert many.p_beyond > few.p_beyond


def test_noise_raises_what_is_detectable():
    quiet, noisy = (
        check(None, run_of(noise=each), FIVE_PERCENT).comparisons[0].detectable
        for each in (0.002, 0.05)
    )
    assert quiet is not None
    assert noisy is not None
    assert 0.05 < quiet < 0.06 < noisy


def test_few_blocks_decide_nothing():
    found = check(None, run_of(0.5, blocks=3), FIVE_PERCENT)
    assert {each.outcome for each in found.comparisons} == {"undecided"}
    assert Note("few-blocks", count=3, minimum=5) in found.comparisons[0].reasons
    assert found.comparisons[0].detectable is None
    one = document_of(check(None, run_of(0.5, blocks=1), FIVE_PERCENT))
    assert "undecided" in drawn(one)
    assert as_json(one)["comparisons"][0]["efficiency"]["high"] is None


def test_a_treatment_without_values_fails():
    def value(platform: str, size: int, block: int, number: int) -> float:
        return math.nan if platform == "first" and size == 64 else 100.0 + block + size

    found = check(None, measured(value)[1], FIVE_PERCENT)
    lost = [each for each in found.comparisons if each.outcome == "no-result"]
    assert [each.pair.treatment.cell.key for each in lost] == ["first-64"]
    assert lost[0].reasons == (Note("treatment-without-values"),)
    assert found.status == "failed"
    assert '<error message="the treatment has no values" type="no-result">' in junit(
        document_of(found)
    )


def test_more_failures_of_the_treatment_are_no_pass():
    analysis = run_of()
    section = analysis.sections[0]
    points = tuple(
        replace(p, rows=tuple(replace(r, failed=4 * (r.platform.name == "first")) for r in p.rows))
        for p in section.points
    )
    found = check(
        None, replace(analysis, sections=(replace(section, points=points),)), FIVE_PERCENT
    )
    assert outcomes(found)["first"] == {"undecided"}
    first = [each for each in found.comparisons if each.pair.treatment.platform.name == "first"]
    assert {each.reasons[0].code for each in first} == {"withheld-failures"}
    assert drawn(document_of(found)).count("undecided, more trials failed\n") == len(first)


def test_what_a_word_assumes_stands_beside_it():
    found = check(None, run_of(0.975, noise=0.012, blocks=10), FIVE_PERCENT)
    words = {each.outcome for each in found.comparisons if each.assumptions}
    assert words == {"passed"}
    shown = document_of(found)
    assert "verdicts assume that blocks are independent" in drawn(shown)
    assert any(
        "verdicts assume that blocks are independent" in text
        for each in as_json(shown)["comparisons"]
        for text in each["assumptions"]
    )


def test_a_wrong_clock_is_no_pass():
    analysis = run_of()
    section = analysis.sections[0]
    points = tuple(
        replace(
            p, rows=tuple(replace(r, clock_is_wrong=r.platform.name == "first") for r in p.rows)
        )
        for p in section.points
    )
    found = check(
        None, replace(analysis, sections=(replace(section, points=points),)), FIVE_PERCENT
    )
    assert outcomes(found) == {"first": {"undecided"}, "second": {"passed"}}
    assert Note("withheld-clock-check") in found.comparisons[0].reasons
    assert "undecided, wrong clock" in drawn(document_of(found))


@pytest.mark.parametrize(("time", "outcome"), [(1.06, "slower"), (1.045, "passed")])
def test_the_limit_of_a_time_is_that_of_its_share_of_the_baseline(time, outcome):
    analysis = run_of(time, noise=0.001)
    metric = replace(analysis.sections[0].metric, better="lower", unit="s")
    section = replace(analysis.sections[0], metric=metric)
    found = check(None, replace(analysis, sections=(section,)), FIVE_PERCENT)  # 1 / 0.95 is 1.0526
    assert outcomes(found)["first"] == {outcome}


def test_a_time_is_slower_above_one():
    analysis = run_of(1.2)
    metric = replace(analysis.sections[0].metric, better="lower", unit="s")
    section = replace(analysis.sections[0], metric=metric)
    found = check(None, replace(analysis, sections=(section,)), FIVE_PERCENT)
    assert outcomes(found) == {"first": {"slower"}, "second": {"passed"}}
    efficiency = found.comparisons[0].efficiency
    assert efficiency.estimate == pytest.approx(1 / 1.2, abs=0.02)
    assert efficiency.low < efficiency.estimate < efficiency.high


def test_junit_holds_what_xml_can():
    suite = Suite(
        "a <run> & more", 0.0, (Case("p", "x\x00\ny", "skipped", "undecided", "\x1b[31m\ud800"),)
    )
    root = ElementTree.fromstring(junit(Document(msg("Check"), (), suite=suite)))
    case = root.find("testsuite/testcase")
    assert root.find("testsuite") is not None
    assert case.get("name") == "x\ufffd y"
    skipped = case.find("skipped")
    assert skipped.get("message") == "\ufffd[31m\ufffd"
    assert skipped.text is None
    with pytest.raises(ValueError, match="no suite"):
        junit(Document(msg("Check"), ()))


def test_junit_speaks_the_language():
    text = junit(document_of(check(None, run_of(0.9), FIVE_PERCENT)), language("pt-BR"))
    assert "falha acima de uma perda de 5 %" in text
    assert 'type="slower"' in text
