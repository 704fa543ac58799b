"""What is written down when vtax itself is at fault, so that it can be mended: one file, for its owner's eyes only.

A traceback on a terminal helps nobody who measures, and names things that were given in confidence. So the error is
told in a line, and the rest goes into a file without passwords, which whoever reports the bug can read first.
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

LONGEST_REPORT = 200_000  # characters
_LONGEST_MESSAGE = 300
_IN_AN_ADDRESS = re.compile(r"(?<=://)[^\s\"']*@")
_NAMED = re.compile(
    r"(?i)\b(\w*(?:passw|pwd|secret|token|api_?key|credential)\w*)([\"']?\s*[=:]\s*[\"']?)[^\s&\"',;]+"
)


def report(error: BaseException) -> VtaxError:
    """Write the report of a bug, and return what to tell of it. Never fails, whatever the error is made of."""
    what = f"a bug in vtax: {type(error).__name__}: {_message(error)}"
    try:
        path = _written(_text(error))
    except Exception as problem:  # nothing that is wrong here may hide what was wrong before
        return VtaxError(f"{what} (its report could not be written: {type(problem).__name__})")
    return VtaxError(what, where=str(path), hint="report it with that file; read it before, it names your command")


def without_secrets(text: str) -> str:
    """Text without what stands before the host of an address, and without the values of what is called a password."""
    return _NAMED.sub(r"\1\2***", _IN_AN_ADDRESS.sub("***@", text))


def _message(error: BaseException) -> str:
    try:
        return clean(without_secrets(" ".join(str(error)[: 8 * _LONGEST_MESSAGE].split())), _LONGEST_MESSAGE)
    except Exception:
        return "(it cannot be printed)"


def _text(error: BaseException) -> str:
    lines = [
        f"vtax {__version__}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"command: {shlex.join(map(without_secrets, sys.argv))}",
        f"Python {platform.python_version()}, {platform.platform()}, user {os.geteuid()}",
        *(f"{name}={os.environ[name]}" for name in ("VTAX_HOME", "VTAX_STORE") if name in os.environ),
        "",
        *traceback.format_exception(error),
    ]
    text = without_secrets("\n".join(line.rstrip("\n") for line in lines)) + "\n"
    if len(text) > LONGEST_REPORT:
        text = f"{text[: LONGEST_REPORT // 2]}\n[...]\n{text[-LONGEST_REPORT // 2 :]}"
    return escaped(text)


def _written(text: str) -> Path:
    """A new file, in the home where that may be written, else where temporary files go. Raises OSError."""
    for directory in (_bugs_of_the_home(), None):
        with suppress(OSError):
            handle, name = tempfile.mkstemp(
                prefix=time.strftime("vtax-bug-%Y%m%d-%H%M%S-"), suffix=".txt", dir=directory
            )
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            return Path(name)
    raise OSError("no place for it")


def _bugs_of_the_home() -> Path | None:
    """The directory for reports in a home that is there; None when it is not ours alone to write."""
    with suppress(OSError, VtaxError):
        directory = Home.from_environment().root / "bugs"
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return directory
    return None
