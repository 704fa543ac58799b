"""`--scale` and `--protocol`: what they change, what they say, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.errors import BadInput
from vtax.messages import Note
from vtax.study.expand import points
from vtax.study.load import Chosen, load
from vtax.study.variants import divided

PAPERS = ("ufla2010", "santos2008", "urschei2007", "mauricio2013", "trindade2018")
STUDY = """
name = "mine"
platforms = ["native", "docker"]
[design]
blocks = 9
[[benchmark]]
name = "dd"
parameters = { cache = "cached" }
factors = { file_size = ["64MiB", "128MiB", "1GiB"] }
[[benchmark]]
name = "iperf3"
parameters = { duration_s = 10 }
[scale.quick]
blocks = 3
divide = { duration_s = 4 }
[[scale.quick.benchmark]]
label = "dd"
divide = { file_size = 16 }
levels = { file_size = ["64MiB", "1GiB"] }
[protocol.paper]
blocks = 2
trials = 4
[[protocol.paper.benchmark]]
label = "iperf3"
parameters = { direction = "receive" }
[[claim]]
id = "grows"
statement = "s"
statement_pt = "s"
source = "s"
[[claim.check]]
kind = "monotone"
of = "docker"
benchmark = "dd"
along = "file_size"
direction = "rises"
[[claim]]
id = "small"
statement = "s"
statement_pt = "s"
source = "s"
[[claim.check]]
kind = "ratio"
of = "docker@file_size=64MiB"
to = ["docker@file_size=128MiB", "docker@file_size=1GiB"]
benchmark = "dd"
below = 1
[[claim]]
id = "middle"
statement = "s"
statement_pt = "s"
source = "s"
[[claim.check]]
kind = "equivalence"
of = "docker"
benchmark = "dd"
where = { file_size = "128MiB" }
within = 0.1
"""


def written(tmp_path: Path, text: str = STUDY) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_scale_divides_what_it_names_and_keeps_some_levels(tmp_path):
    study = load(written(tmp_path), chosen=Chosen(scale="quick")).study
    dd, iperf = study.benchmark
    assert (dd.factors, iperf.parameters) == ({"file_size": ["4MiB", "64MiB"]}, {"duration_s": 2})
    assert (study.design.stop, study.design.blocks) == ("fixed", 3)
    assert list(map(str, study.changed_by)) == [
        "--scale quick: duration_s ÷ 4; dd: file_size ÷ 16, file_size 64MiB, 1GiB of 3 levels; 3 blocks"
    ]
    assert (study.scale, study.protocol) == ({}, {})


LEAVES = "--scale quick leaves out levels that it compares: file_size"
DIVIDES = "--scale quick divides levels that it compares: file_size"


def test_a_claim_about_levels_that_are_left_out_or_divided_is_not_tested(tmp_path):
    claims = load(written(tmp_path), chosen=Chosen(scale="quick")).study.claim
    assert [(claim.check, claim.not_tested) for claim in claims] == [
        ([], f"{DIVIDES} 64MiB to 4MiB, 1GiB to 64MiB"),
        (
            [],
            f"{LEAVES} 128MiB; divides levels that it compares: file_size 64MiB to 4MiB, 1GiB to 64MiB",
        ),
        ([], f"{LEAVES} 128MiB"),
    ]


def test_a_claim_that_names_no_level_is_judged_by_those_left_and_says_how_many(tmp_path):
    text = STUDY.replace("divide = { file_size = 16 }", "")
    grows, small, middle = load(written(tmp_path, text), chosen=Chosen(scale="quick")).study.claim
    assert (len(grows.check), grows.in_part) == (
        1,
        "--scale quick measures 2 of 3 levels of file_size",
    )
    assert (small.not_tested, middle.not_tested) == (f"{LEAVES} 128MiB", f"{LEAVES} 128MiB")


def test_published_numbers_of_levels_that_are_not_measured_are_left_out(tmp_path):
    table = """
[[published]]
source = "s"
benchmark = "dd"
metric = "rate"
where = { file_size = %s }
statistic = "largest_cv"
values = { native = 0.1 }
"""
    whole = STUDY.replace("divide = { file_size = 16 }", "")
    text = (
        whole + table % '"64MiB"' + table % '["64MiB", "128MiB"]' + table.replace("where", "#") % ""
    )
    kept = load(written(tmp_path, text), chosen=Chosen(scale="quick")).study.published
    assert [(each.selection.canonical, each.in_part) for each in kept] == [
        ({"file_size": {"67108864"}}, ""),
        ({}, "--scale quick measures 2 of 3 levels of file_size"),
    ]
    divided_too = STUDY + table % '"64MiB"' + table.replace("where", "#") % ""
    assert load(written(tmp_path, divided_too), chosen=Chosen(scale="quick")).study.published == []


def not_tested(scale: str) -> dict[str, str]:
    """Claim of a paper -> why a scale leaves it untested; empty where it does not."""
    studies = [load(name, chosen=Chosen(scale=scale)).study for name in PAPERS]
    return {claim.id: claim.not_tested for study in studies for claim in study.claim}


@pytest.mark.slow
def test_shipped_claims_at_levels_that_a_scale_leaves_out_or_divides_are_not_tested():
    reasons = not_tested("quick")
    for claim in (
        "dom0-mtu500-small-message",
        "domu-best-point",
        "domu-best-buffers",
        "equal-sizes-worst",
    ):
        assert reasons[claim].startswith(Note("scale-leaves", name="quick", levels=""))
    for claim in (
        "mtu-small-slower",
        "small-buffers-triple",
        "cpu-equal",
        "disk-time",
        "docker-worst-disk",
    ):
        assert reasons[claim] == ""
    for claim in ("hvm-disk-small-files", "pv-falls-to-hvm-disk", "disk-time", "docker-worst-disk"):
        divided = Note("scale-divides", name="tiny", levels="file")
        assert not_tested("tiny")[claim].startswith(divided)


def test_a_trend_along_one_level_is_not_tested(tmp_path):
    text = STUDY.replace(
        'levels = { file_size = ["64MiB", "1GiB"] }', 'levels = { file_size = ["64MiB"] }'
    )
    claims = load(written(tmp_path, text), chosen=Chosen(scale="quick")).study.claim
    assert [bool(claim.check) for claim in claims] == [False, False, False]


def test_a_protocol_has_its_own_order_repetition_and_parameters(tmp_path):
    study = load(written(tmp_path), chosen=Chosen(protocol="paper")).study
    design = study.design
    assert (design.stop, design.order, design.blocks, design.trials) == (
        "fixed",
        "sequential",
        2,
        4,
    )
    assert study.benchmark[1].parameters == {"duration_s": 10, "direction": "receive"}
    assert list(map(str, study.changed_by)) == [
        "--protocol paper: order = sequential; blocks = 2; trials = 4; iperf3: direction = receive"
    ]


def test_a_scale_of_a_protocol_has_at_most_the_blocks_of_both(tmp_path):
    study = load(written(tmp_path), chosen=Chosen("quick", "paper")).study
    assert (study.design.order, study.design.blocks, study.design.trials) == ("sequential", 2, 4)
    assert [each.option for each in study.changed_by] == ["--protocol paper", "--scale quick"]


@pytest.mark.parametrize(
    ("value", "divisor", "left"),
    [("4096MiB", 32, "128MiB"), (10, 4, 2), (1, 10, 1), (0.5, 2, 0.25), ("1KiB", 3, "341B")],
)
def test_whole_numbers_stay_whole_and_sizes_sizes(value, divisor, left):
    assert divided(value, divisor) == left


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "divide = { duration_s = 4 }",
            "divide = { events = 4 }",
            "events has no value to divide: no benchmark",
        ),
        ("divide = { duration_s = 4 }", "divide = { duration_s = 0.5 }", "a divisor is at least 1"),
        (
            "divide = { file_size = 16 }",
            "divide = { cache = 2 }",
            "cache of dd is neither a number nor a size",
        ),
        (
            "divide = { file_size = 16 }",
            "divide = { size = 2 }",
            "dd gives size no value to divide",
        ),
        ('"64MiB", "1GiB"] }\n[pro', '"65MiB"] }\n[pro', "dd has no level '65MiB' of file_size"),
        ('"64MiB", "1GiB"] }\n[pro', "] }\n[pro", "no level of file_size stays"),
        ("levels = { file_size", "levels = { sizes", "dd has no factor 'sizes'"),
        ('label = "dd"', 'label = "ddd"', "the study has no benchmark 'ddd'"),
        ('label = "iperf3"', 'label = "iperf"', "the study has no benchmark 'iperf'"),
    ],
)
def test_what_the_study_does_not_have_is_refused(tmp_path, old, new, message):
    assert old in STUDY
    with pytest.raises(BadInput, match=message):
        load(written(tmp_path, STUDY.replace(old, new)))


def test_an_unknown_scale_or_protocol_names_those_there_are(tmp_path, golden):
    with pytest.raises(BadInput) as refused:
        load(written(tmp_path), chosen=Chosen(scale="quik"))
    golden(str(refused.value), "1")
    assert (refused.value.where, refused.value.hint) == ("--scale", "known: quick")
    with pytest.raises(BadInput) as refused:
        load("tour", chosen=Chosen(protocol="paper"))
    golden(str(refused.value), "2")
    assert refused.value.hint == "it declares none: omit --protocol"


@pytest.mark.parametrize("name", PAPERS)
def test_every_study_of_a_paper_has_its_protocol_and_a_quick_form(name):
    whole, paper, quick = (
        load(name, chosen=chosen).study
        for chosen in (Chosen(), Chosen("", "paper"), Chosen("quick"))
    )
    assert paper.design.order == "sequential"
    assert len([*points(quick)]) <= len([*points(whole)]) == len([*points(paper)])
    assert [claim.id for claim in quick.claim] == [claim.id for claim in whole.claim]
    decidable = [claim for claim in quick.claim if claim.check]
    assert len(decidable) >= len(whole.claim) * 2 / 5
