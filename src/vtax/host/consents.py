"""Recorded consents to programs that study files have root run, in a file that only root can read and write."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from vtax.errors import BadInput
from vtax.foreign_data import parse_json
from vtax.host.home import Home
from vtax.limits import CONSENTS

Program = tuple[str, str, str]
"""Driver, option and value."""


@dataclass(frozen=True)
class Consent:
    """Consent to programs of a study. digest: SHA-256 of its file. source: path of the file."""

    digest: str
    source: str
    programs: tuple[Program, ...]


def has_consent(home: Home, programs: Iterable[Program], digest: str) -> bool:
    """Return whether there is consent to all programs for the file of a digest; empty: for any file.

    Raises BadInput when a user other than root could have written the consents.
    """
    programs_asked = set(programs)
    consents = [consent for consent in recorded_consents(home) if digest in ("", consent.digest)]
    return any(programs_asked <= set(consent.programs) for consent in consents)


def record_consent(home: Home, consent: Consent) -> None:
    """Record a consent. Raises BadInput when the file is not writable, or when other users could have written it."""
    others = [recorded for recorded in recorded_consents(home) if recorded != consent]
    _write(home, [*others, consent])


def forget_consents(home: Home, directory: Path) -> int:
    """Forget the consents for files below a directory; return how many. Raises BadInput as `record_consent` does."""
    recorded = recorded_consents(home)
    others = [consent for consent in recorded if not Path(consent.source).is_relative_to(directory)]
    if len(others) < len(recorded):
        _write(home, others)
    return len(recorded) - len(others)


def _write(home: Home, consents: Iterable[Consent]) -> None:
    path = home.consents
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump([asdict(consent) for consent in consents], file, indent=1)
        temporary.replace(path)
    except OSError as error:
        raise BadInput(
            f"the consent cannot be recorded: {error.strerror}", where=str(path)
        ) from error


def recorded_consents(home: Home) -> list[Consent]:
    """Return the consents. Raises BadInput when a user other than root could have written them."""
    text = _read(home.consents)
    try:
        consents = []
        for record in parse_json(text or "[]"):
            programs = tuple((a, b, c) for a, b, c in record["programs"])
            consents.append(Consent(str(record["digest"]), str(record["source"]), programs))
        return consents
    except (ValueError, TypeError, KeyError):
        return []  # damaged: consent is requested again


def _read(path: Path) -> str:
    """Return the content of a file that only this user can change; empty without a file. Raises BadInput."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise BadInput(
            f"the recorded consents cannot be read: {error.strerror}", where=str(path)
        ) from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if (
            not stat.S_ISREG(status.st_mode)
            or status.st_uid != os.geteuid()
            or status.st_mode & 0o022
        ):
            raise BadInput(
                "other users could have written the recorded consents",
                where=str(path),
                hint=f"remove {path}; vtax requests consent again",
            )
        return file.read(CONSENTS.size_bytes).decode("utf-8", "replace")
