"""A booted machine with what tests run in it: their own programs, and pytest."""

from __future__ import annotations

import time
from pathlib import Path

from nested import running
from nested.disks import INSIDE
from nested.report import keep, keep_file
from nested.running import PYTHON

from vtax.guest.guest import Guest

CHECKOUT = Path(__file__).parents[2]
LOCK = CHECKOUT / "requirements-dev.lock"
FILES = {name: CHECKOUT / name for name in ("tests", "bench", "pyproject.toml")}
"""What goes into the machine beside vtax."""
_OUT, _ERR, _BUNDLE = (f"/root/measured.{name}" for name in ("out", "err", "vtax.gz"))
_POLL_S = 10.0
_END_S = 300.0


class Nested(running.BootedMachine):
    """A machine that tests use."""

    def await_reboot(self, timeout_s: float) -> None:
        """Wait until it answers in its next boot. timeout_s: with what it does before that."""
        self.guest = Guest(self.channel)
        self.guest.hello(timeout_s)

    def python(self, name: str, *arguments: str, timeout_s: float = 600.0) -> str:
        """Run a program of tests/nested/inside in it; its output."""
        script = f"/{INSIDE}/tests/nested/inside/{name}"
        return self.run(PYTHON, script, *arguments, timeout_s=timeout_s).stdout

    def pytest(self, *arguments: str, timeout_s: float = 1800.0, status: int | None = 0) -> str:
        """Run tests of the checkout in it; what pytest says."""
        options = ("-p", "no:cacheprovider", "-o", "timeout=900", "--durations=0", "-v")
        argv = (
            "sh",
            "-c",
            f'cd /{INSIDE} && exec {PYTHON} -m pytest "$@"',
            "pytest",
            *options,
            *arguments,
        )
        return self.run(*argv, timeout_s=timeout_s, status=status).stdout

    def measure(self, name: str, *arguments: str, limit_s: float) -> int:
        """`vtax run` in it; its status. NAME.txt has its progress while it lasts, NAME.vtax.gz its run, whatever
        ends it. limit_s: it is ended then, and by an interrupted test."""
        argv = ["sh", "-c", f'exec {PYTHON} -m vtax "$@" >{_OUT} 2>{_ERR}', "sh", "run", *arguments]
        keep(f"{name}.txt", f"$ vtax run {' '.join(arguments)}\n")
        handle = self.guest.start(argv, cwd="/root", environment={"COLUMNS": "200"})
        began, shown = time.monotonic(), 0
        try:
            while self.guest.running(handle) and time.monotonic() - began < limit_s:
                time.sleep(_POLL_S)
                said = self.guest.sample([_ERR]).files[_ERR] or b""
                keep(f"{name}.txt", said[shown:].decode(errors="replace"), append=True)
                shown = len(said)
        finally:
            ended = self.guest.stop(handle, grace_s=_END_S)
            keep(f"{name}.txt", self.guest.get(_OUT).decode(errors="replace"), append=True)
            self.vtax("export", "last", "--output", _BUNDLE, timeout_s=1800)
            keep_file(f"{name}.vtax.gz", self.guest.get(_BUNDLE))
        return ended.status
