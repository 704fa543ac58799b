"""The nested machines that tests share: each booted once, when asked for, since booting and all in it take long."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest
from nested.tested import CHECKOUT, LOCK, SENT, Nested

from vtax.demo.machines import MACHINES
from vtax.demo.running import booted
from vtax.host.home import Home
from vtax.image import build as images
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT
from vtax.network import registry


@pytest.fixture(scope="session")
def nested(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with KVM, systemd, cgroup v2 and Docker."""
    yield from _booted(request, "debian-12")


@pytest.fixture(scope="session")
def dom0(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host that runs under Xen."""
    yield from _booted(request, "xen", registry.get("router-openflow").packages)


@pytest.fixture(scope="session")
def two_boots(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with GRUB, which boots Linux alone or under Xen, and reboots."""
    yield from _booted(request, "grub")


@pytest.fixture(scope="session")
def virtualbox(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with VirtualBox."""
    yield from _booted(request, "virtualbox")


def _booted(request: pytest.FixtureRequest, name: str, packages: Sequence[str] = ()) -> Iterator[Nested]:
    """packages: of a second guest image, a layer over the usual one."""
    if not os.environ.get("VTAX_NESTED"):
        pytest.skip("emulating a whole machine takes long: ask for it with tests/run --nested, or VTAX_NESTED=1")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    home: Home = request.getfixturevalue("shared_home")
    found: list[Image] = [request.getfixturevalue("image")]
    if packages:
        found.append(images.ensure(home, DEFAULT.with_packages(packages)))
    with booted(MACHINES[name], home, found, LOCK, {each: CHECKOUT / each for each in SENT}) as machine:
        print(f"\n{machine.machine.name} is up after {machine.boot_s:.0f} s")
        yield Nested(**vars(machine))
