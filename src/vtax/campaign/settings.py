"""The file of a campaign, `campaign.toml`: what is measured, how often, how it is launched. A person may edit it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import tomli_w

from vtax.doctor.native_probe import MAX_S
from vtax.errors import BadInput
from vtax.foreign_text import one_line
from vtax.report.replacing import replacing
from vtax.study.limits import MAX_BLOCKS
from vtax.study.units import duration_s

MAX_SESSIONS = 999
CHANGE, PAIRS = "change", "pairs"
"""Tables of the file that `vtax.campaign.change` and `vtax.campaign.pairs` read."""
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,21}")  # an id of a run has a suffix, and at most 30 characters
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_HINT = "docs/campaigns.md explains every key"


@dataclass(frozen=True)
class Launch:
    """Table `launch`. canary: hosts that measure first, 0 for none. canary_scale: of the study, for these alone;
    empty for the whole study, which counts as their first session.

    first_percent: of the hosts, that come next. max_failed_percent: of the hosts that tried; when more failed,
    nothing more is launched. forks: hosts that are spoken to at once. attempts: of a session that is interrupted.
    """

    canary: int = 2
    canary_scale: str = ""
    first_percent: float = 10
    max_failed_percent: float = 20
    forks: int = 25
    attempts: int = 3


@dataclass(frozen=True)
class Screening:
    """Table `screening`. seconds: of the native probe before the first session of a host, 0 for none. exclude_above:
    the distance from the other hosts beyond which a host does not measure; 0 to exclude none."""

    seconds: float = 10
    exclude_above: float = 0


@dataclass(frozen=True)
class Settings:
    """A campaign. study: its file in the pack. scale: of the study; empty for the whole. blocks: of each session; 0
    for as many as the study has by itself.

    every: time between the starts of two sessions on a host. inventory: path of Ansible's; empty without an engine.
    window: of the day, of this machine's clock, in which sessions are launched; empty for any time. created_at: Unix
    time. reboot: consent to reboots of the hosts. tables: those of the file that belong to others, as read.
    """

    name: str
    study: str
    study_name: str
    pack_digest: str
    image_key: str
    image_digest: str
    vtax_version: str
    created_at: float
    scale: str = ""
    blocks: int = 0
    sessions: int = 1
    every: str = "1d"
    inventory: str = ""
    window: str = ""
    trust: bool = False
    tune_host: bool = False
    reboot: bool = False
    launch: Launch = Launch()
    screening: Screening = Screening()
    tables: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise BadInput, naming the key, for a value that no campaign has."""
        if not _NAME.fullmatch(self.name):
            hint = "a name has lower-case letters, digits, dots and hyphens, at most 22"
            raise BadInput(f"{one_line(self.name, 60)!r} is no name of a campaign", where="name", hint=hint)
        if not 1 <= self.sessions <= MAX_SESSIONS:
            hint = f"it is 1 to {MAX_SESSIONS}"
            raise BadInput(f"{self.sessions} is no number of sessions", where="sessions", hint=hint)
        if not 0 <= self.blocks <= MAX_BLOCKS:
            raise BadInput(f"{self.blocks} is no number of blocks", where="blocks", hint=f"it is 0 to {MAX_BLOCKS}")
        check_window(self.window, "window")
        _ = self.every_s
        launch = self.launch
        whole = (("canary", 0, 1000), ("forks", 1, 500), ("attempts", 1, 100))
        for key, low, high in (*whole, ("first_percent", 0, 100), ("max_failed_percent", 0, 100)):
            _check_range(getattr(launch, key), low, high, f"launch.{key}")
        _check_range(self.screening.seconds, 0, MAX_S, "screening.seconds")
        _check_range(self.screening.exclude_above, 0, 100, "screening.exclude_above")

    @property
    def every_s(self) -> float:
        """`every`, seconds. Raises BadInput."""
        try:
            return duration_s(self.every)
        except ValueError as error:
            raise BadInput(str(error), where="every", hint="write a duration such as 12h or 1d") from error

    @property
    def has_pairs(self) -> bool:
        """Whether each session is of two hosts; see `vtax.campaign.pairs`."""
        return PAIRS in self.tables

    def run_id(self, number: int, again: int = 0) -> str:
        """Return the id of a session's run on every host. number: from 1; 0 for the canary. again: which retry."""
        return f"{self.name}-{f's{number}' if number else 'c'}{f'.{again}' if again else ''}"

    def run_options(self, scale: str) -> list[str]:
        """Return the options of `vtax host run`. scale: of the run; blocks belong to the campaign's own."""
        options = ["--scale", scale] if scale else []
        if self.blocks and scale == self.scale:
            options += ["--blocks", str(self.blocks)]
        return options + ["--trust"] * self.trust + ["--tune-host"] * self.tune_host

    def write(self, path: Path) -> None:
        """Write the file, whole."""
        values = {name: value for name, value in asdict(self).items() if name != "tables"}
        launch, screening = values.pop("launch"), values.pop("screening")
        with replacing(path, "-o") as file:
            file.write_text(tomli_w.dumps({**values, "launch": launch, "screening": screening, **self.tables}))

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read the file. Raises BadInput, naming the key."""
        try:
            values = tomllib.loads(path.read_text())
        except FileNotFoundError:
            raise BadInput(
                f"{path.parent} is no directory of a campaign", hint="vtax campaign new STUDY makes one"
            ) from None
        except (OSError, ValueError) as error:
            raise BadInput(f"it cannot be read: {error}", where=str(path), hint=_HINT) from error
        try:
            own = {each.name for each in fields(cls)} - {"launch", "screening", "tables"}
            launch = Launch(**_typed(Launch, values.pop("launch", {}), "launch."))
            screening = Screening(**_typed(Screening, values.pop("screening", {}), "screening."))
            tables = {name: values.pop(name) for name in (CHANGE, PAIRS) if isinstance(values.get(name), dict)}
            if unknown := sorted(values.keys() - own):
                raise BadInput(f"there is no key {unknown[0]!r}", where=unknown[0], hint=_HINT)
            return cls(**_typed(cls, values, ""), launch=launch, screening=screening, tables=tables)
        except BadInput as error:
            error.where = f"{path}: {error.where}"
            raise


def _typed(kind: type[Any], values: Any, prefix: str) -> dict[str, Any]:
    """Return the values of a dataclass's fields, of the types that these have. Raises BadInput."""
    if not isinstance(values, dict):
        raise BadInput("it is no table", where=prefix.rstrip("."), hint=_HINT)
    types = {"str": (str,), "int": (int,), "float": (float, int), "bool": (bool,)}
    known = {each.name: str(each.type) for each in fields(kind)}
    for name, value in values.items():
        if name not in known:
            raise BadInput(f"there is no key {name!r}", where=f"{prefix}{name}", hint=_HINT)
        wanted = types.get(known[name], ())
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise BadInput(f"{one_line(str(value), 60)!r} is not of its type", where=f"{prefix}{name}", hint=_HINT)
    required = [n for n in known if kind is Settings and n in _REQUIRED]
    if missing := [name for name in required if name not in values]:
        raise BadInput(f"the key {missing[0]!r} is missing", where=missing[0], hint=_HINT)
    return dict(values)


_REQUIRED = (
    "name", "study", "study_name", "pack_digest", "image_key", "image_digest", "vtax_version", "created_at",
)  # fmt: skip


def _check_range(value: float, low: float, high: float, where: str) -> None:
    if not low <= value <= high:
        raise BadInput(f"{value:g} is not between {low:g} and {high:g}", where=where, hint=_HINT)


def check_window(text: str, where: str) -> None:
    """Raise BadInput for what is no window of the day. where: its key."""
    if text and not _WINDOW.fullmatch(text):
        hint = "write it as in 01:00-05:00"
        raise BadInput(f"{one_line(text, 60)!r} is no window of the day", where=where, hint=hint)


def is_open(window: str, now: float) -> bool:
    """Return whether a time is in a window of the day, by this machine's clock; one without a window always is."""
    if not (found := _WINDOW.fullmatch(window)):
        return True
    first, second = (int(found[i]) * 60 + int(found[i + 1]) for i in (1, 3))
    at = datetime.fromtimestamp(now)
    minute = at.hour * 60 + at.minute
    return first <= minute < second if first <= second else minute >= first or minute < second
