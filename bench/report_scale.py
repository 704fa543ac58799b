"""The promise: a run of 1 000 000 measurements in 500 cells is shown in at most 2.5 s and reported in at most 6 s,
1 GiB and 5 MB of HTML.

Fills a store with invented figures (in bulk, as a run of weeks would fill it trial by trial), then times `vtax show`,
`vtax report` in every format, opening the store, and adding a trial. Each command runs in a process of its own, with
its peak memory. Exits 1 when a promise is broken.
Usage: python bench/report_scale.py [--keep FILE] [--measurements N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import cleanup
from usage import usage_of

CELLS_PER_PLATFORM, PLATFORMS, METRICS = 50, 10, 4
LIMIT_S, SHOW_LIMIT_S, LIMIT_MIB = 6.0, 2.5, 1024
HTML_LIMIT_MB = 5.0
OPEN_LIMIT_MS, TRIAL_LIMIT_MS = 30.0, 5.0
BULK = 20_000


def declared(blocks: int, trials: int) -> dict[str, object]:
    """The study of the run."""
    platforms = [f"platform-{number}" for number in range(PLATFORMS)]
    return {
        "name": "scale",
        "baseline": platforms[0],
        "platforms": platforms,
        "design": {"blocks": blocks, "trials": trials},
        "benchmark": [{"name": "tool"}],
    }


def fill(url: str, measurements: int) -> tuple[int, int]:
    """A store with one run; returns (cells, measurements)."""
    import numpy as np
    from sqlalchemy import insert

    from vtax.store import schema
    from vtax.store.records import CellRecord, Design, MetricRecord, PlatformRecord, RunRecord
    from vtax.store.store import Store

    platforms = [
        PlatformRecord(f"platform-{i}", {}, True, is_baseline=i == 0) for i in range(PLATFORMS)
    ]
    cells = [
        CellRecord(
            f"{p.name[9:]}-{i}",
            f"{i}",
            p.name,
            "tool",
            f"tool-{i // 10}",
            "1.0",
            levels={"size": 64 << (i % 10)},
        )
        for i in range(CELLS_PER_PLATFORM)
        for p in platforms
    ]
    metrics = [
        MetricRecord("tool", f"m{i}", f"metric {i}", "Mbit/s", "higher", i == 0)
        for i in range(METRICS)
    ]
    per_cell = measurements // (len(cells) * METRICS)
    trials = 10
    blocks = max(1, per_cell // trials)
    store = Store.open(url)
    record = RunRecord(
        name="scale-1",
        study="scale",
        declared=declared(blocks, trials),
        seed=1,
        vtax_version="0",
        image_key="none",
        host={},
        started_at=0.0,
    )
    run = store.begin_run(record, Design(platforms, cells, metrics))
    random = np.random.default_rng(1)
    position = 0
    with (
        store.engine.connect().execution_options(vtax_writes=True) as connection,
        connection.begin(),
    ):
        for block in range(blocks):
            rows, values = [], []
            for index in range(len(cells)):
                level = (1000 + index // PLATFORMS * 50) * (1 - 0.02 * (index % PLATFORMS))
                for number in range(trials):
                    position += 1
                    rows.append(
                        {
                            "id": position,
                            "run_id": run.id,
                            "cell_id": index + 1,
                            "block": block,
                            "number": number,
                            "position": position,
                            "is_warmup": False,
                            "status": "ok",
                            "started_at": float(position),
                            "outside_s": 1.0,
                            "inside_s": 1.0,
                            "effective": {},
                            "error": "",
                        }
                    )
                    noise = random.normal(1, 0.01, METRICS)
                    values += [
                        {"trial_id": position, "metric_id": m + 1, "value": level * float(noise[m])}
                        for m in range(METRICS)
                    ]
            connection.execute(insert(schema.trial), rows)
            for start in range(0, len(values), BULK):
                connection.execute(insert(schema.measurement), values[start : start + BULK])
    run.finish("finished", f"{blocks} blocks", 1e6)
    store.close()
    return len(cells), blocks * trials * len(cells) * METRICS


def open_ms(url: str) -> float:
    """Median time to open an up-to-date store, imports left out."""
    from vtax.store.store import Store

    times = []
    for _ in range(21):
        started = time.perf_counter()
        Store.open(url).close()
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


def trial_ms(directory: Path) -> float:
    """Median time of add_trial with 20 kB of output, 60 counters and 4 values, each trial on disk."""
    from vtax.store.records import (
        CellRecord,
        Design,
        MetricRecord,
        OutputRecord,
        PlatformRecord,
        RunRecord,
        TrialRecord,
    )
    from vtax.store.store import Store

    store = Store.open(f"sqlite:///{directory / 'trials.sqlite'}")
    record = RunRecord(
        name="t-1",
        study="t",
        declared={},
        seed=1,
        vtax_version="0",
        image_key="",
        host={},
        started_at=0.0,
    )
    design = Design(
        [PlatformRecord("native", {}, True, is_baseline=True)],
        [CellRecord("k", "p", "native", "tool", "tool")],
        [MetricRecord("tool", f"m{i}", "", "s", "lower", i == 0) for i in range(4)],
    )
    run = store.begin_run(record, design)
    run.reopen()  # its time is kept with every trial
    message = "".join(
        f"line {i} of what a tool printed, with figures {i * 7919 % 10007}\n" for i in range(400)
    )
    outputs = (OutputRecord("single", ("t",), 0, message, ""),)
    times = []
    for number in range(301):
        trial = TrialRecord(
            "k",
            None,
            0,
            number,
            number,
            False,
            "ok",
            1.0,
            1.0,
            1.0,
            {},
            "",
            outputs,
            {f"m{i}": 1.0 + i for i in range(4)},
            {("guest", f"counter {i}"): float(i) for i in range(60)},
        )
        started = time.perf_counter()
        run.add_trial(trial)
        times.append(time.perf_counter() - started)
    store.close()
    return statistics.median(times) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measurements", type=int, default=1_000_000)
    parser.add_argument(
        "--keep", type=Path, help="keep the store in this file, or use it when it is there"
    )
    arguments = parser.parse_args()
    broken = []

    def message(what: str, value: float, unit: str, limit: float) -> None:
        print(f"{what:36} {value:9.2f} {unit:4} (at most {limit:g})")
        if value > limit:
            broken.append(what)

    with cleanup.journal() as journal, cleanup.directory(journal) as directory:
        file = arguments.keep or directory / "scale.sqlite"
        url = f"sqlite:///{file.absolute()}"
        if not file.exists():
            started = time.perf_counter()
            cells, measurements = fill(url, arguments.measurements)
            print(
                f"{measurements} measurements in {cells} cells, {file.stat().st_size / 2**20:.0f} MiB, filled in "
                f"{time.perf_counter() - started:.0f} s"
            )
        vtax = [sys.executable, "-m", "vtax.cli.main"]
        page = directory / "out.html"
        commands = {
            "show": [*vtax, "show"],
            "show --json": [*vtax, "show", "--json"],
            "report": [*vtax, "report", "--output", str(page)],
        } | {
            f"export {kind}": [
                *vtax,
                "export",
                "--format",
                kind,
                "--output",
                str(directory / f"out.{kind}"),
            ]
            for kind in ("json", "csv", "parquet")
        }
        for what, argv in commands.items():
            seconds, cpu_s, peak = usage_of(argv, VTAX_STORE=url)
            message(
                f"{what} ({cpu_s:.1f} s of CPU)",
                seconds,
                "s",
                SHOW_LIMIT_S if what.startswith("show") else LIMIT_S,
            )
            message(f"{what}, peak memory", peak, "MiB", LIMIT_MIB)
        for path in sorted(directory.glob("out.*")):
            print(f"{path.name:36} {path.stat().st_size / 2**20:9.2f} MiB")
        message("HTML", page.stat().st_size / 1e6, "MB", HTML_LIMIT_MB)
        message("open the store", open_ms(url), "ms", OPEN_LIMIT_MS)
        message("add a trial", trial_ms(directory), "ms", TRIAL_LIMIT_MS)
    return 1 if broken else 0


if __name__ == "__main__":
    cleanup.run(main)
