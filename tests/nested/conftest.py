"""The nested machines that tests share: each booted once, when asked for, since booting and all in it take long."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from nested.machines import MACHINES, MachineRecipe, boot_xen
from nested.running import booted
from nested.tested import FILES, LOCK, Nested

from vtax.cli.needed_image import packages_for
from vtax.host.home import Home
from vtax.image import build as images
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT
from vtax.network import registry
from vtax.study.load import load

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
def images_of_boots(request: pytest.FixtureRequest) -> list[Image]:
    """The usual guest image, and that of the study `mitigations`."""
    return _images(request, [packages_for(load("mitigations").study)])


@pytest.fixture
def two_boots(
    request: pytest.FixtureRequest, images_of_boots: list[Image]
) -> Iterator[tuple[Nested, int]]:
    """(A host with GRUB that boots Linux alone or under Xen; the port of the loopback that leads to its sshd)."""
    yield from _rebooted(request, MACHINES["grub"], images_of_boots[:1])


@pytest.fixture
def two_kernels(
    request: pytest.FixtureRequest, images_of_boots: list[Image]
) -> Iterator[tuple[Nested, int]]:
    """The same without Xen, so without counting instructions."""
    alone = MACHINES["debian-12"]
    machine = replace(MACHINES["grub"], cpu=alone.cpu, accel=alone.accel, vcpus=alone.vcpus)
    yield from _rebooted(request, machine, images_of_boots)


@pytest.fixture(scope="session")
def virtualbox(request: pytest.FixtureRequest) -> Iterator[Nested]:
    """A host with VirtualBox."""
    yield from _booted(request, MACHINES["virtualbox"])


def _images(
    request: pytest.FixtureRequest, layers: Sequence[Sequence[str]] = _LAYERS
) -> list[Image]:
    """The usual guest image, and one for each of the layers over it."""
    if not os.environ.get("VTAX_NESTED"):
        pytest.skip(
            "emulating a whole machine takes long: ask for it with tests/run --nested, or VTAX_NESTED=1"
        )
    if os.geteuid() != 0:
        pytest.skip("needs root")
    home: Home = request.getfixturevalue("shared_home")
    image: Image = request.getfixturevalue("image")
    return [image, *(images.ensure(home, DEFAULT.with_packages(packages)) for packages in layers)]


def _booted(
    request: pytest.FixtureRequest,
    machine: MachineRecipe,
    found: Sequence[Image] = (),
    files: Mapping[str, Path] = FILES,
) -> Iterator[Nested]:
    """found: the guest images in it; those of _LAYERS by default. files: beside vtax."""
    home: Home = request.getfixturevalue("shared_home")
    with booted(machine, home, found or _images(request), LOCK, files) as nested:
        print(f"\n{machine.name} is up after {nested.boot_s:.0f} s")
        yield Nested(**vars(nested))


def _rebooted(
    request: pytest.FixtureRequest, machine: MachineRecipe, found: Sequence[Image]
) -> Iterator[tuple[Nested, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nic = f"user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
    for nested in _booted(request, replace(machine, nic=nic), found, {}):
        yield nested, port
