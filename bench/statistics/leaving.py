"""Cells that leave once they are decided: error rates of the rules, and what the tour gains.

    python bench/statistics/leaving.py [--studies 400] [--only errors|tour|slow]

Every study is run block by block by `vtax.stats.stopping.decide` and judged by `vtax.stats.judge.analyse`, as a
run and its report do. Errors: families of six of one table, where nothing differs, or all are exactly at the margin,
until all is decided and in the time of eight even blocks, in which those out of reach leave it to others; noise that is
`unequal` is normal, of 0.2 to 5 times the SD; percent of studies with any false word, percent of
intervals that hold the truth at the end.

Slow: families of six, of which five are equal to native and one is 15 or 2.6 times slower, in the time of twelve even
blocks of which it takes 15 times that of another; what lies beyond a factor of two leaves after three blocks, by
`budget` beyond 1.5 from five on (`vtax.stats.early`). Percent of studies with any
false word, and with one that stands on the first blocks; blocks of the slow one and of the others. Noise of factors
of two and more from block to block is there to see what it takes to forge one.

The tour: costs and noise of the run in docs/examples (a guest's start, a trial; SD of the log-ratio, pooled over the
containers of a benchmark, and parts of it as of quieter hosts), containers equal to native, the emulated machine as
slow as it was, five minutes. Old: even blocks. New: what is decided leaves. Simulated from measured costs and noise.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner
from noise import Array

from vtax.cli.main import group
from vtax.report.analysis.result import judged_run
from vtax.stats.checks import StatsError
from vtax.stats.judge import Comparison, Contrast, analyse_families, chance_of_word, missed_of
from vtax.stats.judge import analyse as judge
from vtax.stats.outlook import Outlook
from vtax.stats.rules import BudgetRule, OpenRule, Rule, VerdictRule
from vtax.stats.stopping import decide, within_reach
from vtax.store.query import load
from vtax.store.store import Store

TOUR = Path(__file__).resolve().parents[2] / "docs" / "examples" / "tour.vtax.gz"
MARGIN, FAMILY = 0.02, 6
TOUR_S = 300.0
ROUND_S = 8.0 * (FAMILY + 1)  # eight even blocks of cells that take a second each
SLOW_S = 15.0  # a block of the slow one; of any other 1 s
SLOWNESS = (
    15.0,
    2.6,
)  # how many times slower the slow one is: by its CPU, by a disk that others wait for too
SLOW_TIME_S = 12 * (SLOW_S + FAMILY)
RULES = (VerdictRule(), VerdictRule(budget_s=ROUND_S), OpenRule(blocks=30))
Words = dict[str, Comparison]


def run(
    rule: Rule,
    logs: Array,
    families: dict[str, str],
    cost_s: dict[str, float],
    time_s: float = math.inf,
) -> Words:
    """What a run of these log-ratios, comparisons x blocks, would report. cost_s: of a block of each comparison."""
    names = list(families)
    seen = np.full(logs.shape, np.nan)
    spent_s, judged_by = 0.0, rule

    def contrasts(blocks: int) -> dict[str, Contrast]:
        return {name: Contrast(seen[k, :blocks], "higher") for k, name in enumerate(names)}

    for block in range(logs.shape[1] + 1):
        known = contrasts(block)
        answers: dict[str, Comparison | StatsError] = {}

        def missed_by(
            judged: Iterable[str],
            known: dict[str, Contrast] = known,
            answers: dict[str, Comparison | StatsError] = answers,
        ) -> dict[str, bool]:
            members = {name: known[name] for name in judged}
            answers.update(analyse_families(rule, members, families, {}))
            return missed_of(rule, answers)

        logs_by_name = {name: each.logs for name, each in known.items()}
        goal = decide(rule, logs_by_name, block, families, missed_by)
        if rule.budget_s and rule.leaves_settled and goal.open:
            more = int((time_s - spent_s) / _block_s(goal.open, cost_s))
            if more > 0:
                goal = within_reach(goal, _chances(rule, goal.open, answers, more))
        held = list(goal.open) or names
        spent_s += _block_s(held, cost_s)
        if spent_s > time_s and not goal.stop:
            judged_by = rule.ended_after(block)
        if goal.stop or spent_s > time_s or block == logs.shape[1]:
            break
        for k in map(names.index, held):
            seen[k, block] = logs[k, block]
    found: Words = {}
    for family in dict.fromkeys(families.values()):
        members = {
            name: each for name, each in contrasts(block).items() if families[name] == family
        }
        found |= {
            name: each
            for name, each in judge(judged_by, members).items()
            if isinstance(each, Comparison)
        }
    return found


def _block_s(held: Iterable[str], cost_s: dict[str, float]) -> float:
    """Return the time of a block of these comparisons."""
    keys = {key for name in held for key in (name, *_guests(name))}
    return sum(cost_s.get(key, 0.0) for key in keys)


def _chances(
    rule: Rule, names: Iterable[str], answers: dict[str, Comparison | StatsError], more: int
) -> dict[str, float]:
    """Return the chances of a word after so many further blocks, where they are known."""
    chances = {}
    for name in names:
        answer = answers.get(name)
        if isinstance(answer, Comparison):
            chances[name] = chance_of_word(rule, answer, "higher", more)
    return chances


def _guests(name: str) -> tuple[str, ...]:
    """What a comparison `PLATFORM BENCHMARK` needs beside its own trial: a guest, the baseline's guest and trial."""
    platform, _, benchmark = name.partition(" ")
    return f"guest {platform}", "guest native", f"native {benchmark}"


def errors(rule: Rule, sd: float, truth: float, shape: str, studies: int) -> str:
    rng = np.random.default_rng([11, int(1e4 * sd), int(1e4 * abs(truth))])
    families = {str(k): "one" for k in range(FAMILY)}
    wrong, covered, blocks = 0, 0.0, 0.0
    for _ in range(studies):
        sides = rng.standard_normal((FAMILY + 1, 30))
        if shape == "exponential":
            sides = -rng.standard_exponential((FAMILY + 1, 30))
        logs = truth + sd / math.sqrt(2) * (sides[1:] - sides[0])
        if shape == "unequal":
            logs = truth + (logs - truth) * np.geomspace(0.2, 5, FAMILY)[:, None]
        found = run(
            rule,
            logs,
            families,
            dict.fromkeys([*families, "guest native"], 1.0),
            rule.budget_s or math.inf,
        )
        false = ("slower", "faster") if truth == 0 else ("equivalent",)
        wrong += any(each.verdict.kind in false for each in found.values())
        covered += np.mean(
            [each.ratio.low <= math.exp(truth) <= each.ratio.high for each in found.values()]
        )
        blocks += np.mean([each.ratio.n_blocks for each in found.values()])
    cells = (100 * wrong / studies, 100 * covered / studies, blocks / studies)
    return (
        f"| {rule.name}{', in a time' if rule.budget_s else ''} | {shape} | {sd:.1%} | {math.exp(truth):.2f} | "
        + " | ".join(f"{x:.1f}" for x in cells)
        + " |"
    )


def slow(rule: Rule, times: float, sd: float, shape: str, studies: int) -> str:
    """Return the row of families with one platform that is so many times slower."""
    rng = np.random.default_rng([12, int(1e4 * sd), len(shape), int(10 * times)])
    families = {str(k): "one" for k in range(FAMILY)}
    costs = dict.fromkeys([*families, "guest native"], 1.0) | {"0": SLOW_S}
    truth = np.zeros((FAMILY, 1))
    truth[0] = -math.log(times)
    wrong, early, blocks_slow, blocks = 0, 0, 0.0, 0.0
    for _ in range(studies):
        sides = rng.standard_normal((FAMILY + 1, 60))
        if shape == "exponential":
            sides = -rng.standard_exponential((FAMILY + 1, 60))
        logs = truth + sd / math.sqrt(2) * (sides[1:] - sides[0])
        found = run(rule, logs, families, costs, SLOW_TIME_S)
        like = [each for name, each in found.items() if name != "0"]
        false = [each for each in like if each.verdict.kind in ("slower", "faster")]
        wrong += bool(false)
        early += any(each.is_early for each in false)
        blocks_slow += found["0"].ratio.n_blocks
        blocks += np.mean([each.ratio.n_blocks for each in like])
    shares = (100 * wrong / studies, 100 * early / studies, blocks_slow / studies, blocks / studies)
    numbers = " | ".join(f"{x:.1f}" for x in shares)
    return f"| {rule.name} | {times:g} | {shape} | {sd:.0%} | {numbers} |"


def tour() -> tuple[dict[str, str], dict[str, float], dict[str, float], dict[str, float]]:
    """(families, costs, true log-ratios, SDs) of the stored tour."""
    with tempfile.TemporaryDirectory() as directory:
        place = f"sqlite:///{directory}/store.sqlite"
        CliRunner().invoke(group, ["import", str(TOUR)], env={"VTAX_STORE": place})
        with Store.open(place, read_only=True) as store:
            data = load(store.engine, store.open_run("last"))
    cost, families, truth, noise = (
        dict[str, float](),
        dict[str, str](),
        dict[str, float](),
        defaultdict[str, list[float]](list),
    )
    ready = defaultdict[str, list[float]](list)
    for guest in data.guests:
        ready[guest.platform].append(guest.ready_s or 0.0)
    cost |= {f"guest {platform}": float(np.mean(each)) for platform, each in ready.items()}
    for index, cell in enumerate(data.run.cells):
        name = f"{cell.platform} {cell.label} {cell.levels}"
        cost[name] = float(np.nanmean(data.trials.outside_s[data.trials.cell == index]))
    for section in (s for s in judged_run(data).sections if s.metric.is_primary):
        for point in section.points:
            for row in (row for row in point.rows if row.ratio is not None):
                name = f"{row.platform.name} {section.label} {dict(point.levels)}"
                is_emulated = "emulated" in row.platform.marks
                families[name] = section.name
                truth[name] = row.ratio.mean_log if is_emulated else 0.0
                kind = f"{section.label}{' emulated' if is_emulated else ''}"
                noise[kind].append(row.ratio.se_log * math.sqrt(row.ratio.n_blocks))
    sd = {
        name: math.sqrt(
            np.mean(np.square(noise[name.split()[1] + (" emulated" if "qemu" in name else "")]))
        )
        for name in families
    }
    return families, cost, truth, sd


def print_errors(studies: int) -> None:
    print(
        "| rule | noise | SD of a block | true ratio | any false word | covers | blocks |\n|"
        + "---|" * 7
    )
    for rule in RULES:
        for shape in ("normal", "exponential", "unequal"):
            for sd, truth in (
                (0.02, 0.0),
                (0.05, 0.0),
                (0.01, -math.log1p(MARGIN)),
                (0.02, -math.log1p(MARGIN)),
            ):
                print(errors(rule, sd, truth, shape, studies), flush=True)


def print_slow(studies: int) -> None:
    print(
        "| rule | slower | noise | SD of a block | any false word | beyond doubt | blocks, slow | others |"
    )
    print("|" + "---|" * 8)
    time_s = SLOW_TIME_S
    for times in SLOWNESS:
        for shape in ("normal", "exponential"):
            for sd in (0.05, 0.2, 0.4, 0.7, 2.0):
                rule = BudgetRule(budget_s=time_s)
                print(slow(rule, times, sd, shape, studies), flush=True)
    for rule in (VerdictRule(max_blocks=60, budget_s=time_s), OpenRule(blocks=60, budget_s=time_s)):
        for sd in (0.05, 0.2, 0.7):
            print(slow(rule, SLOWNESS[0], sd, "normal", studies), flush=True)


def print_tour(studies: int) -> None:
    families, cost, truth, sd = tour()
    print("| noise | rule | decided of the tour | blocks of a comparison |\n|---|---|---|---|")
    for scale in (1.0, 0.5, 0.25, 0.1):
        for rule in (BudgetRule(budget_s=TOUR_S), VerdictRule(), OpenRule(blocks=30)):
            found, rng = list[Comparison](), np.random.default_rng(27)
            for _ in range(studies):
                logs = np.array(
                    [truth[n] + scale * sd[n] * rng.standard_normal(30) for n in families]
                )
                found += run(rule, logs, families, cost, TOUR_S).values()
            decided = sum(each.verdict.kind != "undecided" for each in found) / studies
            blocks = [each.ratio.n_blocks for each in found]
            shown = f"{decided:.1f} of {len(families)} | {min(blocks)} to {max(blocks)}"
            print(f"| {scale:g} | {rule.name} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--only", choices=("errors", "tour", "slow"))
    options = parser.parse_args()
    with patch(
        "vtax.stats.verdict.outlook", lambda *_: Outlook(None, None)
    ):  # it takes most of the time
        if options.only in (None, "errors"):
            print_errors(options.studies)
        if options.only in (None, "slow"):
            print_slow(options.studies)
        if options.only in (None, "tour"):
            print_tour(options.studies)


if __name__ == "__main__":
    main()
