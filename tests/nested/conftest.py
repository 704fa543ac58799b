"""The nested machines that tests share: each booted once, when asked for, since booting and all in it take long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from nested.machines import MACHINES
from nested.tested import FILES, LOCK, Nested

from vtax.demo.machines import MachineRecipe, boot_xen
from vtax.demo.running import booted
from vtax.host.home import Home
from vtax.image import build as images
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT
from vtax.network import registry

_CONTROLLER = registry.get("router-openflow").packages
_LAYERS = (_CONTROLLER, ("pi", *_CONTROLLER))
"""What guests have beside the usual image: for that topology, and for the studies of test_studies.py."""


@pytest.fixture(scope="session")
def nested(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with KVM, systemd, cgroup v2 and Docker."""
    yield from _booted(request, MACHINES["debian-12"])


@pytest.fixture(scope="session")
def large_nested(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """The same with memory for guests of 2 GiB."""
    yield from _booted(request, replace(MACHINES["debian-12"], memory_mib=6144))


@pytest.fixture(scope="session")
def dom0(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host that runs under Xen."""
    yield from _booted(request, MACHINES["xen"])


@pytest.fixture(scope="session")
def large_dom0(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """The same with memory for guests of 2 GiB, in dom0 and beside it."""
    machine = replace(MACHINES["xen"], memory_mib=7168, boot=partial(boot_xen, dom0_mib=3584))
    yield from _booted(request, machine)


@pytest.fixture(scope="session")
def two_boots(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with GRUB, which boots Linux alone or under Xen, and reboots."""
    yield from _booted(request, MACHINES["grub"])


@pytest.fixture(scope="session")
def virtualbox(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with VirtualBox."""
    yield from _booted(request, MACHINES["virtualbox"])


@pytest.fixture(scope="session")
def nested_images(request: pytest.FixtureRequest) -> list[Image]:
    """The guest images of all machines: their disk is made once."""
    if not os.environ.get("VTAX_NESTED"):
        pytest.skip("emulating a whole machine takes long: ask for it with tests/run --nested, or VTAX_NESTED=1")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    home: Home = request.getfixturevalue("shared_home")
    image: Image = request.getfixturevalue("image")
    return [image, *(images.ensure(home, DEFAULT.with_packages(packages)) for packages in _LAYERS)]


def _booted(request: pytest.FixtureRequest, machine: MachineRecipe) -> Iterator[Nested]:
    found: list[Image] = request.getfixturevalue("nested_images")
    home: Home = request.getfixturevalue("shared_home")
    with booted(machine, home, found, LOCK, FILES) as nested:
        print(f"\n{machine.name} is up after {nested.boot_s:.0f} s")
        yield Nested(**vars(nested))
