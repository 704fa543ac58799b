"""Hostile outputs, facts and versions: through every parser and the store, and then through every view of the run."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from tool_reports import REPORTS, outcome, results_of, texts_of

from vtax.benchmarks import registry
from vtax.cli.main import group
from vtax.errors import BenchmarkError, GuestError
from vtax.guest.audit import checked
from vtax.guest.results import CommandResult
from vtax.host.home import Home
from vtax.messages import quoted
from vtax.runner.containment import Failure, contained
from vtax.runner.parsers import Parsers
from vtax.runner.plan import PlannedTrial
from vtax.runner.records import trial_record
from vtax.runner.trial import TrialResult, bounded_outputs, failed
from vtax.store.records import CellRecord, Design, MetricRecord, PlatformRecord, RunRecord
from vtax.store.store import RunHandle, Store

VIEWS = (
    ["list"],
    ["show"],
    ["show", "--all"],
    ["show", "--json"],
    ["show", "--variance", "--counters", "--audit"],
    ["show", "--variance", "--counters", "--audit", "--all", "--json"],
    ["show", "--audit", "--all"],
    ["compare", "native", "docker"],
    ["compare", "native", "docker", "--json"],
    ["export", "--format", "csv"],
    ["export", "--format", "parquet"],
    ["export", "--format", "json"],
    ["report"],
)
ROUND = 50  # attacks between two looks at every view
TOKEN = re.compile(r'"[^"]*"|[-+.\w]+')
WORDS = (
    "",
    "0",
    "0.000",
    "-1",
    "-5.5",
    "1e+e",
    "1e999",
    "1e308",
    "1e-320",
    "nan",
    "NaN",
    "-Infinity",
    "true",
    "null",
    "[]",
    "{}",
    "5",
    '"x"',
    "9" * 400,
    "9" * 5000,
    "[" * 100_000,
    "\x00",
    "1.2.3",
    "²",
    "٣",
    "1_000",
    "\x1b[2J\x1b]0;x\x07",
    "\u202egnp",
    "\udc80",
    '"\\ud800"',
    "<script>alert(1)</script>",
    "<!--<script>",
    "</style>",
    "=cmd|'/c x'!A1",
    "[bold red]x[/]",
    "[/]",
    "{{ 7 * 7 }}",
    "%s%n",
    "x" * 200_000,
    "\n" * 3000,
    ",",
    ";",
    "\u2028",
    "\ufeff",
)
FACTS = (
    "memory_visible_bytes",
    "swap_bytes",
    "limit.memory",
    "kernel",
    "cpu",
    "started.link",
    "tuning",
    "interface.eth0.mtu",
    "\x1b[1m",
    "\u202e",
    "",
    "a" * 300,
    "=1",
    "[bold]",
    "{{x}}",
)


def hostile_texts(random: Random, files: dict[str, str]) -> dict[str, str]:
    """What the programs of a trial printed, changed in some places."""
    texts = texts_of(files)
    for _ in range(random.choice((0, 1, 1, 1, 2, 5))):
        role = random.choice(sorted(texts))
        tokens = list(TOKEN.finditer(texts[role]))
        word = random.choice(WORDS)
        if random.random() < 0.1:
            texts[role] = random.choice(
                (word, texts[role] + word, texts[role] * 3, texts[role][: len(word)])
            )
        elif tokens:
            found = random.choice(tokens)
            texts[role] = texts[role][: found.start()] + word + texts[role][found.end() :]
    return texts


def hostile_facts(random: Random) -> Any:
    """What a guest says it is."""

    def value() -> Any:
        kind = random.randrange(6)
        scalars = (0, 1.5, -1, True, 2**62, 2**70, 10**400, 1e308, *WORDS)
        return (
            [random.choice(scalars) for _ in range(random.randrange(4))]
            if kind == 0
            else random.choice(scalars)
        )

    facts: dict[str, Any] = {
        random.choice((*FACTS, *WORDS)): value() for _ in range(random.randrange(8))
    }
    if random.random() < 0.05:
        return random.choice(
            ([], None, {"a": {}}, {"a": [[1]]}, {str(n): n for n in range(600)}, {"a": [0] * 2000})
        )
    return {"kernel": "6.1", **facts}


class Forum:
    """A run that takes hostile trials, in a fresh store every ROUND of them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._store: Store | None = None
        self.run: RunHandle
        self.stored = 0

    def fresh(self) -> None:
        self.close()
        for old in self._file.parent.glob("store.sqlite*"):
            old.unlink()
        self._store = Store.open(f"sqlite:///{self._file}")
        platforms = [
            PlatformRecord(name, {"driver": name}, True, is_baseline=name == "native")
            for name in PLATFORMS
        ]
        metrics = {
            (name, metric.name): MetricRecord(
                name,
                metric.name,
                metric.title,
                metric.unit,
                metric.better,
                metric.primary,
                metric.average,
                metric.fixed_work,
            )
            for name, _, _ in REPORTS
            for metric in registry.get(name).metrics
        }
        cells = [
            CellRecord(
                f"{number}-{platform}",
                str(number),
                platform,
                name,
                name,
                parameters=parameters,
                levels={"number": number},
            )
            for number, (name, parameters, _) in enumerate(REPORTS)
            for platform in PLATFORMS
        ]
        record = RunRecord(
            name="s-1",
            study="s",
            declared={"name": "s", "design": {"blocks": 3}},
            seed=1,
            vtax_version="1",
            image_key="key",
            host={"cpus": 2},
            started_at=time.time(),
        )
        self.run = self._store.begin_run(record, Design(platforms, cells, [*metrics.values()]))
        self.stored = 0

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


PLATFORMS = ("native", "docker")


class PlanCell:
    """As much of a cell as a record needs."""

    def __init__(self, key: str) -> None:
        self.key = key


def hostile_result(
    random: Random, report: tuple[str, dict[str, Any], dict[str, str]]
) -> TrialResult:
    """A trial whose tools printed hostile texts, as the runner makes it."""
    name, parameters, files = report
    texts = hostile_texts(random, files)
    results, cut = bounded_outputs(results_of(name, texts))
    failure = Failure()
    made = failed(failure)
    with contained(failure):
        made = replace(made, outcome=outcome(name, parameters, texts))
    assert not failure.traceback, failure.traceback
    warnings = tuple(map(quoted, made.outcome.warnings))
    counters = {
        ("guest", f"net.{random.choice(WORDS)[:15]}.rx_bytes"): 1.0,
        ("guest", "ctxt"): 1e18,
    }
    return replace(
        made, results=results, counters=counters, warnings=(*warnings, *cut), error=failure.error
    )


@pytest.fixture
def forum(unmade_home: Path, monkeypatch) -> Any:
    unmade_home.mkdir()
    monkeypatch.chdir(unmade_home)
    opened = Forum(Path(Home.from_environment().store_url))
    yield opened
    opened.close()


def look(views: tuple[list[str], ...] = VIEWS) -> None:
    """Every view, as a person would ask for it; none holds what a terminal would obey."""
    for arguments in views:
        result = CliRunner().invoke(group, arguments)
        if result.exception is not None and "nothing to compare" not in str(result.exception):
            raise RuntimeError(f"{' '.join(arguments)} shows nothing") from result.exception
        assert not set(result.output) & {"\x1b", "\x00", "\x07", "\u202e", "\x9b"}, arguments


def test_no_output_fact_or_version_of_a_guest_stops_the_run_or_a_view(campaign, forum):
    forum.fresh()
    for number, platform in enumerate(
        PLATFORMS * 3
    ):  # what drawing needs of memory is taken before it is measured
        result = replace(
            failed(Failure()), outcome=outcome(*REPORTS[0][:2], texts_of(REPORTS[0][2]))
        )
        ok: Any = PlanCell(f"0-{platform}")
        forum.run.add_trial(
            trial_record(PlannedTrial(ok, number // 2, number, False), number, None, result)
        )
    look()
    forum.stored = 0
    counted = {"ok": 0, "failed": 0}

    def attack(random: Random) -> None:
        if forum.stored % ROUND == 0:
            forum.fresh()
        number = forum.stored
        forum.stored += 1
        index = random.randrange(len(REPORTS))
        platform = random.choice(PLATFORMS)
        guest = forum.run.begin_guest(platform, number % 3, "", time.time())
        result = hostile_result(random, REPORTS[index])
        counted["failed" if result.error else "ok"] += 1
        cell: Any = PlanCell(f"{index}-{platform}")
        trial = PlannedTrial(cell, number % 3, number, False)
        forum.run.add_trial(trial_record(trial, number, guest, result))
        facts: Any = {}
        try:
            facts = checked(hostile_facts(random))
        except GuestError as error:
            forum.run.add_warning(quoted(str(error)))
        forum.run.end_guest(
            guest, ready_s=1.0, clock_offset_s=0.0, facts=facts, notes=[random.choice(WORDS)]
        )
        benchmark = registry.get(REPORTS[index][0])
        try:
            with Parsers([(benchmark, None)]) as parsers:
                version = parsers.version(benchmark, random.choice(WORDS) + random.choice(WORDS))
            forum.run.set_tool_version(benchmark.name, version)
        except BenchmarkError as error:
            forum.run.add_warning(quoted(str(error)))
        if number % ROUND == ROUND - 1:
            forum.run.finish("finished", random.choice(WORDS), time.time())
            look()

    made = campaign(100, attack)
    assert min(counted.values()) > made.count / 10


@pytest.mark.parametrize("word", WORDS, ids=range(len(WORDS)))
def test_a_hostile_text_everywhere_a_guest_speaks_reaches_no_terminal(word, forum):
    forum.fresh()
    for platform in PLATFORMS:
        guest = forum.run.begin_guest(platform, 0, "", time.time())
        output = CommandResult((word,), 1, word, word, 1.0, 1.0)
        result = replace(
            failed(Failure(word or "x")), results={"single": output}, warnings=(quoted(word),)
        )
        cell: Any = PlanCell(f"0-{platform}")
        forum.run.add_trial(trial_record(PlannedTrial(cell, 0, 0, False), 0, guest, result))
        forum.run.end_guest(
            guest,
            ready_s=1.0,
            clock_offset_s=0.0,
            facts=checked({word: word}),
            notes=[word],
            error=word,
        )
    forum.run.set_tool_version("dd", word)
    forum.run.finish("failed", word, time.time())
    look(VIEWS[:3] + VIEWS[6:7])
