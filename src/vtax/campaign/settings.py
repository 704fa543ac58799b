"""The file of a campaign, `campaign.toml`: what is measured, how often, how it is launched. A person may edit it."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vtax.errors import BadInput
from vtax.foreign_data import parse_toml
from vtax.foreign_text import one_line
from vtax.host.foreign_file import read_foreign
from vtax.limits import CAMPAIGN
from vtax.report.replacing import replacing
from vtax.study.declared import Example
from vtax.study.limits import MAX_BLOCKS
from vtax.study.refusals import RefusedStudy, validated
from vtax.units import duration_s

MAX_SESSIONS = 999
HINT = "docs/campaigns.md explains every key"
_LONGEST = 120  # of what changes
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def _checked_window(text: str) -> str:
    if text and not _WINDOW.fullmatch(text):
        raise ValueError("it is no window of the day; write it as in 01:00-05:00")
    return text


def _checked_duration(text: str) -> str:
    duration_s(text)
    return text


Moment = Annotated[datetime, AfterValidator(datetime.astimezone)]


class CampaignTable(BaseModel):
    """Base of the tables of the file: no unknown key, no value of another type than is declared."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Launch(CampaignTable):
    """Table `launch`: in which order hosts are launched, and when no more are.

    canary: how many hosts measure first; 0 for none.
    canary_scale: scale of the study for these alone; empty for the whole study, which counts as their first session.
    first_percent: how many of the hosts come next.
    max_failed_percent: nothing more is launched when more of the hosts that tried have failed.
    forks: hosts that are spoken to at once.
    attempts: how often a session that is interrupted is launched.
    """

    canary: int = Field(2, ge=0, le=1000)
    canary_scale: str = ""
    first_percent: float = Field(10, ge=0, le=100)
    max_failed_percent: float = Field(20, ge=0, le=100)
    forks: int = Field(25, ge=1, le=500)
    attempts: int = Field(3, ge=1, le=100)


class Change(CampaignTable):
    """Table `change`: a planned change of hosts.

    what: what changes.
    first: the hosts that change first; the others are controls until they change too.
    seed: of the drawing of `first`; None where they were named.
    when: sessions that begin from this moment on are after the change; None: not yet.
    rest: from this moment on the controls have changed too, so that later sessions do not count; None: not yet.
    """

    what: Annotated[
        str, AfterValidator(lambda text: one_line(text, _LONGEST)), Example("kernel")
    ] = Field(pattern=r"\S")
    first: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    seed: int | None = None
    when: Moment | None = None
    rest: Moment | None = None

    def record(self) -> dict[str, Any]:
        """Return the change as a merged run keeps it, with Unix times; report.analysis.campaign reads it."""
        return {
            "what": self.what,
            "first": list(self.first),
            "seed": self.seed,
            "at": self.when.timestamp() if self.when else None,
            "until": self.rest.timestamp() if self.rest else None,
        }

    def is_between(self, at: float) -> bool:
        """Return whether a Unix time is after the first hosts changed and before the others did."""
        if self.when is None or at < self.when.timestamp():
            return False
        return self.rest is None or at < self.rest.timestamp()


class Wanted(CampaignTable):
    """The settings of a campaign that its user chooses, beside its pack.

    scale: of the study; empty for the whole study.
    blocks: of each session; 0 for as many as the study has by itself.
    sessions: on each host.
    every: time between the starts of two sessions on a host.
    inventory: path of Ansible's; empty where hosts are started by hand.
    window: of the day, by this machine's clock, in which sessions are launched; empty for any time.
    trust, tune_host: as the options of `vtax run`.
    reboot: consent to reboots of the hosts.
    """

    scale: str = ""
    blocks: int = Field(0, ge=0, le=MAX_BLOCKS)
    sessions: int = Field(1, ge=1, le=MAX_SESSIONS)
    every: Annotated[str, AfterValidator(_checked_duration)] = "1d"
    inventory: str = ""
    window: Annotated[str, AfterValidator(_checked_window)] = ""
    trust: bool = False
    tune_host: bool = False
    reboot: bool = False


class Settings(Wanted):
    """A campaign. study: its file in the pack. created_at: Unix time."""

    # an id of a run has a suffix, and at most 30 characters
    name: Annotated[str, Example("tour-1a2b")] = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,21}$")
    study: str
    study_name: str
    pack_digest: str
    image_key: str
    image_digest: str
    vtax_version: str
    created_at: float
    launch: Launch = Launch()
    change: Change | None = None

    @property
    def every_s(self) -> float:
        """`every`, seconds."""
        return duration_s(self.every)

    def run_id(self, number: int, again: int = 0) -> str:
        """Return the id of a session's run on every host. number: from 1; 0 for the canary. again: which retry."""
        session = f"s{number}" if number else "c"
        retry = f".{again}" if again else ""
        return f"{self.name}-{session}{retry}"

    def run_options(self, scale: str) -> list[str]:
        """Return the options of `vtax host run` for a scale; `blocks` hold for the scale of the campaign alone."""
        options = []
        if scale:
            options += ["--scale", scale]
        if self.blocks and scale == self.scale:
            options += ["--blocks", str(self.blocks)]
        if self.trust:
            options.append("--trust")
        if self.tune_host:
            options.append("--tune-host")
        return options

    def write(self, path: Path) -> None:
        """Write the file, whole."""
        with replacing(path, "-o") as file:
            file.write_text(tomli_w.dumps(self.model_dump(exclude_none=True)))

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read the file. Raises BadInput, naming the key."""
        try:
            return validated(
                cls,
                parse_toml(read_foreign(path, "a campaign", CAMPAIGN.size_bytes).decode()),
                hint=HINT,
            )
        except FileNotFoundError:
            raise BadInput(
                f"{path.parent} is no directory of a campaign",
                hint="vtax campaign new STUDY makes one",
            ) from None
        except RefusedStudy as refused:
            refused.where = f"{path}: {'.'.join(map(str, refused.problems[0].place))}"
            raise
        except (OSError, ValueError) as error:
            raise BadInput(f"it cannot be read: {error}", where=str(path), hint=HINT) from error


def check_window(text: str, where: str) -> None:
    """Raise BadInput for what is no window of the day. where: its key."""
    if text and not _WINDOW.fullmatch(text):
        hint = "write it as in 01:00-05:00"
        raise BadInput(f"{one_line(text, 60)!r} is no window of the day", where=where, hint=hint)


def is_open(window: str, now: float) -> bool:
    """Return whether a time is in a window of the day, by this machine's clock; one without a window always is."""
    match = _WINDOW.fullmatch(window)
    if match is None:
        return True
    begin = int(match[1]) * 60 + int(match[2])
    end = int(match[3]) * 60 + int(match[4])
    time = datetime.fromtimestamp(now)
    minute = time.hour * 60 + time.minute
    if begin <= end:
        return begin <= minute < end
    return minute >= begin or minute < end
