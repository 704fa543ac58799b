"""Bug reports: one file per unexpected exception, readable by its owner only.

The terminal shows one line without a traceback. The file has the traceback, with passwords removed; the user can read
it before reporting the bug.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import stat
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

from vtax import __version__
from vtax.errors import VtaxError
from vtax.foreign_text import clean, escaped
from vtax.host.home import Home

MAX_REPORT_CHARS = 200_000  # characters
_MAX_MESSAGE_CHARS = 300
_URL_USER = re.compile(r"(?<=://)[^\s\"']*@")
_SECRET_VALUE = re.compile(
    r"(?i)\b(\w*(?:passw|pwd|secret|token|api_?key|credential)\w*)([\"']?\s*[=:]\s*[\"']?)[^\s&\"',;]+"
)


def report(error: BaseException) -> VtaxError:
    """Write a bug report and return the error to print. Never fails."""
    what = f"a bug in vtax: {type(error).__name__}: {_message(error)}"
    try:
        path = _write_report(_text(error))
    except Exception as problem:  # a failure here must not hide the bug
        return VtaxError(f"{what} (the bug report could not be written: {type(problem).__name__})")
    return VtaxError(
        what,
        where=str(path),
        hint="report the bug with that file; read the file first, it contains your command line",
    )


def without_secrets(text: str) -> str:
    """Return text without user and password in URLs, and without values of names like `password`."""
    return _SECRET_VALUE.sub(r"\1\2***", _URL_USER.sub("***@", text))


def _message(error: BaseException) -> str:
    try:
        return clean(
            without_secrets(" ".join(str(error)[: 8 * _MAX_MESSAGE_CHARS].split())),
            _MAX_MESSAGE_CHARS,
        )
    except Exception:
        return "(it cannot be printed)"


def _text(error: BaseException) -> str:
    lines = [
        f"vtax {__version__}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"command: {shlex.join(map(without_secrets, sys.argv))}",
        f"Python {platform.python_version()}, {platform.platform()}, user {os.geteuid()}",
    ]
    for name in ("VTAX_HOME", "VTAX_STORE"):
        if name in os.environ:
            lines.append(f"{name}={os.environ[name]}")
    lines += ["", *traceback.format_exception(error)]
    text = without_secrets("\n".join(line.rstrip("\n") for line in lines)) + "\n"
    if len(text) > MAX_REPORT_CHARS:
        text = f"{text[: MAX_REPORT_CHARS // 2]}\n[...]\n{text[-MAX_REPORT_CHARS // 2 :]}"
    return escaped(text)


def _write_report(text: str) -> Path:
    """Return a new file in the home if it is writable, else in the directory for temporary files. Raises OSError."""
    for directory in (_bug_directory(), None):
        with suppress(OSError):
            handle, name = tempfile.mkstemp(
                prefix=time.strftime("vtax-bug-%Y%m%d-%H%M%S-"), suffix=".txt", dir=directory
            )
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            return Path(name)
    raise OSError("no writable directory")


def _bug_directory() -> Path | None:
    """Return the directory for bug reports in an existing home; None when other users may write to it."""
    with suppress(OSError, VtaxError):
        directory = Home.from_environment().root / "bugs"
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        status = directory.lstat()
        if (
            stat.S_ISDIR(status.st_mode)
            and status.st_uid == os.geteuid()
            and not status.st_mode & 0o022
        ):
            return directory
    return None
