"""Runs that tests invent, stored or in memory. Their figures are never shown to anyone as a result.

`begin` and `fill` make `tour-1`, a run with a bit of everything. A test that needs certain figures builds its own:

    a_run().platforms("native", "docker").benchmark("iperf3", levels={"size": (64, 1500)}).values(speed).stored(store)
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from vtax.messages import Note
from vtax.report.analysis import Analysis, analyse, analyse_data
from vtax.stats.terms import role_of
from vtax.store.annotations import Annotations
from vtax.store.query import GuestRow, Measurements, RunData, Trials, WarningRow
from vtax.store.records import (
    CellRecord,
    Design,
    MetricRecord,
    OutputRecord,
    PlatformRecord,
    RunRecord,
    SessionRecord,
    TrialRecord,
)
from vtax.store.store import RunHandle, Store

PLATFORMS = (
    PlatformRecord(
        "native", {"driver": "native", "options": {}}, True, version="6.12", is_baseline=True
    ),
    PlatformRecord("docker", {"driver": "docker", "options": {}}, True, version="20.10"),
    PlatformRecord("lxc", {"driver": "lxc", "options": {}}, True, version="5.0"),
    PlatformRecord(
        "qemu-tcg",
        {"driver": "qemu", "options": {"accelerator": "tcg"}},
        True,
        marks=("emulated",),
        version="7.2",
    ),
    PlatformRecord(
        "kvm-virtio",
        {"driver": "qemu", "options": {"accelerator": "kvm"}},
        False,
        reason=Note("needs-root"),
        hint=Note("hint-sudo"),
    ),
)
METRICS = (
    MetricRecord("sysbench-cpu", "events", "events", "events/s", "higher", True),
    MetricRecord(
        "sysbench-cpu", "latency", "time of one event, 95th percentile", "ms", "lower", False
    ),
    MetricRecord("iperf3", "throughput", "throughput", "Mbit/s", "higher", True),
)
DECLARED: dict[str, Any] = {
    "name": "tour",
    "title": "What does each layer of this host cost?",
    "question": "How far are containers and virtual machines from native?",
    "baseline": "native",
    "platforms": [p.name for p in PLATFORMS],
    "guest": {"vcpus": 1, "memory": 512 * 1024**2},
    "design": {
        "stop": "fixed",
        "blocks": 8,
        "min_blocks": 5,
        "max_blocks": 30,
        "precision": 0.02,
        "trials": 2,
        "warmup": 1,
        "order": "randomized",
        "seed": None,
        "timeout": 60.0,
        "budget": None,
        "margin": 0.02,
    },
    "platform": [],
    "benchmark": [
        {
            "name": "sysbench-cpu",
            "label": None,
            "topology": None,
            "parameters": {"duration_s": 1.0},
            "factors": {},
            "link": {},
            "link_factors": {},
        },
        {
            "name": "iperf3",
            "label": None,
            "topology": None,
            "parameters": {},
            "link": {},
            "link_factors": {},
            "factors": {"direction": ["send", "receive"]},
        },
    ],
}
STARTED_AT = 1_700_000_000.0
FAILED = "iperf3: unable to connect to server"
"""What the one failed trial of the tour ended with."""
SPEED = {"native": 1.0, "docker": 0.998, "lxc": 1.001, "qemu-tcg": 0.135}
MEMORY: Mapping[str, Any] = {
    "study": "study",
    "status": "finished",
    "stopped_because": "",
    "seed": 1,
    "vtax_version": "0.1.0",
    "image_key": "4f1d0c77aa31",
    "host": {},
    "plugins": (),
    "identity": "",
    "provenance": {},
    "untested": (),
    "annotations": Annotations(),
    "started_at": 0.0,
    "ended_at": 1.0,
    "duration_s": 1.0,
}
"""A run in memory, beside its platforms, cells, metrics and trials."""


Figure: TypeAlias = Callable[[CellRecord, int, int], float | Mapping[str, float]]
"""(cell, block, number) -> the value of its primary metric, or of each metric. NaN, or none: the trial failed."""
Changes: TypeAlias = Callable[[CellRecord, int, int], Mapping[str, Any] | None]
"""(cell, block, number) -> what a trial has that is not as usual; None: it was not made."""


def platform(name: str, *marks: str) -> PlatformRecord:
    """A platform that runs here; `native` is the baseline."""
    return PlatformRecord(name, {}, True, marks=marks, is_baseline=name == "native")


class ARun:
    """A run to be: every method but the last one of a chain says more of it. Without platforms, benchmarks or
    metrics it has those of the tour."""

    def __init__(self, name: str) -> None:
        self._changes: dict[str, Any] = {"name": name}
        self._cells: list[CellRecord] = []
        self._platforms: list[PlatformRecord] = list(PLATFORMS)
        self._metrics: list[MetricRecord] = []
        self._benchmark = ""
        self._blocks = self._trials = 1
        self._hosts: Sequence[str] = ("",)
        self._warnings: tuple[WarningRow, ...] = ()
        self._guests = False
        self._end = ("finished", "")
        self._made: Changes = lambda cell, block, number: {}

    def platforms(self, *given: str | PlatformRecord) -> ARun:
        """Its platforms; of those that run here, each benchmark that is named later has cells."""
        self._platforms = [platform(one) if isinstance(one, str) else one for one in given]
        return self

    def benchmark(
        self,
        name: str,
        label: str = "",
        *,
        levels: Mapping[str, Sequence[Any]] | None = None,
        **fields: Any,
    ) -> ARun:
        """Every combination of levels on every platform.

        label: of the benchmark's table, its name if none. levels: factor -> levels. fields: others of a CellRecord.
        """
        self._benchmark, label = name, label or name
        factors = levels or {}
        of_label = () if levels and label == name else (label,)
        for one in self._platforms:
            for combination in product(*factors.values()) if one.available else ():
                point = "-".join(map(str, (*of_label, *combination)))
                named = dict(zip(factors, combination, strict=True))
                key = f"{one.name}-{point}"
                self._cells.append(
                    CellRecord(key, point, one.name, name, label, levels=named, **fields)
                )
        places = [one.name for one in self._platforms]
        self._cells.sort(key=lambda cell: places.index(cell.platform))
        return self

    def cells(self, cells: Sequence[CellRecord]) -> ARun:
        """These cells, in place of those of benchmarks."""
        self._cells = list(cells)
        return self

    def without(self, is_left_out: Callable[[CellRecord], bool]) -> ARun:
        """Without these cells of its benchmarks."""
        self._cells = [cell for cell in self._cells if not is_left_out(cell)]
        return self

    def metric(
        self, name: str, unit: str = "1/s", better: str = "higher", title: str = "", **fields: Any
    ) -> ARun:
        """A metric of the benchmark that was named last; its first one is primary."""
        is_primary = all(metric.benchmark != self._benchmark for metric in self._metrics)
        role = role_of(name, unit, better, is_primary=is_primary)
        given = {"role": role, **fields}
        self._metrics.append(
            MetricRecord(self._benchmark, name, title or name, unit, better, is_primary, **given)
        )
        return self

    def metrics(self, metrics: Sequence[MetricRecord]) -> ARun:
        """These metrics."""
        self._metrics = list(metrics)
        return self

    def design(self, **design: Any) -> ARun:
        """The whole table `[design]` of its study."""
        return self.declared(design=design)

    def declared(self, **tables: Any) -> ARun:
        """Tables of its study, which is that of the tour otherwise."""
        self._changes["declared"] = {**self._changes.get("declared", DECLARED), **tables}
        return self

    def having(self, **changes: Any) -> ARun:
        """What `begin` is given, or what a run in memory has."""
        self._changes.update(changes)
        return self

    def of_hosts(self, hosts: Sequence[str]) -> ARun:
        """In memory: a session for each of these machines, with as many blocks each."""
        self._hosts = hosts
        return self

    def warned(self, cell: str, note: Note) -> ARun:
        """In memory: with a warning of a cell, by its key."""
        place = next(n for n, one in enumerate(self._cells) if one.key == cell)
        self._warnings = (*self._warnings, WarningRow(note, place, 1))
        return self

    def with_guests(self) -> ARun:
        """In memory: with a guest of each platform in each block, ready in a second."""
        self._guests = True
        return self

    def blocks(self, blocks: int, trials: int = 1) -> ARun:
        """How many blocks, and trials of each cell in a block."""
        self._blocks, self._trials = blocks, trials
        return self

    def values(self, figure: Figure) -> ARun:
        """What is measured."""
        return self.trials(
            lambda cell, *where: {"values": self._values_of(cell, figure(cell, *where))}
        )

    def trials(self, changes: Changes) -> ARun:
        """What its trials are, `values` among it."""
        self._made = changes
        return self

    def ending(self, status: str, because: str = "") -> ARun:
        """How it ends, stored; an empty status: it does not."""
        self._end = (status, because)
        return self

    def begun(self, store: Store) -> RunHandle:
        """It is stored, without trials."""
        return begin(
            store,
            platforms=self._platforms,
            cells=self._cells or cells(),
            metrics=self._metrics or METRICS,
            **self._changes,
        )

    def stored(self, store: Store) -> RunHandle:
        """It is stored, finished."""
        run = self.begun(store)
        position = 0
        for block, cell, number in self._order(run.cells):
            changes = self._made(cell, block, number)
            if changes is not None:
                where = {"block": block, "number": number, "position": position}
                run.add_trial(trial(cell, **where, **changes))
                position += 1
        status, because = self._end
        if status:
            began_at = self._changes.get("started_at", STARTED_AT)
            run.finish(status, because, began_at + 300.0)
        return run

    def analysed(self, store: Store) -> Analysis:
        """It is stored, finished; what reports say of it."""
        return analyse(store, self.stored(store).name)

    def data(self) -> RunData:
        """It is in memory, finished, as the store gives it: trials of 2 s, one after another."""
        made = self._cells or cells()
        metrics = self._metrics or list(METRICS)
        index = {(metric.benchmark, metric.name): n for n, metric in enumerate(metrics)}
        order: list[tuple[int, int, int]] = []
        measured: list[tuple[int, int, float]] = []
        places = {cell.key: place for place, cell in enumerate(made)}
        for block, cell, number in self._order(made):
            changes = self._made(cell, block, number)
            if changes is None:
                continue
            for name, value in changes.get("values", {}).items():
                if not math.isnan(value):
                    measured.append((len(order), index[cell.benchmark, name], value))
            order.append((block, places[cell.key], number))
        block_of, place_of, number_of = np.array(order).T
        trial_of, metric = np.array([row[:2] for row in measured], np.int64).reshape(-1, 2).T
        each = np.arange(len(order))
        no = np.zeros(len(order), np.bool_)
        seconds: Any = np.full(len(order), 2.0)
        session = 1 + block_of * len(self._hosts) // self._blocks
        sessions = [
            SessionRecord(n, "", {"machine_id": host} if host else {}, 0.0)
            for n, host in enumerate(self._hosts, 1)
        ]
        run: Any = SimpleNamespace(
            **{
                **MEMORY,
                "declared": DECLARED,
                "sessions": tuple(sessions),
                "platforms": self._platforms,
                "cells": made,
                "metrics": metrics,
                **self._changes,
            }
        )
        guests = [
            GuestRow(one.name, block, "", 1.0, 0.0, {}, (), "")
            for block in range(self._blocks if self._guests else 0)
            for one in self._platforms
        ]
        return RunData(
            run,
            Trials(
                each,
                place_of,
                block_of,
                number_of,
                each,
                no,
                np.isin(each, trial_of),
                each * seconds,
                seconds,
                seconds,
                session,
            ),
            Measurements(trial_of, metric, np.array([row[2] for row in measured])),
            tuple(guests),
            self._warnings,
            (),
        )

    def analysis(self) -> Analysis:
        """It is in memory, finished; what reports say of it."""
        return analyse_data(self.data())

    def _order(self, cells: Sequence[CellRecord]) -> Iterator[tuple[int, CellRecord, int]]:
        return product(range(self._blocks), cells, range(self._trials))

    def _values_of(
        self, cell: CellRecord, figure: float | Mapping[str, float]
    ) -> Mapping[str, float]:
        if isinstance(figure, Mapping):
            return figure
        metrics = self._metrics or METRICS
        primary = next(m for m in metrics if m.benchmark == cell.benchmark and m.is_primary)
        return {primary.name: figure}


def a_run(name: str = "tour-1") -> ARun:
    """A run to be."""
    return ARun(name)


SIZES = (64, 1500)
THREE = ("native", "first", "second")
Value: TypeAlias = Callable[[str, int, int, int], float]
"""(platform, size, block, trial) -> speed; NaN: the trial failed."""


def measured(
    value: Value, blocks: int = 8, trials: int = 3, **design: Any
) -> tuple[RunData, Analysis]:
    """A run in memory of one benchmark with the factor `size` on three platforms. design: of its study."""
    run = a_run("study-1").platforms(*THREE).benchmark("tool", levels={"size": SIZES})
    run = run.metric("speed").design(**{"stop": "fixed", "precision": 0.02, **design})
    run = run.blocks(blocks, trials).with_guests()
    data = run.values(lambda cell, *where: value(cell.platform, cell.levels["size"], *where)).data()
    return data, analyse_data(data)


def noisy(between: float, within: float, seed: int = 1, drift: float = 0.0) -> Value:
    """Values of `measured` with log-normal noise: of a guest, of a trial, and a trend per block."""
    random = np.random.default_rng(seed)
    guests: dict[tuple[str, int], float] = {}

    def value(platform: str, size: int, block: int, number: int) -> float:
        guest = guests.setdefault((platform, block), float(random.normal(0, between)))
        return 100.0 * size * math.exp(guest + float(random.normal(0, within)) + drift * block)

    return value


def cells() -> list[CellRecord]:
    """Three points on every platform that is available."""
    made = []
    for platform in PLATFORMS:
        if platform.available:
            made.append(
                CellRecord(
                    f"c-{platform.name}",
                    "c",
                    platform.name,
                    "sysbench-cpu",
                    "sysbench-cpu",
                    "1.0.20",
                    parameters={"duration_s": 1.0},
                    tool="sysbench",
                )
            )
            for direction in ("send", "receive"):
                made.append(
                    CellRecord(
                        f"{direction[0]}-{platform.name}",
                        direction[0],
                        platform.name,
                        "iperf3",
                        "iperf3",
                        "3.18",
                        "point-to-point",
                        {"direction": direction},
                        {},
                        {"direction": direction},
                    )
                )
    return made


def begin(store: Store, name: str = "tour-1", **changes: Any) -> RunHandle:
    """A new run without trials."""
    given: dict[str, Any] = {
        "name": name,
        "study": "tour",
        "declared": DECLARED,
        "seed": 2**40 + 7,
        "vtax_version": "0.1.0",
        "image_key": "4f1d0c77aa31",
        "host": {"cpu": "Some CPU", "cpus": 2, "memory_bytes": 8 << 30},
        "started_at": STARTED_AT,
        "platforms": PLATFORMS,
        "cells": cells(),
        "metrics": METRICS,
        **changes,
    }
    design = Design(given.pop("platforms"), given.pop("cells"), given.pop("metrics"))
    return store.begin_run(RunRecord(**given), design)


def trial(cell: CellRecord, **changes: Any) -> TrialRecord:
    """A trial of a cell that went well."""
    metric = "events" if cell.benchmark == "sysbench-cpu" else "throughput"
    given: dict[str, Any] = {
        "cell_key": cell.key,
        "guest_id": None,
        "block": 0,
        "number": 0,
        "position": 0,
        "is_warmup": False,
        "status": "ok",
        "started_at": 1_700_000_001.0,
        "outside_s": 1.01,
        "inside_s": 1.0,
        "outputs": (OutputRecord("single", ("tool", "--run"), 0, "what it said\n", ""),),
        "values": {metric: 1000.0},
        "counters": {("guest", "ctxt"): 12.0},
    }
    return TrialRecord(**{**given, **changes})


def fill(
    run: RunHandle,
    blocks: int = 8,
    trials: int = 2,
    warmup: int = 1,
    seed: int = 1,
    *,
    finishes: bool = True,
) -> None:
    """Every trial of a run: log-normal noise, shared within a block, a factor per platform, one failed trial."""
    noise = random.Random(seed)
    position = run.next_position()
    for block in range(blocks):
        shared = noise.gauss(0, 0.02)
        for platform in PLATFORMS:
            if not platform.available:
                continue
            guest = run.begin_guest(platform.name, block, "point-to-point", 1_700_000_000.0 + block)
            for cell in (c for c in run.cells if c.platform == platform.name):
                for number in range(trials + warmup):
                    factor = SPEED[platform.name] * 2.718 ** (shared + noise.gauss(0, 0.004))
                    failed = (block, number, cell.key) == (3, warmup, "r-qemu-tcg")
                    values = (
                        {"events": 1250 * factor, "latency": 0.8 / factor}
                        if cell.benchmark == "sysbench-cpu"
                        else {"throughput": 24_000 * factor ** (1.5 if cell.point == "s" else 1)}
                    )
                    run.add_trial(
                        trial(
                            cell,
                            guest_id=guest,
                            block=block,
                            number=number,
                            position=position,
                            is_warmup=number < warmup,
                            values={} if failed else values,
                            status="failed" if failed else "ok",
                            error=FAILED if failed else "",
                            warnings=(Note("clock-skew", inside=1.1, outside=1.0),)
                            if platform.name == "qemu-tcg" and number == warmup and block == 0
                            else (),
                        )
                    )
                    position += 1
            ready = {"native": 0.06, "docker": 0.3, "lxc": 0.09, "qemu-tcg": 3.4}[platform.name]
            notes = (Note("no-memory-controller"),) if platform.name == "lxc" else ()
            run.end_guest(
                guest,
                ready_s=ready * (1 + noise.random() / 10),
                clock_offset_s=0.0,
                facts={"kernel": "6.12.1"},
                notes=notes,
            )
    if finishes:
        run.finish("finished", Note("blocks-made", count=blocks, total=blocks), 1_700_000_300.0)


def put_store(file: Path, make: Callable[..., object], *arguments: Any) -> None:
    """Write the file of a store that `make(store, *arguments)` filled, which it does once a process."""
    file.write_bytes(_store_of(make, *arguments))


@cache
def _store_of(make: Callable[..., object], *arguments: Any) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "store.sqlite"
        with Store.open(file) as store:
            make(store, *arguments)
        return file.read_bytes()


def kinds(analysis: Analysis) -> dict[tuple[str, Any], str]:
    """(platform, size) -> the word of its verdict, in runs that differ in sizes."""
    return {
        (row.platform.name, point.levels["size"]): row.verdict.kind
        for section in analysis.sections
        for point in section.points
        for row in point.rows
        if row.verdict is not None
    }
