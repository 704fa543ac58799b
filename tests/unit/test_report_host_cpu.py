"""What the host spends on a unit of work is an answer beside the speed of the same trials. Figures are invented."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

import click
import pytest
from a_run import ARun, a_run
from shown import drawn, page, result

from vtax.cli.gate import ConditionCommand, margins_of
from vtax.errors import BadInput
from vtax.report.analysis import Analysis
from vtax.report.analysis.host_cpu import cost_section
from vtax.report.analysis.next_step import next_step_of
from vtax.report.answers.gate.compute import check
from vtax.report.answers.gate.show import document_of
from vtax.report.answers.recommend.compute import recommend
from vtax.report.answers.recommend.view import document_of as recommended
from vtax.report.document import Paragraph
from vtax.report.parts.first_screen import next_line
from vtax.report.parts.sentences import answers, sentence_of
from vtax.report.renderers.format import english
from vtax.report.renderers.json import plain
from vtax.report.renderers.junit import junit
from vtax.stats.terms import Conditions
from vtax.store.records import CellRecord
from vtax.store.store import Store

SPACE = "\N{NO-BREAK SPACE}"
NOISE = (1.0, 1.001, 0.999, 1.002, 0.998, 1.0)
WILD = (1.0, 1.3, 0.8, 1.2, 0.75, 1.0)


def web(cpu: Mapping[str, Sequence[float]], speed: Mapping[str, Sequence[float]]) -> ARun:
    """nginx on native and on what cpu names. cpu, speed: of each block, relative to native's."""

    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        return {
            "requests": 1000.0 * speed.get(cell.platform, NOISE)[block],
            "host_cpu_per_request": 20.0 * cpu.get(cell.platform, NOISE[::-1])[block],
        }

    run = a_run("web-1").platforms("native", *cpu).benchmark("nginx")
    run = run.metric("requests", "requests/s").metric("host_cpu_per_request", "µs/request", "lower")
    return run.blocks(6).values(values)


def times(factor: float, noise: Sequence[float] = NOISE) -> list[float]:
    return [factor * each for each in noise]


@pytest.fixture
def found(store: Store) -> Analysis:
    """docker costs a quarter more at a speed that is not known; podman costs the same at the same speed."""
    cpu = {"docker": times(1.25), "podman": times(1.001), "lxc": times(1.0, WILD)}
    return web(cpu, {"docker": WILD}).analysed(store)


def words(analysis: Analysis) -> dict[str, list[str | None]]:
    """Name of a metric -> the verdicts on its platforms."""
    verdicts: dict[str, list[str | None]] = {}
    for section in analysis.answered:
        rows = [row for row in section.rows if not row.platform.is_baseline]
        verdicts[section.metric.name] = [row.verdict.kind if row.verdict else None for row in rows]
    return verdicts


def test_a_cost_is_judged_in_a_family_of_its_own(found):
    assert words(found) == {
        "requests": ["undecided", "equivalent", "equivalent"],
        "host_cpu_per_request": ["costs-more", "equal-cost", "undecided"],
    }
    (cost,) = found.costs
    assert cost.family == found.primary[0].family == 3
    assert cost_section(found.primary[0], found) is cost


def test_the_sentence_says_cost_and_speed(found):
    said = {each.platform: english(each.text) for each in answers(found)}
    assert said["docker"].startswith(
        f"at least 24{SPACE}% more CPU per request; no difference in speed found; a slowdown of up to "
    )
    assert said["docker"].endswith(" cannot be excluded")
    assert said["podman"] == (f"equivalent within ±2{SPACE}%; equal CPU within ±2{SPACE}%")
    assert said["lxc"].startswith(f"equivalent within ±2{SPACE}%; up to ")
    assert said["lxc"].endswith("% more CPU cannot be excluded")
    assert english(sentence_of(found)).startswith(f"docker: at least 24{SPACE}% more CPU")


@pytest.mark.parametrize("width", [80, 100])
def test_a_cell_of_the_matrix_has_the_cost_below_its_speed_where_platforms_go_down(found, width):
    lines = [" ".join(line.split()) for line in drawn(result(found), width).splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("docker 9"))
    assert lines[at + 1] == "CPU 125 % ≥ 24 % more"


@pytest.mark.parametrize("width", [80, 100])
def test_a_cell_of_the_matrix_has_the_cost_below_its_speed_where_benchmarks_go_down(store, width):
    def values(cell: CellRecord, block: int, number: int) -> dict[str, float]:
        cost = 25.0 if cell.platform == "docker" else 20.0
        return {"requests": 1000.0 * NOISE[block], "host_cpu_per_request": cost * NOISE[-block]}

    run = a_run("sizes-1").platforms("native", "docker")
    run = run.benchmark("nginx", levels={"size": [1, 2]}).metric("requests", "requests/s")
    run = run.metric("host_cpu_per_request", "µs/request", "lower").blocks(6).values(values)
    text = drawn(result(run.analysed(store)), width)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    at = next(n for n, line in enumerate(lines) if line.startswith("nginx size=1"))
    assert lines[at + 1] == "CPU 125.0 % ≥ 25 % more"
    assert lines[at + 2].startswith("nginx size=2")


def test_a_report_has_the_cost_below_its_speed_and_in_the_table_of_that(found):
    text = page(found)
    assert 'id="result-1"' not in text
    (row,) = (row for row in text.split("<tr") if "host CPU per request" in row and "kept" in row)
    assert 'href="#result-0"' in row
    shown = re.sub("<[^>]*>", " ", row.partition("</tr>")[0])
    assert re.search(r"at least 24\s% more", shown)
    assert "slower" not in shown
    chapter = text[text.index('id="result-0"') :]
    assert "host CPU, percent" in chapter[: chapter.index("</table>")]


def test_what_is_left_undecided_counts_costs_too(found):
    step = next_step_of(found)
    assert step is not None
    names = {each.section.metric.name for each in (*step.decides, *step.left)}
    assert names == {"requests", "host_cpu_per_request"}


@pytest.mark.parametrize(("cpu", "has_costs"), [(WILD, True), (NOISE, False)])
def test_the_next_step_says_that_its_count_has_costs_too(store, cpu, has_costs):
    """Where comparisons are named, their names say what they are; a count says it with host CPU."""
    names = ("docker", "podman", "lxc", "nspawn")
    run = web(dict.fromkeys(names, cpu), dict.fromkeys(names, WILD))
    analysis = run.analysed(store)
    (line,) = next_line(analysis, next_step_of(analysis))
    assert isinstance(line, Paragraph)
    text = english(line.text)
    assert ("comparisons, host CPU included" in text) == has_costs


def test_a_run_that_counted_no_host_cpu_answers_as_before(store):
    run = a_run("plain-1").platforms("native", "docker").benchmark("nginx").metric("requests")
    plain = run.blocks(6).values(lambda cell, block, _: 1000.0 * NOISE[block]).analysed(store)
    assert plain.costs == ()
    assert "host CPU" not in drawn(result(plain), 100)
    assert english(sentence_of(plain)) == f"docker: equivalent within ±2{SPACE}%."


@pytest.fixture
def filtered(store: Store) -> Analysis:
    """docker costs a quarter more at the speed of native."""
    return web({"docker": times(1.25)}, {}).analysed(store)


@pytest.mark.parametrize(
    ("margins", "outcomes", "status"),
    [
        ({"speed": 0.05, "cost": 0.05}, {"speed": "passed", "cost": "costs-more"}, "failed"),
        ({"speed": 0.05}, {"speed": "passed"}, "passed"),
        ({"cost": 0.3}, {"cost": "passed"}, "passed"),
        ({"speed": 0.05, "cost": 0.3}, {"speed": "passed", "cost": "passed"}, "passed"),
    ],
)
def test_a_gate_judges_speed_and_cost_unless_told_otherwise(filtered, margins, outcomes, status):
    found = check(None, filtered, Conditions(margins))
    assert {each.quantity: each.outcome for each in found.comparisons} == outcomes
    assert (found.status, found.exit_status) == (status, int(status == "failed"))
    assert found.margins == margins


def test_a_gate_says_which_of_both_it_fails_by(filtered):
    document = document_of(check(None, filtered, Conditions({"speed": 0.05, "cost": 0.05})))
    said = " ".join(drawn(document, 200).split())
    assert "fails above a loss of 5 % or above 5 % more in cost" in said
    assert "The check failed: 1 comparison costs more, above 5 % more in cost: docker" in said
    assert "· 1 comparison has a loss of at most 5 %" in said
    suite = ElementTree.fromstring(junit(document)).find("testsuite")
    assert suite is not None
    named = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert (named["slower-by"], named["costs-more-by"]) == ("5 %", "5 %")
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "costs-more"
    values = plain(document.data)
    assert [each["role"] for each in values["comparisons"]] == ["speed", "cost"]
    assert values["margins"] == {"speed": 0.05, "cost": 0.05}


def test_a_gate_of_cost_needs_a_cost_and_one_of_a_size_has_no_meaning(store):
    run = a_run("plain-1").platforms("native", "docker").benchmark("nginx").metric("requests")
    run = run.metric("packet_bytes", "bytes")
    plain_run = run.blocks(6).values(
        lambda cell, block, _: {"requests": 1000.0 * NOISE[block], "packet_bytes": 100.0}
    )
    found = plain_run.analysed(store)
    with pytest.raises(BadInput, match="counted no host CPU"):
        check(None, found, Conditions({"cost": 0.05}))
    with pytest.raises(BadInput, match="packet_bytes is a size"):
        check(None, found, Conditions(), metric="packet_bytes")
    assert check(None, found, Conditions()).margins == {"speed": 0.02}


@pytest.mark.parametrize(
    ("texts", "margins"),
    [
        (("5%",), {"speed": 0.05, "cost": 0.05}),
        (("slower-by 5%",), {"speed": 0.05}),
        (("costs-more-by=10%",), {"cost": 0.1}),
        (("slower-by 5%", "costs-more-by 10%"), {"speed": 0.05, "cost": 0.1}),
        (("slower-by 5%, costs-more-by 10%",), {"speed": 0.05, "cost": 0.1}),
        ((), None),
    ],
)
@pytest.mark.parametrize("option", ["--fail-if", "--check"])
def test_a_condition_is_spelled_alike_in_both_commands(texts, margins, option):
    context = click.Context(click.Command("any"))
    assert margins_of(context, click.Option([option]), texts) == margins


@pytest.mark.parametrize("texts", [("faster-by 5%",), ("slower-by",), ("5%", "slower-by 5%")])
def test_a_condition_that_is_none_or_is_given_twice_is_refused(texts):
    with pytest.raises(BadInput):
        margins_of(click.Context(click.Command("any")), click.Option(["--check"]), texts)


def test_two_words_of_a_condition_are_one_and_may_be_repeated():
    given = []

    @click.command(cls=ConditionCommand)
    @click.option("--check", multiple=True)
    @click.option("--strict", is_flag=True)
    def command(check: tuple[str, ...], strict: bool) -> None:
        given.extend([*check, strict])

    words = ["--check", "slower-by", "5%", "--check", "costs-more-by", "10%", "--strict"]
    command.main(words, standalone_mode=False)
    assert given == ["slower-by 5%", "costs-more-by 10%", True]


def test_a_recommendation_says_what_each_costs_and_ranks_by_speed_alone(found):
    ranked = recommend(found)
    assert set(ranked.host_cpu) == {"docker", "podman", "lxc"}
    assert ranked.host_cpu["docker"].estimate == pytest.approx(1.25, abs=0.01)
    assert [each.name for each in ranked.resources if each.weight] == ["application"]
    said = " ".join(drawn(recommended(ranked), 200).split())
    assert "host CPU for the same work, percent of native: " in said
    assert re.search(r"docker 125\.0 % \[1", said)
    weighed = recommend(found, {"host-cpu": 1.0})
    assert "for the same work, percent" not in drawn(recommended(weighed), 400)
