"""The bundles of a whole campaign into one store, and the report over them: duration, and the most memory.

    .venv/bin/python bench/campaign_load.py [--hosts 500] [--sessions 5] [--measurements 4000] [--store URL]

Promised (docs/promises.md): 500 hosts × 5 sessions of 4000 measurements, 10 000 000, are loaded by `vtax campaign
load` in at most 10 min; `vtax campaign report` then takes at most 8 s of CPU time and 600 MiB in the terminal, 20 s
and 1 GiB as HTML, also right after a further session of one host was loaded. The bundles have invented figures of
1000 trials of 4 metrics, no outputs and no counters. Exits 1 when it is broken at this size.

With --keep DIR, campaign and store stay in this directory, and where they are there, only the reports are made.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cleanup
from usage import usage_of

from vtax import __version__
from vtax.campaign.host_runs import TAG
from vtax.campaign.pack import write_members
from vtax.campaign.prepare import IMAGE, WHEELS, Manifest
from vtax.campaign.settings import Settings
from vtax.store.bundle import write_bundle
from vtax.store.hosts import IMAGE_DIGEST
from vtax.store.records import CellRecord, Design, MetricRecord, PlatformRecord, RunRecord
from vtax.store.store import Store
from vtax.store.transfer import Row, rows_of
from vtax.study.load import load_smaller

LOAD_S, LOAD_MIB = 600, 2048
TERMINAL_S, TERMINAL_MIB = 8, 600
HTML_S, HTML_MIB = 20, 1024
DIGEST, NAME = "ab" * 32, "scale-1a2b"
PLATFORMS, POINTS, METRICS, TRIALS = 2, 5, 4, 10
DAY_S, START = 86_400.0, 1_700_000_000.0
STUDY = f"""name = "scale"
platforms = ["native", "docker"]
[design]
stop = "fixed"
blocks = 10
trials = {TRIALS}
[[benchmark]]
name = "sysbench-cpu"
"""


def campaign(root: Path, sessions: int) -> Path:
    """Make a campaign without an inventory below a directory."""
    directory = root / "campaign"
    (directory / "study").mkdir(parents=True)
    (directory / "study/scale.toml").write_text(STUDY)
    study = directory / "study/scale.toml"
    manifest = Manifest(__version__, "", "study/scale.toml", "none", DIGEST, {}, {})
    members = dict.fromkeys(("study/scale.toml", IMAGE, WHEELS), study)
    write_members(directory / "pack.vtax-pack", manifest, members)
    Settings(
        name=NAME,
        study="scale.toml",
        study_name="scale",
        pack_digest=DIGEST,
        image_key="none",
        image_digest=DIGEST,
        vtax_version=__version__,
        created_at=0.0,
        sessions=sessions,
    ).write(directory / "campaign.toml")
    return directory


def template(study: Path, file: Path) -> list[Row]:
    """Return the rows of a session before its trials."""
    names = ("native", "docker")
    platforms = [
        PlatformRecord(each, {"driver": each, "options": {}}, True, is_baseline=each == "native")
        for each in names
    ]
    cells = [
        CellRecord(
            f"{each}-{point}", f"{point}", each, "tool", "tool", "1.0", levels={"size": 64 << point}
        )
        for point in range(POINTS)
        for each in names
    ]
    metrics = [
        MetricRecord("tool", f"m{i}", f"metric {i}", "MB/s", "higher", i == 0)
        for i in range(METRICS)
    ]
    with Store.open(file) as store:
        record = RunRecord(
            name="scale-1",
            study="scale",
            declared=load_smaller(str(study), "", 0).study.declared(),
            seed=1,
            vtax_version=__version__,
            image_key="none",
            host={},
            started_at=START,
            boot_id="b",
        )
        run = store.begin_run(record, Design(platforms, cells, metrics))
        run.finish("finished", "10 blocks", START + 600.0)
        with store.engine.connect() as connection:
            return list(rows_of(connection, run.id))


def rows(begun: list[Row], host: int, session: int, measurements: int) -> Iterator[Row]:
    """Yield the rows of a session of a host: hosts vary by 3 %, sessions by 1 %, trials by 1 %."""
    draw = random.Random(host * 1000 + session)
    speed = random.Random(host).gauss(1, 0.03) * draw.gauss(1, 0.01)
    facts = {
        "machine_id": f"{host:012x}",
        "hardware_id": f"{host:012x}",
        IMAGE_DIGEST: DIGEST,
        "kernel": "6.1",
        "cpu_model": f"CPU {host % 3}",
    }
    started = START + session * DAY_S + host
    changes: Mapping[str, dict[str, Any]] = {
        "run": {
            "identity": f"{draw.getrandbits(128):032x}",
            "host": facts,
            "tags": [f"{TAG}{NAME}-s{session}"],
            "started_at": started,
            "ended_at": started + 600.0,
            "active_s": 600.0,
        },
        "session": {"host": facts, "boot_id": f"{host}-{session}", "started_at": started},
    }
    for table, row in begun:
        yield table, {**row, **changes.get(table, {})}
    cells = PLATFORMS * POINTS
    trials = measurements // METRICS
    for number in range(trials):
        block, within = divmod(number, cells * TRIALS)
        yield (
            "trial",
            {
                "cell_id": within // TRIALS + 1,
                "guest_id": None,
                "block": block,
                "number": within % TRIALS,
                "position": number,
                "is_warmup": False,
                "status": "ok",
                "started_at": started + number * 0.5,
                "outside_s": 0.4,
                "inside_s": 0.4,
                "effective": {},
                "error": "",
                "session": 1,
            },
        )
    for number in range(trials):
        cell = number % (cells * TRIALS) // TRIALS
        level = (1000 + 50 * (cell // PLATFORMS)) * (1 - 0.02 * (cell % PLATFORMS)) * speed
        for metric in range(METRICS):
            value = level * draw.gauss(1, 0.01)
            yield "measurement", {"trial_id": number + 1, "metric_id": metric + 1, "value": value}


def measured(arguments: list[str], home: Path, url: str) -> tuple[float, float, float]:
    """(seconds, CPU seconds, peak MiB) of `vtax` with these arguments."""
    return usage_of([sys.executable, "-m", "vtax", *arguments], VTAX_HOME=str(home), VTAX_STORE=url)


class Limits:
    """Prints what commands took, and keeps which of them took more than it may."""

    def __init__(self, home: Path, url: str) -> None:
        self._home = home
        self._url = url
        self.broken: list[str] = []

    def load(self, what: str, campaign: Path, bundles: Path) -> None:
        """Load bundles."""
        took = measured(["campaign", "load", str(campaign), str(bundles)], self._home, self._url)
        self._judge(what, took, took[0], LOAD_S, LOAD_MIB)

    def report(self, what: str, campaign: Path) -> None:
        """Make the report of a campaign in the terminal, and as HTML."""
        command = ["campaign", "report", str(campaign)]
        took = measured(command, self._home, self._url)
        self._judge(f"{what}, terminal", took, took[1], TERMINAL_S, TERMINAL_MIB)
        page = self._home / "report.html"
        page.unlink(missing_ok=True)
        took = measured([*command, "-o", str(page)], self._home, self._url)
        self._judge(f"{what}, HTML", took, took[1], HTML_S, HTML_MIB)

    def _judge(
        self,
        what: str,
        took: tuple[float, float, float],
        seconds: float,
        most_s: int,
        most_mib: int,
    ) -> None:
        wall_s, cpu_s, peak_mib = took
        print(
            f"{what:32} {wall_s:7.1f} s, {cpu_s:.1f} s of CPU (at most {most_s}), "
            f"{peak_mib:.0f} MiB (at most {most_mib})",
            flush=True,
        )
        if seconds > most_s or peak_mib > most_mib:
            self.broken.append(what)


def write_bundles(root: Path, directory: Path, given: argparse.Namespace) -> None:
    """Write the bundles of all sessions, and one more of the first host."""
    begun = template(directory / "study/scale.toml", root / "template.sqlite")
    sessions = [(host, n) for host in range(given.hosts) for n in range(1, given.sessions + 1)]
    for host, session in [*sessions, (0, given.sessions + 1)]:
        target = root / ("more" if session > given.sessions else "bundles")
        target.mkdir(exist_ok=True)
        write_bundle(
            target / f"h{host:04}-{NAME}-s{session}.vtax.gz",
            rows(begun, host, session, given.measurements),
        )


def main() -> int:
    """Load and report, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--measurements", type=int, default=4000, help="of a session")
    parser.add_argument("--store", metavar="URL", help="an empty database; SQLite if not given")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep campaign and store here")
    given = parser.parse_args()
    with ExitStack() as stack:
        root = given.keep or stack.enter_context(
            cleanup.directory(stack.enter_context(cleanup.journal()))
        )
        directory = root / "campaign"
        limits = Limits(root, given.store or f"sqlite:///{root / 'store.sqlite'}")
        if not directory.exists():
            campaign(root, given.sessions)
            write_bundles(root, directory, given)
            count = given.hosts * given.sessions * given.measurements
            print(
                f"{given.hosts} hosts × {given.sessions} sessions, {count} measurements", flush=True
            )
            limits.load("load", directory, root / "bundles")
            limits.load("load again, nothing new", directory, root / "bundles")
            limits.report("report", directory)
            limits.load("load of one more", directory, root / "more")
        limits.report("report", directory)
    return 1 if limits.broken else 0


if __name__ == "__main__":
    cleanup.run(main)
