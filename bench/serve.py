"""The promise: every page of `vtax serve` answers within 300 ms with 1000 runs and 1 000 000 measurements.

Fills a store with invented figures (999 runs of 500 measurements, and one of the rest), starts `vtax serve` on it,
and requests every page: once before it was ever shown, then ten times. What the worker prepares is requested until it
is there: the answer that says so counts as the page, and the time until it is there is shown beside it. CPU time is
of the server, without its worker, for each request. Exits 1 when a promise is broken.

    python bench/serve.py [--keep FILE] [--runs 1000] [--measurements 1000000]

With --watched it measures what a watcher costs a run instead, as root and with the guest image: one run of
sysbench-cpu on native, whose blocks are watched (`vtax watch`, and `vtax serve` with the stream of the run) or not,
by pairs in random order; the ratio watched / unwatched with its 95 % interval. The promise: 1.00 ± 0.005.

    sudo .venv/bin/python bench/serve.py --watched [--pairs 40] [--seconds 2]

Ctrl-C ends it with the pairs that were measured.

With --readers N it measures what N readers at once wait, of whom each asks 20 times for a page. The promise: p95 of
the page of runs 250 ms, of the large run 600 ms.

    python bench/serve.py --readers 20 [--keep FILE]

With --unread it measures how long others wait for the page while connections send requests for a report and read
nothing of the answers, in a store of 20 runs. The promise: 2 s.

    python bench/serve.py --unread [--connections 150] [--requests 20] [--seconds 20]
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path

import cleanup
from sqlalchemy import func, insert, select

from vtax.errors import BadInput, RunInterrupted
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image.build import find
from vtax.runner.begin import begin
from vtax.runner.events import Observer
from vtax.runner.plan import make_plan
from vtax.runner.session import execute
from vtax.stats.ratio import paired_ratio
from vtax.store import schema
from vtax.store.records import CellRecord, Design, MetricRecord, PlatformRecord, RunRecord
from vtax.store.store import Store
from vtax.study.load import LoadedStudy, validate

LIMIT_MS, REQUESTS = 300.0, 10
UNREAD_LIMIT_S = 2.0
READERS_LIMIT_MS = {"/": 250.0, "/runs/study-7-40": 250.0, "/runs/large-1": 600.0}
OF_A_READER = 20
SETTLE_S = 4.0
PLATFORMS, PER_RUN, BULK = 5, 500, 20_000
VTAX = [sys.executable, "-m", "vtax.cli.main"]
LARGE = "large-1"
PAGES = {
    "runs": "/",
    "runs, filtered": "/?platform=platform-3&status=finished",
    "runs, the last page": "/?page=20",
    "studies": "/studies",
    "a run": "/runs/study-7-40",
    "report": "/runs/study-7-40/report",
    "compare": "/compare?a=study-7-40&b=study-7-41",
    "history of 100 runs": "/studies/study-7",
    "csv": "/runs/study-7-40/csv",
    "the large run": f"/runs/{LARGE}",
    "report of the large run": f"/runs/{LARGE}/report",
}


def fill(url: str, runs: int, measurements: int) -> None:
    """A store with one large run, and small ones of ten studies."""
    platforms = [
        PlatformRecord(f"platform-{i}", {}, True, is_baseline=i == 0) for i in range(PLATFORMS)
    ]
    metric = MetricRecord("tool", "throughput", "throughput", "Mbit/s", "higher", True)
    with Store.open(url) as store:
        for number in range(runs):
            is_large = number == 0
            levels = 50 if is_large else 2
            cells = [
                CellRecord(
                    f"{p.name[9:]}-{i}",
                    f"{i}",
                    p.name,
                    "tool",
                    "tool",
                    levels={"size": 64 << (i % 20)},
                )
                for i in range(levels)
                for p in platforms
            ]
            trials = 10 if is_large else 5
            of_run = measurements - PER_RUN * (runs - 1) if is_large else PER_RUN
            blocks = max(of_run // (len(cells) * trials), 1)
            study = "large" if is_large else f"study-{number % 10}"
            record = RunRecord(
                name=LARGE if is_large else f"{study}-{number // 10}",
                study=study,
                declared={"title": study, "design": {"blocks": blocks, "trials": trials}},
                seed=1,
                vtax_version="0",
                image_key="none",
                host={},
                started_at=1.7e9 + number * 3600.0,
            )
            run = store.begin_run(record, Design(platforms, cells, [metric]))
            _measure(store, run.id, len(cells), blocks, trials)
            run.finish(
                "finished", f"{blocks} of {blocks} blocks are made", 1.7e9 + number * 3600.0 + 600.0
            )


def _measure(store: Store, run_id: int, cells: int, blocks: int, trials: int) -> None:
    """All trials of a run in one transaction, with log-normal noise."""
    noise = random.Random(run_id)
    with (
        store.engine.connect().execution_options(vtax_writes=True) as connection,
        connection.begin(),
    ):
        first = (connection.execute(select(func.max(schema.trial.c.id))).scalar() or 0) + 1
        metric = connection.execute(
            select(schema.metric.c.id).where(schema.metric.c.run_id == run_id)
        ).scalar()
        ids = (
            connection.execute(select(schema.cell.c.id).where(schema.cell.c.run_id == run_id))
            .scalars()
            .all()
        )
        rows, values = [], []
        for position in range(blocks * cells * trials):
            block, rest = divmod(position, cells * trials)
            cell, number = divmod(rest, trials)
            rows.append(
                {
                    "id": first + position,
                    "run_id": run_id,
                    "cell_id": ids[cell],
                    "block": block,
                    "number": number,
                    "position": position,
                    "is_warmup": False,
                    "status": "ok",
                    "started_at": 1.7e9 + position,
                    "outside_s": 1.0,
                    "inside_s": 1.0,
                    "effective": {},
                    "error": "",
                    "session": 1,
                }
            )
            value = 1000 * (1 - 0.02 * (cell % PLATFORMS)) * math.exp(noise.gauss(0, 0.01))
            values.append({"trial_id": first + position, "metric_id": metric, "value": value})
            if len(rows) == BULK:
                connection.execute(insert(schema.trial), rows)
                connection.execute(insert(schema.measurement), values)
                rows, values = [], []
        if rows:
            connection.execute(insert(schema.trial), rows)
            connection.execute(insert(schema.measurement), values)


@contextmanager
def serving(environment: dict[str, str]) -> Iterator[tuple[str, int]]:
    """(address, process) of `vtax serve` until the block ends."""
    process = subprocess.Popen(
        [*VTAX, "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip().rstrip("/")
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{address}/static/page.css", timeout=60).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait()


def requested(address: str) -> tuple[float, int]:
    """(seconds until a page is read, its status)."""
    started = time.perf_counter()
    with urllib.request.urlopen(address, timeout=120) as found:
        found.read()
        return time.perf_counter() - started, found.status


def cpu_s(pid: int) -> float:
    """CPU time of a process without its children, in seconds (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pages(url: str) -> int:
    """Time every page; 1 where one is too slow."""
    broken = 0
    with serving({**cleanup.environment(), "VTAX_STORE": url}) as (address, pid):
        print(
            f"{'page':28}{'first ms':>10}{'median ms':>11}{'max ms':>9}{'CPU ms':>8}{'prepared after s':>19}"
        )
        for name, path in PAGES.items():
            started = time.perf_counter()
            first_s, status = requested(address + path)
            waited = [first_s]
            while status == 202:
                time.sleep(0.2)
                seconds, status = requested(address + path)
                waited.append(seconds)
            prepared_s = time.perf_counter() - started if len(waited) > 1 else 0.0
            before_s = cpu_s(pid)
            again = [requested(address + path)[0] for _ in range(REQUESTS)]
            cpu_ms = (cpu_s(pid) - before_s) * 1e3 / REQUESTS
            slowest = max(*waited, *again) * 1e3
            broken += statistics.median(again) * 1e3 > LIMIT_MS or max(waited) * 1e3 > LIMIT_MS
            after = f"{prepared_s:.1f}" if prepared_s else ""
            times = f"{first_s * 1e3:10.0f}{statistics.median(again) * 1e3:11.0f}{slowest:9.0f}{cpu_ms:8.0f}"
            print(f"{name:28}{times}{after:>19}", flush=True)
        memory = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        print(
            f"peak memory of the server, without its worker: {int(memory[1]) / 1024 if memory else 0:.0f} MiB"
        )
    return 1 if broken else 0


def readers(url: str, count: int) -> int:
    """Time pages for several readers at once; 1 where one is too slow."""
    broken = 0
    with serving({**cleanup.environment(), "VTAX_STORE": url}) as (address, _):
        for path, limit_ms in READERS_LIMIT_MS.items():
            while requested(address + path)[1] == 202:
                time.sleep(0.2)

            def ask(_: int, page: str = address + path) -> list[float]:
                return [requested(page)[0] * 1e3 for _ in range(OF_A_READER)]

            with ThreadPoolExecutor(count) as pool:
                waits = sorted(chain.from_iterable(pool.map(ask, range(count))))
            p95 = waits[math.ceil(0.95 * len(waits)) - 1]
            broken += p95 > limit_ms
            median, most = statistics.median(waits), waits[-1]
            print(
                f"{path:28}{count} readers: p50 {median:.0f}, p95 {p95:.0f}, at most {most:.0f} ms",
                flush=True,
            )
    return 1 if broken else 0


def unread(url: str, connections: int, requests: int, seconds: float) -> int:
    """Time the page beside connections that do not read; 1 where it is too slow."""
    path = "/runs/study-7-1/report"
    with ExitStack() as stack:
        address, pid = stack.enter_context(serving({**cleanup.environment(), "VTAX_STORE": url}))
        while requested(address + path)[1] == 202:
            time.sleep(0.2)
        quiet_s = statistics.median(requested(f"{address}/")[0] for _ in range(REQUESTS))
        host, _, port = address.removeprefix("http://").partition(":")
        sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * requests
        begun_at, before_s = time.monotonic(), cpu_s(pid)
        for _ in range(connections):
            made = stack.enter_context(socket.create_connection((host, int(port))))
            made.sendall(sent)
        waits = []
        while time.monotonic() - begun_at < seconds:
            waits.append(requested(f"{address}/")[0])
            time.sleep(0.1)
        cpu = cpu_s(pid) - before_s
    print(
        f"{connections} connections, {requests} requests each, unread: the page in {max(waits):.2f} s at most, "
        f"{statistics.median(waits) * 1e3:.0f} ms in the median ({quiet_s * 1e3:.0f} ms before), {cpu:.1f} s of CPU"
    )
    return 1 if max(waits) > UNREAD_LIMIT_S else 0


class Toggle(Observer):
    """Starts the watchers before a guest of a watched block, and ends them before one of another."""

    def __init__(
        self, is_watched: Mapping[int, bool], environment: dict[str, str], run: str
    ) -> None:
        self._is_watched = is_watched
        self._environment = environment
        self._run = run
        self.watchers = ExitStack()

    def guest_starting(self, platform: str, block: int) -> None:
        self.watchers.close()
        if self._is_watched[block]:
            self._watch()
        time.sleep(SETTLE_S)  # a watcher is there for long; what its start costs is not meant

    def _watch(self) -> None:
        address, _ = self.watchers.enter_context(serving(self._environment))
        stream = self.watchers.enter_context(
            urllib.request.urlopen(f"{address}/runs/{self._run}/events")
        )
        stream.readline()
        process = subprocess.Popen(
            [*VTAX, "watch", self._run], env=self._environment, stdout=subprocess.PIPE
        )
        self.watchers.callback(process.wait)
        self.watchers.callback(process.terminate)
        assert process.stdout is not None
        process.stdout.readline()


def watched(pairs: int, seconds: float) -> int:
    """The ratio of watched to unwatched blocks of one run."""
    home = Home.from_environment().ensure()
    image = find(home)
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    declared = {
        "name": "watched",
        "baseline": "native",
        "platforms": ["native"],
        "design": {"blocks": 2 * pairs, "trials": 1},
        "benchmark": [{"name": "sysbench-cpu", "parameters": {"duration_s": seconds}}],
    }
    plan = make_plan(LoadedStudy(validate(declared, __file__), __file__), image=image)
    chance = random.Random(1)
    is_watched: dict[int, bool] = {}
    for pair in range(pairs):
        is_watched[2 * pair] = chance.random() < 0.5
        is_watched[2 * pair + 1] = not is_watched[2 * pair]
    with (
        cleanup.journal() as journal,
        cleanup.directory(journal) as directory,
        measuring_lock("bench/serve.py"),
    ):
        url = f"sqlite:///{directory}/store.sqlite"
        with Store.open(url) as store:
            run = begin(store, plan, vtax_version="bench")
            environment = {**cleanup.environment(), "VTAX_STORE": url, "VTAX_HOME": str(home.root)}
            toggle = Toggle(is_watched, environment, run.name)
            with toggle.watchers, suppress(RunInterrupted):
                execute(plan, run, home, toggle)
            value = {block: value for _, block, _, value, _ in run.primary_values()}
    whole = [pair for pair in range(pairs) if {2 * pair, 2 * pair + 1} <= value.keys()]
    on, off = (
        [
            value[block]
            for pair in whole
            for block in (2 * pair, 2 * pair + 1)
            if is_watched[block] is wanted
        ]
        for wanted in (True, False)
    )
    if len(whole) < 2:
        raise BadInput("fewer than two pairs of blocks were measured", hint="let it run for longer")
    found = paired_ratio(on, off)
    print(
        f"watched / unwatched, {len(whole)} pairs of blocks: {found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]"
    )
    return 0 if found.low >= 0.995 and found.high <= 1.005 else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--measurements", type=int, default=1_000_000)
    parser.add_argument(
        "--keep", type=Path, help="keep the store in this file, or use it when it is there"
    )
    parser.add_argument("--watched", action="store_true", help="measure what a watcher costs a run")
    parser.add_argument(
        "--unread", action="store_true", help="measure beside clients that do not read"
    )
    parser.add_argument("--readers", type=int, default=0, help="measure with readers at once")
    parser.add_argument("--connections", type=int, default=150)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    if arguments.watched:
        return watched(arguments.pairs, arguments.seconds or 2.0)
    with cleanup.journal() as journal, cleanup.directory(journal) as directory:
        file = arguments.keep or directory / "serve.sqlite"
        url = f"sqlite:///{file.absolute()}"
        if arguments.unread:
            fill(url, 20, 20 * PER_RUN)
            return unread(url, arguments.connections, arguments.requests, arguments.seconds or 20.0)
        if not file.exists():
            started = time.perf_counter()
            fill(url, arguments.runs, arguments.measurements)
            size = f"{file.stat().st_size / 2**20:.0f} MiB, filled in {time.perf_counter() - started:.0f} s"
            print(f"{arguments.runs} runs, {arguments.measurements} measurements, {size}")
        return readers(url, arguments.readers) if arguments.readers else pages(url)


if __name__ == "__main__":
    cleanup.run(main)
