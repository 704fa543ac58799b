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
from vtax.host.foreign_file import content_of
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
    """Table `launch`. canary: hosts that measure first, 0 for none. canary_scale: of the study, for these alone;
    empty for the whole study, which counts as their first session.

    first_percent: of the hosts, that come next. max_failed_percent: of the hosts that tried; when more failed,
    nothing more is launched. forks: hosts that are spoken to at once. attempts: of a session that is interrupted.
    """

    canary: int = Field(2, ge=0, le=1000)
    canary_scale: str = ""
    first_percent: float = Field(10, ge=0, le=100)
    max_failed_percent: float = Field(20, ge=0, le=100)
    forks: int = Field(25, ge=1, le=500)
    attempts: int = Field(3, ge=1, le=100)


class Change(CampaignTable):
    """Table `change`, a planned change. first: the hosts that change first; the others are controls until they change
    too.

    seed: that drew them; None where they were named. when: sessions that begin from then on are after the change;
    rest: from when on the controls have changed too, so that later sessions do not count. None: not yet.
    """

    what: Annotated[
        str, AfterValidator(lambda text: one_line(text, _LONGEST)), Example("kernel")
    ] = Field(pattern=r"\S")
    first: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    seed: int | None = None
    when: Moment | None = None
    rest: Moment | None = None

    def record(self) -> dict[str, Any]:
        """Return it as a merged run keeps it, see report.analysis.campaign."""
        at, until = (each.timestamp() if each else None for each in (self.when, self.rest))
        return {
            "what": self.what,
            "first": list(self.first),
            "seed": self.seed,
            "at": at,
            "until": until,
        }


class Wanted(CampaignTable):
    """The wishes for a campaign, beside its pack. scale: of the study; empty for the whole. blocks: of each session;
    0 for as many as the study has by itself.

    every: time between the starts of two sessions on a host. inventory: path of Ansible's; empty without an engine.
    window: of the day, of this machine's clock, in which sessions are launched; empty for any time. reboot: consent
    to reboots of the hosts.
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
        return f"{self.name}-{f's{number}' if number else 'c'}{f'.{again}' if again else ''}"

    def run_options(self, scale: str) -> list[str]:
        """Return the options of `vtax host run`. scale: of the run; blocks belong to the campaign's own."""
        options = ["--scale", scale] if scale else []
        if self.blocks and scale == self.scale:
            options += ["--blocks", str(self.blocks)]
        return options + ["--trust"] * self.trust + ["--tune-host"] * self.tune_host

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
                parse_toml(content_of(path, "a campaign", CAMPAIGN.size_bytes).decode()),
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
    if not (found := _WINDOW.fullmatch(window)):
        return True
    first, second = (int(found[i]) * 60 + int(found[i + 1]) for i in (1, 3))
    at = datetime.fromtimestamp(now)
    minute = at.hour * 60 + at.minute
    return first <= minute < second if first <= second else minute >= first or minute < second
