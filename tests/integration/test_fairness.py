"""What a program finds in a guest of every driver that runs here, beside what it finds on native."""

from __future__ import annotations

import pytest
from support import needs_root, thorough

from vtax.conformance import fair
from vtax.conformance.check import Skipped
from vtax.conformance.platform import check_places
from vtax.conformance.stage import CheckEnvironment, GuestStage
from vtax.host.home import Home
from vtax.image.image import Image
from vtax.platforms import alike, registry
from vtax.platforms.base import Platform

pytestmark = [needs_root]
ALIKE = ("qemu-tcg-e1000", "qemu-tcg-rtl8139", "qemu-tcg-virtio")  # qemu-tcg with other devices


@pytest.fixture
def environment(private_home: Home, image: Image) -> CheckEnvironment:
    return CheckEnvironment(private_home, image)


def available(name: str, environment: CheckEnvironment) -> Platform:
    platform = registry.get(name)
    found = platform.probe(environment.image)
    if not found.available:
        pytest.skip(f"{name} does not run here: {found.reason}")
    return platform


def unlike(name: str, environment: CheckEnvironment) -> list[str]:
    platform, native = available(name, environment), registry.get("native")
    with GuestStage(environment) as stage:
        running, beside = stage.start(platform), stage.start(native, role="native")
        here = fair.read_facts(stage.guest(), running)
        native_finds = fair.read_facts(stage.guest("native"), beside)
    declared = platform.driver.differences(platform.options)
    has_own_kernel = platform.driver.isolation(platform.options) == "kernel"
    return fair.undeclared(here, native_finds, declared, has_own_kernel=has_own_kernel)


@pytest.mark.parametrize(
    "name", [*(name for name in registry.names() if name not in ALIKE), *thorough(*ALIKE)]
)
def test_a_program_finds_what_it_finds_on_native(name, environment):
    assert unlike(name, environment) == []


@pytest.mark.parametrize("name", [name for name in registry.names() if name not in ALIKE])
def test_files_lie_where_they_are_asked_to(name, environment):
    platform = available(name, environment)
    with GuestStage(environment) as stage:
        try:
            check_places(stage, platform)
        except Skipped as skipped:
            pytest.skip(str(skipped))


def test_what_a_runtime_gives_by_itself_is_found_out(environment, monkeypatch):
    """Else the check itself is blind: without what all guests are given, one has other names and a smaller /dev/shm."""
    monkeypatch.setattr(alike, "give", lambda *_: None)
    found = unlike("nspawn", environment)
    assert [line for line in found if line.startswith("/dev/shm")]
