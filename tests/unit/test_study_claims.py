"""Claims in study files: what is refused when a study is read, with its place and a hint; and the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.study.claim_names import unknown_name
from vtax.study.claims import side_of
from vtax.study.load import load, shipped

STUDY = """
name = "mine"
baseline = "native"
platforms = ["native", "podman"]

[[benchmark]]
name = "netperf"
parameters = {{ duration_s = 1 }}
link_factors = {{ mtu = [500, 1500] }}
factors = {{ message_size = ["1KiB", 65536] }}

[paper]
citation = "Someone, 2007"
platforms = {{ xen-pv = "Xen 3.0" }}

[[claim]]
id = "one"
statement = "It is slower."
statement_pt = "É mais lento."
source = "table 1"
{claim}
"""
CHECK = '[[claim.check]]\nkind = "ratio"\nof = "podman"\nbelow = 1\n'


def written(tmp_path: Path, claim: str, more: str = "") -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.format(claim=claim) + more)
    return path


def refusal(tmp_path: Path, claim: str, more: str = "") -> BadInput:
    with pytest.raises(BadInput) as refused:
        load(str(written(tmp_path, claim, more)))
    return refused.value


def dry_run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(group, ["run", str(path), "--dry-run", *options])


def test_a_side_is_written_as_contrast_takes_it():
    side = side_of("xen-pv@link.mtu=500, message_size=1KiB")
    assert (side.platform, dict(side.levels)) == (
        "xen-pv",
        {"link.mtu": "500", "message_size": "1KiB"},
    )


@pytest.mark.parametrize(
    "check",
    [
        'kind = "ratio"\nof = "xen-pv@link.mtu=500"\nto = "podman@message_size=1024"\nabove = 0.4\nbelow = 0.6',
        'kind = "equivalence"\nof = ["podman", "xen-pv"]\nwithin = 0.1\nwhere = { message_size = "64KiB" }',
        'kind = "rank"\nof = "podman"\nto = ["native", "xen-pv"]\nplace = "last"',
        'kind = "monotone"\nof = "podman"\nto = "native"\nalong = "message_size"\ndirection = "rises"',
        'kind = "spread"\nof = "podman"\nto = "native"\nover = "blocks"\nabove = 10',
        'kind = "interaction"\nof = "podman@link.mtu=500"\nto = "podman@link.mtu=1500"\nreference = "native"\n'
        "above = 1",
    ],
)
def test_every_kind_is_accepted(check, tmp_path):
    (claim,) = load(str(written(tmp_path, "[[claim.check]]\n" + check))).study.claim
    assert claim.check[0].kind == check.split('"')[1]


@pytest.mark.parametrize(
    ("check", "what", "where"),
    [
        (
            'of = "pdman"\nbelow = 1',
            "no platform 'pdman'; did you mean podman?",
            "[[claim]] number 1 (one), check 1",
        ),
        (
            'of = "podman"\nbelow = 1\nbenchmark = "netprf"',
            "no benchmark 'netprf'; did you mean netperf?",
            "key benchmark",
        ),
        ('of = "podman@benchmark=x"\nbelow = 1', "no benchmark 'x'", "key of"),
        ('of = "podman@mtu=500"\nbelow = 1', "no factor 'mtu'; did you mean link.mtu?", "key of"),
        ('of = "podman@link.mtu=501"\nbelow = 1', "no level of link.mtu, '501'", "key of"),
        (
            'of = "podman"\nbelow = 1\nwhere = { message_size = 2048 }',
            "no level of message_size, '2048'",
            "key where",
        ),
        (
            'of = "podman"\nbelow = 1\naverage_over = ["size"]',
            "no factor 'size'",
            "key average_over",
        ),
        (
            'of = "podman@"\nbelow = 1',
            "is not of the form PLATFORM@factor=level",
            "check number 1, of",
        ),
        ('of = "podman"', "needs above, below or both", "check number 1, above"),
        ('of = "podman"\nbelow = 1\nabove = 2', "is not below `below`", "check number 1, above"),
        (
            'of = "podman"\nbelow = 1\nwithin = 0.1',
            "within has no effect in a check of kind 'ratio'",
            "check number 1, within",
        ),
        (
            'of = "podman"\nbelo = 1',
            "unknown key 'belo'; did you mean below?",
            "check number 1, belo",
        ),
    ],
)
def test_what_a_claim_names_must_be_in_the_study(check, what, where, tmp_path):
    error = refusal(tmp_path, '[[claim.check]]\nkind = "ratio"\n' + check)
    assert what in str(error)
    assert where in str(error)
    assert "hint:" in str(error)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("equivalence", "within"),
        ("rank", "place"),
        ("monotone", "along"),
        ("spread", "over"),
        ("interaction", "reference"),
    ],
)
def test_every_kind_names_the_key_that_it_lacks(kind, missing, tmp_path):
    error = refusal(tmp_path, f'[[claim.check]]\nkind = "{kind}"\nof = "podman"\nto = "native"\n')
    assert f"a check of kind {kind!r} needs the key {missing}" in str(error)


@pytest.mark.parametrize(
    ("check", "what"),
    [
        ('over = "blocks"', "a spread over blocks needs another side"),
        ('over = "pairing"', "a spread over pairing needs another side"),
        ('over = "trials"\nto = "native"', "a spread over trials is of one side alone"),
        ('over = "pairing"\nto = "native"\nreference = "native"', "reference has no effect"),
        ('over = "trials"', "compares two trials of a block, and the design has one"),
    ],
)
def test_a_spread_has_the_sides_and_trials_that_it_compares(check, what, tmp_path):
    error = refusal(
        tmp_path, f'[[claim.check]]\nkind = "spread"\nof = "podman"\nabove = 2\n{check}\n'
    )
    assert what in str(error)


@pytest.mark.parametrize(
    ("check", "what"),
    [
        ('kind = "ratio"\nof = "podman@host=one"\nabove = 2', "is no number of a host"),
        ('kind = "rank"\nof = "podman@host=1"\nto = "native"\nplace = "last"', "cannot name hosts"),
    ],
)
def test_hosts_are_numbers_of_sides_that_are_ratios(check, what, tmp_path):
    assert what in str(refusal(tmp_path, f"[[claim.check]]\n{check}\n"))


def test_a_trend_needs_levels_that_are_numbers(tmp_path, golden):
    check = '[[claim.check]]\nkind = "monotone"\nof = "podman"\nalong = "direction"\ndirection = "rises"\nbenchmark = "i"'
    more = '[[benchmark]]\nname = "iperf3"\nlabel = "i"\nfactors = { direction = ["send", "receive"] }\n'
    golden(str(refusal(tmp_path, check, more)))


def test_a_claim_is_checked_or_says_why_not(tmp_path, golden):
    assert "no [[claim.check]], and no not_tested" in str(refusal(tmp_path, ""))
    golden(str(refusal(tmp_path, 'not_tested = "needs two runs"\n' + CHECK)))
    assert load(str(written(tmp_path, 'not_tested = "needs two runs"'))).study.claim[0].check == []


def test_two_claims_of_one_name_are_refused(tmp_path):
    again = '[[claim]]\nid = "one"\nstatement = "a"\nstatement_pt = "a"\nsource = "b"\nnot_tested = "c"\n'
    assert "two claims 'one'" in str(refusal(tmp_path, CHECK, again))


def test_published_numbers_name_what_the_study_has(tmp_path, golden):
    table = '[[published]]\nsource = "t"\nbenchmark = "{0}"\nmetric = "throughput"\nvalues = {{ {1} = 1.0 }}\n{2}'
    assert "no benchmark 'x'" in str(refusal(tmp_path, CHECK, table.format("x", "native", "")))
    assert "no platform 'lxc'" in str(refusal(tmp_path, CHECK, table.format("netperf", "lxc", "")))
    deviation = table.format("netperf", "native", "plus_minus = { podman = 1.0 }")
    golden(str(refusal(tmp_path, CHECK, deviation)), "1")
    where = table.format("netperf", "native", "where = { link.mtu = 9000 }")
    golden(str(refusal(tmp_path, CHECK, where)), "2")


def test_an_unknown_metric_is_refused_before_a_run(tmp_path):
    result = dry_run(written(tmp_path, CHECK + 'metric = "throughputt"\n'))
    assert isinstance(result.exception, BadInput)
    assert "has a metric 'throughputt'; did you mean throughput" in str(result.exception)
    side = dry_run(written(tmp_path, CHECK.replace('"podman"', '"podman@metric=speed"')))
    assert "has a metric 'speed'" in str(side.exception)


@pytest.mark.usefixtures("unmade_home")
def test_platforms_of_the_command_line_leave_claims_as_they_are(tmp_path, ordinary_user):
    result = dry_run(written(tmp_path, CHECK), "-p", "native,lxc")
    assert result.exit_code == 0, result.exception


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_claims_are_complete(name):
    study = load(name).study
    assert bool(study.claim) == (study.paper is not None)
    for claim in study.claim:
        assert claim.statement != claim.statement_pt


def test_of_many_names_that_there_are_a_few_are_shown():
    assert unknown_name("level", "x", [str(n) for n in range(9001)]).endswith(
        "0, 1, 2, 3, 4, 5, 6, 7 and 8993 more"
    )
    assert unknown_name("level", "x", ["1", "2"]).endswith("; known: 1, 2")
