"""What a table of claims says beside a judgement: on what it rests, or what left it open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from claimed_run import measured
from drawn_run import run_of
from shown import source_of as source

from vtax.messages import Note
from vtax.report.analysis import Analysis
from vtax.report.answers.claims.compute import claims
from vtax.report.answers.claims.view import VIEW
from vtax.report.renderers.json import as_json
from vtax.report.views.base import Options
from vtax.stats.checks import MINIMUM_BLOCKS
from vtax.stats.spread import BLOCKS_OF_A_SPREAD
from vtax.study.claims import OVER_BLOCKS
from vtax.study.load import load, shipped

pytestmark = pytest.mark.slow


def with_boot_of_native(analysis: Analysis) -> Analysis:
    """The run as if native had a boot of the host to itself."""
    others = [platform.name for platform in analysis.platforms if platform.name != "native"]
    boots = [{"name": "bare", "platforms": ["native"]}, {"name": "xen", "platforms": others}]
    return replace(analysis, declared={**analysis.declared, "boot": boots})


PAPERS = [name for name in shipped() if load(name).study.paper]


def test_an_inconclusive_claim_says_what_its_intervals_alone_would():
    """One interval of twenty claims that lies inside at 95 % does not after the correction."""
    check = {
        "kind": "ratio",
        "of": "near",
        "above": 1.0,
        "where": {"size": 64},
        "benchmark": "small",
    }
    tight = {**check, "above": 0.98}
    open_ = [{"id": f"n{n}", "check": [check]} for n in range(19)]
    for noise in (0.012, 0.015, 0.02, 0.025, 0.03):
        run = measured({"check": [tight]}, *open_, blocks=12, noise=noise)
        first = claims(run).claims[0]
        judgement = first.judgement
        is_corrected = (
            judgement is not None and judgement.kind == "inconclusive" and not judgement.warnings
        )
        if is_corrected and first.comparisons[0].is_inside:
            why = next(c for c in as_json(VIEW.document(source(run), Options()))["claims"])["why"]
            assert why.startswith(
                "intervals inside the range at 95\N{NO-BREAK SPACE}%; not after the correction"
            )
            assert "(claims: 20, comparisons of this one: 1)" in why
            return
    raise AssertionError("no run is inside at its own level and open after the correction")


def test_a_word_says_on_how_many_intervals_it_rests():
    for below, expected in (
        (0.75, "3 of 3 intervals inside the range"),
        (0.6, "1 of 3 intervals outside the range"),
    ):
        analysis = measured(
            {"check": [{"kind": "ratio", "of": "far", "below": below, "benchmark": "small"}]}
        )
        (found,) = as_json(VIEW.document(source(analysis), Options()))["claims"]
        assert found["why"] == expected


def test_blocks_of_a_spread_are_those_of_the_run():
    check = {
        "kind": "spread",
        "over": "blocks",
        "of": "far",
        "to": "near",
        "above": 2.0,
        "where": {"size": 64},
    }
    analysis = measured({"check": [{**check, "benchmark": "bulk"}]}, blocks=8)
    (found,) = as_json(VIEW.document(source(analysis), Options()))["claims"]
    assert found["comparisons"][0]["blocks"] == 8
    assert Note("few-blocks-for-claim", count=8, minimum=10) in found["why"]


@pytest.mark.parametrize("name", PAPERS)
def test_a_run_of_all_its_platforms_tests_every_claim_of_a_shipped_study(name):
    """ufla2010 on two hosts, folklore with the mapping that its note names; only two claims of it say why not."""
    mapped = {"firecracker": "kvm-microvm"} if name == "folklore" else {}
    source = run_of(name, 2, hosts=2) if name == "ufla2010" else run_of(name, 1)
    analysis = with_boot_of_native(source.analysis)
    untested = {
        e.claim.id: e.claim.not_tested for e in claims(analysis, mapped).claims if not e.judgement
    }
    assert set(untested) == (
        {"sandbox-open", "sandbox-read-write"} if name == "folklore" else set()
    )
    assert all(untested.values())


@pytest.mark.parametrize("name", PAPERS)
def test_a_shipped_study_has_the_blocks_that_its_claims_need(name):
    study = load(name).study
    blocks = study.design.blocks if study.design.stop == "fixed" else study.design.min_blocks
    for claim in study.claim:
        for check in claim.check:
            each = BLOCKS_OF_A_SPREAD if check.over in OVER_BLOCKS else 1
            assert blocks >= MINIMUM_BLOCKS * each, claim.id
