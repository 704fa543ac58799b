"""What tests need to say about the machine they run on. Import it as `from support import needs_root`."""

import os

import pytest

from vtax.host.process import find_program

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def needs_program(*names: str) -> pytest.MarkDecorator:
    """Skip, naming what is missing, unless every program is installed (the sbin directories count)."""
    missing = [name for name in names if find_program(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
