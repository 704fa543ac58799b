"""Runs that a controller of many hosts has one of them make: by an id, so that asking twice measures once.

Everything of an id is in a directory of the home: what was requested, the log, the lock that the process which
carries it out holds while it lives, how that ended, and the bundle. A tag says which run of the store it is. So the
state is read from what is there, whoever was killed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
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
from vtax.live.events import Event
from vtax.live.state import LiveRun
from vtax.report.replacing import replacing
from vtax.store.records import RunSummary
from vtax.store.store import Store

if TYPE_CHECKING:
    from vtax.runner.boots import CurrentBoot

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
    last_failure: Annotated[
        str, Means("of the last events, the last trial that failed, and its error; else empty")
    ] = ""
    left_s: Annotated[
        float | None,
        Means("estimated time left in this boot; null when not known, and at its end", unit="s"),
    ] = None
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
    """A request of a controller to a host.

    study: path, or name of a shipped study.
    digest: SHA-256 of its file.
    scale: of the study; empty for the whole study.
    blocks: 0 for the study's own.
    seed: None for any.
    trust, tune_host: as the options of `vtax run`.
    next_session: whether the next session of a paused run begins.
    has_boots: whether the study is measured in several boots of the host.
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
    """How the process of a run ended. status: its exit status. reason: its error."""

    status: int
    reason: str = ""
    bundle: str = ""
    bundle_sha256: str = ""


@dataclass(frozen=True)
class RequestedRun:
    """A run that was requested under an id, and its directory."""

    home: Home
    id: str

    @classmethod
    def of(cls, home: Home, id_: str) -> RequestedRun:
        """Return the run of an id, which need not be requested yet. Raises BadInput for a text that is no id."""
        if not _ID.fullmatch(id_):
            raise BadInput(
                f"{one_line(id_, 60)!r} is no id of a run",
                hint="an id has lower-case letters, digits, dots and hyphens, at most 30",
            )
        return cls(home, id_)

    @property
    def directory(self) -> Path:
        """The directory of its files."""
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
        """The file that says how that process ended."""
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
        """Replace the file of the request."""
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / "request.json", request)

    def write_end(self, end: End) -> None:
        """Replace the file of the end."""
        _write(self.end, end)


def host_runs_of(home: Home) -> Path:
    """Return the directory of all requested runs."""
    return home.root / DIRECTORY


def ids(home: Home) -> list[str]:
    """Return the ids of all requested runs."""
    with suppress(FileNotFoundError):
        names = [path.name for path in host_runs_of(home).iterdir()]
        return sorted(name for name in names if _ID.fullmatch(name))
    return []


def state_of(requested: RequestedRun) -> HostRun:
    """Return the state of a requested run. Changes nothing. Raises StoreError."""
    state = _state_without_boots(requested)
    is_waiting = state.run and state.state not in ("running", "done", "failed")
    if is_waiting and requested.request().has_boots:
        with suppress(BadInput):  # the run itself will say what is wrong
            current_boot, next_boot = boots_of(requested, state.run)
            return replace(state, boot=current_boot.name, next_boot=next_boot)
    return state


def boots_of(requested: RequestedRun, run_name: str) -> tuple[CurrentBoot, str]:
    """Return the boot that this host is in, and the name of the boot that a run of the home's store needs next.

    The name is empty where this boot will do. Raises as `needed_boot` does.
    """
    from vtax.runner.resume import needed_boot  # it imports every driver

    with Store.open_read_only(requested.home.store_file) as store:
        return needed_boot(store.open_run(run_name), requested.home)


def _state_without_boots(requested: RequestedRun) -> HostRun:
    if not requested.directory.is_dir():
        return HostRun(requested.id, "absent")
    run, end = run_of(requested), _end(requested)
    state = _progress(requested, run) if run else HostRun(requested.id, "running")
    if is_measuring(requested.lock):
        return state
    if end is None:  # killed before it could say how it ended
        return replace(state, state="interrupted", reason=last_line(requested.log))
    state = replace(state, reason=end.reason, bundle=end.bundle, bundle_sha256=end.bundle_sha256)
    if end.status == os.EX_TEMPFAIL:
        return replace(state, state="busy")
    if run is None:
        return replace(state, state="refused")
    state = replace(state, state=_STATES[run.status])
    if run.status != "finished" and not end.reason:
        state = replace(state, reason=str(run.stopped_because))
    if end.status == 0:
        return state
    if state.state == "paused":
        return replace(state, state="interrupted")
    if state.state == "done":  # all was measured; without a bundle that alone is missing
        return replace(state, state="failed" if end.bundle else "interrupted")
    return state


def run_of(requested: RequestedRun) -> RunSummary | None:
    """Return the run of the store that has the tag; None where there is none yet. Raises StoreError."""
    if not requested.home.store_file.exists():
        return None
    with Store.open_read_only(requested.home.store_file) as store:
        for run in store.runs():
            if requested.tag in run.tags and not run.origin:
                return run
    return None


def last_line(log: Path) -> str:
    """Return the error that a command of vtax ended with, on one line; empty where there was none since its last start."""
    with suppress(OSError):
        text = log.read_bytes()[-_LOG_BYTES:].decode(errors="replace").rpartition(BEGUN)[2]
        _, marker, error = f"\n{text}".rpartition("\nvtax: ")
        if marker:
            return one_line(" ".join(error.split()), _REASON_CHARS)
    return ""


def _progress(requested: RequestedRun, run: RunSummary) -> HostRun:
    """Return where a run is, or was at its end."""
    live = LiveRun(requested.home.store_file, requested.home, run.name).state()
    progress = live.progress
    return HostRun(
        requested.id,
        "running",
        run=run.name,
        block=None if progress.block is None else max(progress.block, 0) + 1,
        blocks=progress.blocks,
        done_trials=progress.done_trials,
        failed_trials=progress.failed_trials,
        last_failure=_last_failure(live.events),
        left_s=progress.left_s,
    )


def _last_failure(events: Sequence[Event]) -> str:
    for event in reversed(events):
        if event.name == "trial_ended" and event.data.get("error"):
            what = f"{event.data.get('platform', '')} {event.data.get('label', '')}"
            return one_line(f"{what}: {event.data['error']}", _REASON_CHARS)
    return ""


def _end(requested: RequestedRun) -> End | None:
    with suppress(OSError, ValueError, TypeError):
        return End(**parse_json(requested.end.read_text()))
    return None


def _write(path: Path, value: Request | End) -> None:
    with replacing(path, "VTAX_HOME") as file:
        file.write_text(json.dumps(asdict(value), indent=1))
