"""A booted machine with what tests run in it: their own programs, and pytest."""

from __future__ import annotations

from pathlib import Path

from vtax.demo import running
from vtax.demo.disks import INSIDE
from vtax.demo.running import PYTHON

CHECKOUT = Path(__file__).parents[2]
LOCK = CHECKOUT / "requirements-dev.lock"
SENT = ("tests", "pyproject.toml")
"""What goes into the machine beside vtax."""


class Nested(running.Nested):
    """A machine that tests use."""

    def python(self, name: str, *arguments: str, timeout_s: float = 600.0) -> str:
        """Run a program of tests/nested/inside in it; its output."""
        script = f"/{INSIDE}/tests/nested/inside/{name}"
        return self.run(PYTHON, script, *arguments, timeout_s=timeout_s).stdout

    def pytest(self, *arguments: str, timeout_s: float = 1800.0, status: int | None = 0) -> str:
        """Run tests of the checkout in it; what pytest says."""
        options = ("-p", "no:cacheprovider", "-o", "timeout=900", "--durations=0", "-v")
        argv = ("sh", "-c", f'cd /{INSIDE} && exec {PYTHON} -m pytest "$@"', "pytest", *options, *arguments)
        return self.run(*argv, timeout_s=timeout_s, status=status).stdout
