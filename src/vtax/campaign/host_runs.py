"""Runs that a controller of many hosts has one of them make: by an id, so that asking twice measures once.

Everything of an id is in a directory of the home: what was requested, the log, the lock that the process which
carries it out holds while it lives, how that ended, and the bundle. A tag says which run of the store it is. So the
state is read from what is there, whoever was killed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vtax.described import Means
from vtax.errors import BadInput, NotFound
from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.host.home import Home
from vtax.host.lock import is_measuring
from vtax.live.state import LiveRun
from vtax.report.replacing import replacing
from vtax.store.records import RunSummary
from vtax.store.store import Store

if TYPE_CHECKING:
    from vtax.runner.boots import Here

State = Literal["absent", "running", "paused", "interrupted", "done", "failed", "busy", "refused"]
_STATES: Mapping[str, State] = {
    "finished": "done",
    "paused": "paused",
    "failed": "failed",
    "interrupted": "interrupted",
    "running": "interrupted",
}
"""Status of a run whose process is gone -> its state."""
_ID = re.compile(r"[a-z0-9][a-z0-9.-]{0,29}")
DIRECTORY, BUNDLE, TAG = "host-runs", "run.vtax.gz", "host-run-"
BEGUN = "\n== begun "
"""Separates what a log has of one process of a run from what it has of the next."""
_REASON_CHARS = 500
_LOG_BYTES = 4000


@dataclass(frozen=True)
class HostRun:
    """Answer of `vtax host run` and `vtax host status`."""

    id: Annotated[str, Means("id that the controller gave it")]
    state: Annotated[
        State,
        Means(
            "`absent`: never requested; `running`; `paused`: between sessions or boots; `interrupted`; `done`; "
            "`failed`; `busy`: another command used the host; `refused`: it did not begin"
        ),
    ]
    reason: Annotated[str, Means("why it is in this state; empty where that needs none")] = ""
    run: Annotated[str, Means("name of the run; empty before it has begun")] = ""
    block: Annotated[
        int | None, Means("block that runs, or was the last, from 1; null before the first")
    ] = None
    blocks: Annotated[int | None, Means("planned blocks; null where the rule decides")] = None
    done_trials: Annotated[int, Means("measured trials, failed ones included")] = 0
    failed_trials: Annotated[int, Means("measured trials that failed")] = 0
    bundle: Annotated[str, Means("path of its bundle, once its process has ended")] = ""
    bundle_sha256: Annotated[str, Means("SHA-256 of that file")] = ""
    boot: Annotated[
        str, Means("boot of the study that this host is in; empty for none, and while it runs")
    ] = ""
    next_boot: Annotated[
        str, Means("boot that it needs next; empty where this boot of the host will do")
    ] = ""


@dataclass(frozen=True)
class Request:
    """A run that was requested. study: path, or name of a shipped one. digest: SHA-256 of its file.

    scale: of the study; empty for the whole. blocks: 0 for the study's own. seed: None for any. next_session: of a
    paused run, begin the next one. has_boots: it is measured in several boots of the host.
    """

    study: str
    digest: str
    scale: str = ""
    blocks: int = 0
    seed: int | None = None
    trust: bool = False
    tune_host: bool = False
    next_session: bool = False
    has_boots: bool = False


@dataclass(frozen=True)
class End:
    """The end of the process of a run. status: its exit status. reason: its error."""

    status: int
    reason: str = ""
    bundle: str = ""
    bundle_sha256: str = ""


@dataclass(frozen=True)
class Place:
    """The directory of a requested run."""

    home: Home
    id: str

    @classmethod
    def of(cls, home: Home, id_: str) -> Place:
        """Return that of an id. Raises BadInput for what is no id."""
        if not _ID.fullmatch(id_):
            what = f"{one_line(id_, 60)!r} is no id of a run"
            raise BadInput(
                what, hint="an id has lower-case letters, digits, dots and hyphens, at most 30"
            )
        return cls(home, id_)

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return host_runs_of(self.home) / self.id

    @property
    def lock(self) -> Path:
        """The lock of the process that carries it out."""
        return self.directory / "lock"

    @property
    def log(self) -> Path:
        """The file of what that process wrote on stderr."""
        return self.directory / "log"

    @property
    def end(self) -> Path:
        """How it ended."""
        return self.directory / "end.json"

    @property
    def bundle(self) -> Path:
        """The bundle; its name does not depend on the run, so that a controller knows it."""
        return self.directory / BUNDLE

    @property
    def tag(self) -> str:
        """The tag of its run."""
        return f"{TAG}{self.id}"

    def request(self) -> Request:
        """Return what was requested. Raises NotFound."""
        try:
            return Request(**parse_json((self.directory / "request.json").read_text()))
        except FileNotFoundError:
            raise NotFound(
                f"no run {self.id} was requested here", hint="vtax host status lists them"
            ) from None

    def write_request(self, request: Request) -> None:
        """Keep what is requested, whole."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / "request.json", request)

    def write_end(self, end: End) -> None:
        """Keep how it ended, whole."""
        _write(self.end, end)


def host_runs_of(home: Home) -> Path:
    """Return the directory of all requested runs."""
    return home.root / DIRECTORY


def ids(home: Home) -> list[str]:
    """Return the ids of all requested runs."""
    with suppress(FileNotFoundError):
        return sorted(
            each.name for each in host_runs_of(home).iterdir() if _ID.fullmatch(each.name)
        )
    return []


def state_of(place: Place) -> HostRun:
    """Return the state of a requested run. Changes nothing. Raises StoreError."""
    found = _state_of(place)
    if found.run and found.state not in ("running", "done", "failed") and place.request().has_boots:
        with suppress(BadInput):  # the run itself will say what is wrong
            here, next_boot = boots_of(place, found.run)
            return replace(found, boot=here.name, next_boot=next_boot)
    return found


def boots_of(place: Place, run_name: str) -> tuple[Here, str]:
    """See needed_boot, of a run of the home's store."""
    from vtax.runner.resume import needed_boot  # it imports every driver

    with Store.open_read_only(place.home.store_file) as store:
        return needed_boot(store.open_run(run_name), place.home)


def _state_of(place: Place) -> HostRun:
    if not place.directory.is_dir():
        return HostRun(place.id, "absent")
    run, end = run_of(place), _end(place)
    found = _progress(place, run) if run else HostRun(place.id, "running")
    if is_measuring(place.lock):
        return replace(found, state="running")
    if end is None:  # killed before it could say how it ended
        return replace(found, state="interrupted", reason=last_line(place.log))
    found = replace(found, reason=end.reason, bundle=end.bundle, bundle_sha256=end.bundle_sha256)
    if end.status == os.EX_TEMPFAIL:
        return replace(found, state="busy")
    if run is None:
        return replace(found, state="refused")
    state, reason = (
        _STATES[run.status],
        end.reason or ("" if run.status == "finished" else str(run.stopped_because)),
    )
    if state == "paused" and end.status != 0:
        state = "interrupted"
    if (
        state == "done" and end.status != 0
    ):  # all was measured; without a bundle that alone is missing
        state = "failed" if end.bundle else "interrupted"
    return replace(found, state=state, reason=reason)


def run_of(place: Place) -> RunSummary | None:
    """Return the run of the store that has the tag; None where there is none yet. Raises StoreError."""
    if not place.home.store_file.exists():
        return None
    with Store.open_read_only(place.home.store_file) as store:
        return next((run for run in store.runs() if place.tag in run.tags and not run.origin), None)


def last_line(log: Path) -> str:
    """Return the error that a command of vtax ended with, on one line; empty where there is none since the last
    beginning."""
    with suppress(OSError):
        text = log.read_bytes()[-_LOG_BYTES:].decode(errors="replace").rpartition(BEGUN)[2]
        _, found, error = f"\n{text}".rpartition("\nvtax: ")
        return one_line(" ".join(error.split()), _REASON_CHARS) if found else ""
    return ""


def _progress(place: Place, run: RunSummary) -> HostRun:
    """Return where a run is, or was at its end."""
    at = LiveRun(place.home.store_file, place.home, run.name).state().progress
    block = None if at.block is None else max(at.block, 0) + 1
    return HostRun(
        place.id, "running", "", run.name, block, at.blocks, at.done_trials, at.failed_trials
    )


def _end(place: Place) -> End | None:
    with suppress(OSError, ValueError, TypeError):
        return End(**parse_json(place.end.read_text()))
    return None


def _write(path: Path, value: Request | End) -> None:
    with replacing(path, "VTAX_HOME") as file:
        file.write_text(json.dumps(asdict(value), indent=1))
