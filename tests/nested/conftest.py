"""The nested machine that tests share: booted once, asked for in words, since booting and all in it take long."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from nested.machines import MACHINES
from nested.running import Nested, booted

from vtax.host.home import Home
from vtax.image.image import Image


@pytest.fixture(scope="session")
def nested(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """The machine that VTAX_NESTED names; `1` is debian-12."""
    name = os.environ.get("VTAX_NESTED", "")
    if not name:
        pytest.skip("emulating a whole machine takes long: ask for it with tests/run --nested, or VTAX_NESTED=1")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    home: Home = request.getfixturevalue("shared_home")
    image: Image = request.getfixturevalue("image")
    with booted(MACHINES["debian-12" if name == "1" else name], home, image) as machine:
        print(f"\n{machine.machine.name} is up after {machine.boot_s:.0f} s")
        yield machine
