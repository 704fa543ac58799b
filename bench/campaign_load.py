"""The bundles of a whole campaign into one store, and the report over them: duration, and the most memory.

    .venv/bin/python bench/campaign_load.py [--hosts 500] [--sessions 5] [--measurements 4000] [--store URL]

Promised (docs/promises.md): 500 hosts × 5 sessions of 4000 measurements, 10 000 000, are loaded by `vtax campaign
load` in at most 10 min; `vtax campaign report` then takes at most 30 s and 2 GiB, also right after a further session
of one host was loaded. The bundles have invented figures of 1000 trials of 4 metrics, no outputs and no counters.
Exits 1 when it is broken at this size.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping
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
from vtax.store.records import CellRecord, MetricRecord, PlatformRecord
from vtax.store.store import Store
from vtax.store.transfer import Row, rows_of
from vtax.study.load import load_smaller

LOAD_S, REPORT_S, REPORT_MIB = 600, 30, 2048
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
        run = store.begin_run(
            name="scale-1",
            study="scale",
            declared=load_smaller(str(study), "", 0).study.declared(),
            seed=1,
            vtax_version=__version__,
            image_key="none",
            host={},
            started_at=START,
            platforms=platforms,
            cells=cells,
            metrics=metrics,
            boot_id="b",
        )
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


def main() -> int:
    """Load and report, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--measurements", type=int, default=4000, help="of a session")
    parser.add_argument("--store", metavar="URL", help="an empty database; SQLite if not given")
    given = parser.parse_args()
    broken = []

    def said(
        what: str, took: tuple[float, float, float], limit_s: float, limit_mib: float = REPORT_MIB
    ) -> None:
        print(
            f"{what:32} {took[0]:7.1f} s (at most {limit_s}; CPU {took[1]:.1f} s), {took[2]:.0f} MiB",
            flush=True,
        )
        if took[0] > limit_s or took[2] > limit_mib:
            broken.append(what)

    with cleanup.journal() as journal, cleanup.directory(journal) as root:
        directory = campaign(root, given.sessions)
        begun = template(directory / "study/scale.toml", root / "template.sqlite")
        url = given.store or f"sqlite:///{root / 'store.sqlite'}"
        for host in range(given.hosts):
            for session in range(1, given.sessions + 2 if host == 0 else given.sessions + 1):
                target = root / ("more" if session > given.sessions else "bundles")
                target.mkdir(exist_ok=True)
                write_bundle(
                    target / f"h{host:04}-{NAME}-s{session}.vtax.gz",
                    rows(begun, host, session, given.measurements),
                )
        count = given.hosts * given.sessions * given.measurements
        print(f"{given.hosts} hosts × {given.sessions} sessions, {count} measurements", flush=True)
        load, report = (["campaign", each, str(directory)] for each in ("load", "report"))
        said("load", measured([*load, str(root / "bundles")], root, url), LOAD_S)
        said("load again, nothing new", measured([*load, str(root / "bundles")], root, url), LOAD_S)
        said("report", measured(report, root, url), REPORT_S)
        said("report again", measured(report, root, url), REPORT_S)
        said("load of one more", measured([*load, str(root / "more")], root, url), LOAD_S)
        said("report", measured(report, root, url), REPORT_S)
    return 1 if broken else 0


if __name__ == "__main__":
    cleanup.run(main)
