"""Guests for checks: an image, a journal, and native guests at the ends of a topology."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from vtax.conformance.check import Skipped
from vtax.guest.guest import Guest
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image.build import checked
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT, Recipe
from vtax.network.end import NetworkEnd
from vtax.network.links import Links
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Platform, Resources, RunningGuest
from vtax.runner.counting import Endpoint
from vtax.runner.open_guest import READY_TIMEOUT_S
from vtax.study.fields import Privilege, Scratch

MEMORY_BYTES = 512 << 20


@dataclass(frozen=True)
class CheckEnvironment:
    """The environment of guests. image: None without a built image or without root; reason: why."""

    home: Home
    image: Image | None
    reason: str = ""

    @classmethod
    def here(cls, recipe: Recipe = DEFAULT) -> CheckEnvironment:
        """Return the environment of this host. recipe: of the image that guests need."""
        home = Home.from_environment()
        if os.geteuid() != 0:
            return cls(home, None, "guests are started as root")
        image = checked(home, recipe)
        build = " ".join(
            ("sudo vtax image build", *(f"--with {package}" for package in recipe.layer))
        )
        if recipe.data:
            build = (
                f"sudo vtax image build STUDY, a study that needs the data {recipe.data[0].name}"
            )
        return cls(home.ensure(), image, "" if image else f"the guest image is not built: {build}")

    def need_image(self) -> Image:
        """Return the image. Raises Skipped without one."""
        if self.image is None:
            raise Skipped(self.reason)
        return self.image


class GuestStage:
    """A journal and the guests started with it. On exit, guests are stopped and the journal is closed."""

    def __init__(self, environment: CheckEnvironment) -> None:
        self.image = environment.need_image()
        self._home = environment.home
        self._stack = ExitStack()
        self.journal = self._stack.enter_context(Journal(environment.home.journal))
        self.endpoints: dict[str, Endpoint] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def directory(self, name: str) -> Path:
        """Return a private directory for a guest, registered."""
        path = self._home.guests / name
        self._stack.callback(self.journal.register(Tree(str(path))).release)
        path.mkdir(parents=True)
        return path

    def spec(
        self,
        end: NetworkEnd | None = None,
        privileges: frozenset[Privilege] = frozenset(),
        scratch: Scratch = "volume",
    ) -> GuestSpec:
        """Return a guest with one vCPU, connected to an end."""
        name = f"vtax-{secrets.token_hex(3)}"
        resources = Resources(1, MEMORY_BYTES, tuple(sorted(os.sched_getaffinity(0)))[-1:])
        directory = self.directory(name)
        return GuestSpec(
            name, self.image, resources, directory, self.journal, end, privileges, scratch
        )

    def start(
        self,
        platform: Platform,
        end: NetworkEnd | None = None,
        role: str = "guest",
        privileges: frozenset[Privilege] = frozenset(),
    ) -> RunningGuest:
        """Start a guest and wait for its agent."""
        return self.started(platform, self.spec(end, privileges), role)

    def started(self, platform: Platform, spec: GuestSpec, role: str = "guest") -> RunningGuest:
        """Start a guest of a spec and wait for its agent."""
        running_guest = platform.start(spec)
        self._stack.callback(running_guest.stop)
        guest = Guest(running_guest.channel)
        self._stack.callback(guest.close)
        guest.hello(timeout_s=READY_TIMEOUT_S * timeout_factor())
        if platform.driver.uses_image:
            guest.set_limits()
        self.endpoints[role] = Endpoint(running_guest, guest)
        return running_guest

    def guest(self, role: str = "guest") -> Guest:
        """Return the agent connection of a started guest."""
        return self.endpoints[role].guest

    def start_ends(self, links: Links, platforms: Mapping[str, Platform]) -> None:
        """Start a guest that can ping at every end: of the role's platform, else native. The links are closed on exit."""
        self._stack.callback(links.close)
        for end in links.ends:
            platform = platforms.get(end.role) or registry.get("native")
            self.start(platform, end, end.role, frozenset({"raw-sockets"}))
            end.connected(self.guest(end.role).output_of)
