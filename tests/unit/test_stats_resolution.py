"""Figures that a tool prints in steps, or that end on a timer of its client, do not make equivalence."""

import json
import pickle

import numpy as np
import pytest

from vtax.benchmarks.printed import Printed, printed
from vtax.messages import Note
from vtax.stats.claims import RangeTest, judge_claims
from vtax.stats.contrasts import ContrastSide, paired_contrast
from vtax.stats.judge import analyse, missed_of
from vtax.stats.ranges import Claimed
from vtax.stats.ratio import BlockMeans
from vtax.stats.resolution import EXACT, Figures, Resolution, is_shared, resolutions_of, timer_step
from vtax.stats.rules import RULES, FixedRule

RULE = FixedRule(blocks=10)


def contrast(treatment, baseline, resolution, better="lower"):
    """Both sides with a value a block, in figures of this resolution."""
    sides = [
        ContrastSide(BlockMeans(np.arange(len(means)), np.array(means)), resolution=resolution)
        for means in (treatment, baseline)
    ]
    return paired_contrast(*sides, better)


def judged(treatment, baseline, resolution):
    return analyse(RULE, {"a": contrast(treatment, baseline, resolution)})["a"]


def test_figures_that_a_coarse_tool_prints_alike_are_not_equivalent():
    found = judged([0.02] * 10, [0.02] * 10, Resolution(0.5))
    assert found.verdict.kind == "undecided"
    assert [note.code for note in found.verdict.warnings] == ["withheld-resolution"]
    assert (found.ratio.low, found.ratio.high) == (pytest.approx(0.5), pytest.approx(2.0))
    assert judged([0.02] * 10, [0.02] * 10, EXACT).verdict.kind == "equivalent"


def test_a_step_within_the_margin_allows_equivalence_and_bounds_the_interval():
    found = judged([100.0] * 10, [100.0] * 10, Resolution(0.01))
    assert found.verdict.kind == "equivalent"
    assert (found.ratio.low, found.ratio.high) == (pytest.approx(0.99), pytest.approx(1 / 0.99))
    assert "coarse-figures" in [note.code for note in found.ratio.warnings]


def test_a_difference_of_less_than_a_step_is_none():
    slower = [1.04 + 0.001 * (n % 2) for n in range(10)]
    assert judged(slower, [1.0] * 10, Resolution(0.01)).verdict.kind == "slower"
    assert judged(slower, [1.0] * 10, Resolution(0.05)).verdict.kind == "undecided"


def test_an_interval_that_noise_makes_wider_than_a_step_stays():
    noise = np.exp(np.random.default_rng(3).normal(0, 0.1, 10)).tolist()
    exact, coarse = (
        judged(noise, [1.0] * 10, resolution) for resolution in (EXACT, Resolution(0.01))
    )
    assert (coarse.ratio.low, coarse.ratio.high) == (exact.ratio.low, exact.ratio.high)
    assert coarse.ratio.warnings == exact.ratio.warnings


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.01, 0.03, 0.1])
@pytest.mark.parametrize("noise", [0.0, 0.002, 0.01])
def test_a_quantized_tool_gives_no_more_false_equivalents_than_alpha(step, noise):
    """True ratios just beyond the margin, of times that are rounded to a step; without a resolution up to all of
    them are equivalent."""
    draws, runs = np.random.default_rng(7), 200
    equivalent, naive, covered = 0, 0, 0
    for _ in range(runs):
        base = draws.uniform(0.9, 1.1)
        true = np.array([1.021 * base, base])
        times = np.exp(draws.normal(0, noise, (10, 2))) * true
        treatment, baseline = (np.rint(times / step) * step).T
        resolution = Resolution(step / min(treatment.mean(), baseline.mean()))
        found = judged(treatment, baseline, resolution)
        naive += judged(treatment, baseline, EXACT).verdict.kind == "equivalent"
        equivalent += found.verdict.kind == "equivalent"
        covered += found.ratio.low <= 1.021 <= found.ratio.high
    assert equivalent <= 0.05 * runs
    assert covered >= 0.93 * runs
    if (step, noise) == (0.03, 0.0):
        assert naive > 0.2 * runs


def test_no_gate_passes_by_figures_that_are_too_coarse():
    def word(resolution):
        claimed = Claimed(contrast([0.02] * 10, [0.02] * 10, resolution), 0.0, 1.05)
        return judge_claims(RULE, {"a": [RangeTest((claimed,))]})["a"].kind

    assert (word(EXACT), word(Resolution(0.5))) == ("reproduced", "inconclusive")


@pytest.mark.parametrize("stop", ["verdict", "open"])
def test_a_rule_does_not_take_it_for_decided_and_more_blocks_do_not_help(stop):
    rule = RULES[stop](blocks=30)
    coarse = {"a": contrast([0.02] * 10, [0.02] * 10, Resolution(0.5))}
    assert missed_of(rule, analyse(rule, coarse)) == {"a": False}
    assert missed_of(rule, analyse(rule, {"a": contrast([0.02] * 10, [0.02] * 10, EXACT)})) == {}


def test_times_that_end_on_a_timer_show_its_step():
    late = np.random.default_rng(2).uniform(0, 0.003, 8)
    times = np.array([1, 2, 1, 3, 2, 1, 2, 1]) * 0.25 + late
    assert timer_step(times, 0.01) == pytest.approx(0.25, rel=0.02)
    assert timer_step(times[:4], 0.01) is None


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.1, 0.5])
def test_times_of_chance_hardly_ever_show_a_timer(spread):
    draws = np.random.default_rng(5)
    times = np.exp(draws.normal(0, spread, (400, 6)))
    assert sum(timer_step(each, 0.01) is not None for each in times) <= 4


def test_a_timer_that_one_cell_shows_is_that_of_its_point():
    ticks = np.array([4.0, 5, 4, 6, 5, 4])
    cells = {
        "native": Figures(1000 / (np.zeros(6) + 2), np.zeros(6)),
        "slow": Figures(1000 / ticks, np.zeros(6)),
    }
    found = resolutions_of(cells, 0.02, is_time=False, is_rate=True)
    assert found["native"] == Resolution(pytest.approx(0.5, rel=0.01), is_timer=True)
    assert found["slow"].is_timer
    alike = judged([0.25] * 6, [0.25] * 6, found["native"])
    assert [note.code for note in alike.verdict.warnings] == ["withheld-timer"]
    assert resolutions_of(cells, 0.02, is_time=False, is_rate=False)["slow"] == EXACT


def test_a_shorter_trial_refutes_a_timer():
    """A machine that gets a half or a third of a CPU by chance looks as if it had a timer."""
    emulated = 1 / np.array([1791.3, 1821.9, 894.7, 1825.5, 598.5])
    assert timer_step(emulated, 0.01) is not None
    rates = {"emulated": 1 / emulated, "native": np.array([19.4, 20.8, 13.6, 12.7, 18.6]) * 1000}
    cells = {name: Figures(values, np.zeros(5)) for name, values in rates.items()}
    found = resolutions_of(cells, 0.02, is_time=False, is_rate=True)
    assert found == {"emulated": EXACT, "native": EXACT}


def test_a_timer_that_most_cells_do_not_end_on_is_chance():
    """Five trials of STREAM on one of six platforms looked like multiples of a step."""
    draws = np.random.default_rng(3)
    ticks = np.array([4.0, 5, 4, 6, 5])
    assert timer_step(0.25 * ticks, 0.01) is not None
    late = {str(k): draws.uniform(1.0, 1.5, 5) for k in range(5, 8)}
    cells = {"by chance": 0.25 * ticks, **late}
    figures = {name: Figures(times, np.zeros(5)) for name, times in cells.items()}
    found = resolutions_of(figures, 0.02, is_time=True, is_rate=False)
    assert set(found.values()) == {EXACT}
    on_it = {str(k): 0.25 * draws.integers(4, 7, 5) + draws.uniform(0, 0.002, 5) for k in range(3)}
    figures |= {name: Figures(times, np.zeros(5)) for name, times in on_it.items()}
    found = resolutions_of(figures, 0.02, is_time=True, is_rate=False)
    assert all(resolution.is_timer for resolution in found.values())


@pytest.mark.parametrize("spread", [0.03, 0.1, 0.4])
def test_a_table_of_chance_shows_a_timer_more_rarely_than_one_cell(spread):
    draws = np.random.default_rng(8)
    shown = 0
    for _ in range(300):
        times = np.exp(draws.normal(0, spread, (6, 5)))
        cells = {str(k): Figures(row, np.zeros(5)) for k, row in enumerate(times)}
        found = resolutions_of(cells, 0.02, is_time=True, is_rate=False)
        shown += any(resolution.is_timer for resolution in found.values())
    assert shown == 0


def test_a_cell_of_long_times_has_no_say_about_a_timer():
    ticks = np.array([4.0, 5, 4, 6, 5])
    assert is_shared(0.25, [0.25 * ticks, 100 * np.array([1.0, 1.003, 1.008, 1.013, 1.02])])
    late = 0.1 * np.array([1.0, 0, 1, 0, 1])
    assert is_shared(0.25, [0.25 * ticks, 0.25 * ticks + late])
    assert not is_shared(0.25, [0.25 * ticks, 0.25 * ticks + late, 0.25 * ticks + late])


def test_the_step_of_most_trials_is_that_of_a_cell():
    """A tool may leave out a last digit that is zero."""
    cells = {"a": Figures(np.array([1.25, 1.5, 1.27]), np.array([0.01, 0.1, 0.01]))}
    found = resolutions_of(cells, 0.02, is_time=False, is_rate=False)["a"]
    assert found.share == pytest.approx(0.008, rel=0.02)


@pytest.mark.parametrize(
    ("text", "step"),
    [("20.00", 0.01), ("7", 1.0), ("1.5e-3", 1e-4), ("2e3", 1000.0), ("-0.10", 0.01), (".5", 0.1)],
)
def test_a_number_knows_its_last_digit(text, step):
    assert printed(text) == float(text)
    assert printed(text).step == pytest.approx(step)


def test_a_printed_number_is_known_as_well_in_another_unit():
    rate = 1000 / printed("0.25")
    assert (rate, rate.step) == (4000.0, pytest.approx(160.0))
    assert ((printed("0.02") * 1000).step, (printed("20") / 1000).step) == (
        pytest.approx(10.0),
        pytest.approx(0.001),
    )
    assert not isinstance(printed("1.5") + 1, Printed)
    assert type(pickle.loads(pickle.dumps(printed("1.5")))) is float
    assert json.dumps(printed("1.5")) == "1.5"


def test_the_sentences_have_their_data():
    assert "50\N{NO-BREAK SPACE}%" in Note("withheld-timer", percent=Resolution(0.5).percent)


def test_steps_that_a_tool_prints_are_no_timer():
    cells = {"a": Figures(np.array([3.0, 4, 5, 3, 4]), np.ones(5))}
    found = resolutions_of(cells, 0.02, is_time=True, is_rate=False)["a"]
    assert found == Resolution(0.25, is_timer=False)
