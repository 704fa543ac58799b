"""Base of every topology: where the ends stand and how they are joined.

A topology is one module in `vtax.network.topologies`, or in another package that has an entry point of that group,
which calls `register_topology`. It knows nothing of platforms or benchmarks: it makes ends, and the runner starts a guest at each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from vtax.errors import BadInput
from vtax.host.journal import Journal
from vtax.host.plugins import register
from vtax.network.lab import Lab
from vtax.network.links import Links
from vtax.network.settings import Attachment, LinkSettings, check_congestion
from vtax.network.wire import check_wire

__all__ = ["Links", "Topology", "register_topology"]
_THERE = "peer"
S = TypeVar("S", bound=LinkSettings)


@dataclass(frozen=True)
class Topology(Generic[S]):
    """A way to join guests.

    name: in a study.
    summary: one line for the user.
    drawing: its ends, their interfaces and what joins them, as lines of text.
    wire: makes the ends and flows in a lab; the lab is removed when it raises.
    Settings: its link settings, a class derived from LinkSettings when it has some of its own.
    guests: how many guests of the platform under test, by settings.
    interfaces: of each of them, by settings.
    natives: roles of its native ends; an end stands on another machine when a setting of its name says so (`Elsewhere`).
    forwards: whether guests must route between their interfaces.
    joins_several: whether it joins as many guests side by side as a lab asks for (`Lab.guests`), a flow for each.
    attachments: the ones it can be built with.
    max_mtu: the largest that its links can carry.
    packages: packages that the image must have beyond the usual.
    check_host: raises BadInput when the host lacks a program or kernel module that it needs.
    wire_there: makes the half of it on the machine that the setting `peer` names, with guests of the platform; `wire`
        makes the other half then.
    trunks: how many networks both halves share, an uplink each.
    """

    name: str
    summary: str
    wire: Callable[[Lab, S], Links]
    Settings: type[S] = LinkSettings  # type: ignore[assignment]  # a default of S, which Python 3.11 cannot declare
    guests: Callable[[S], int] = lambda settings: 1
    interfaces: Callable[[S], int] = lambda settings: 1
    natives: tuple[str, ...] = ("peer",)
    forwards: bool = False
    joins_several: bool = False
    attachments: tuple[Attachment, ...] = ("bridge",)
    max_mtu: int = 65535
    packages: tuple[str, ...] = ()
    check_host: Callable[[], None] = lambda: None
    wire_there: Callable[[Lab, S], Links] | None = None
    trunks: Callable[[S], int] = lambda settings: 1
    drawing: str = ""

    def own(self, settings: LinkSettings) -> S:
        """Return settings as an instance of this topology's class. Raises TypeError for those of another one."""
        if not isinstance(settings, self.Settings):
            raise TypeError(
                f"{self.name} needs {self.Settings.__name__}, not {type(settings).__name__}"
            )
        return settings

    def machines(self, settings: LinkSettings) -> dict[str, str]:
        """Return the platforms that reach the machines of those ends that are not on this host, by role."""
        roles = [*self.natives]
        if self.wire_there:
            roles.append(_THERE)
        platforms = {role: getattr(settings, role, "") for role in roles}
        return {role: platform for role, platform in platforms.items() if platform}

    def other_machine(self, settings: LinkSettings) -> str:
        """Return the platform that reaches the machine with the other half; empty when all of it is here."""
        return self.machines(settings).get(_THERE, "") if self.wire_there else ""

    def guests_there(self, settings: LinkSettings) -> int:
        """Return how many of the guests stand on the other machine: those that serve, one of two."""
        return self.guests(self.own(settings)) // 2 if self.other_machine(settings) else 0

    def check(self, settings: LinkSettings) -> None:
        """Raise BadInput, naming what is wrong, unless this topology can be built here with these settings."""
        self.own(settings)
        self.check_host()
        check_congestion(settings)
        check_wire(settings)
        if settings.attachment not in self.attachments:
            raise BadInput(
                f"link setting attachment: {self.name} cannot be built with {settings.attachment}",
                hint=f"attachments of {self.name}: {', '.join(self.attachments)}",
            )
        if settings.mtu > self.max_mtu:
            raise BadInput(
                f"link setting mtu: {self.name} carries an MTU of at most {self.max_mtu}, not {settings.mtu}",
                hint=f"choose at most {self.max_mtu}",
            )

    def build(self, journal: Journal, settings: LinkSettings, guests: int = 1) -> Links:
        """Make the lab and its links, for several guests side by side where it joins them.

        Raises BadInput, NetworkError or CommandFailed and removes the lab then.
        """
        return self._built(self.wire, journal, settings, guests)

    def build_there(self, journal: Journal, settings: LinkSettings) -> Links:
        """Make the half that stands on this machine for a run on another one. Raises as `build`."""
        assert self.wire_there is not None
        return self._built(self.wire_there, journal, settings)

    def _built(
        self,
        wire: Callable[[Lab, S], Links],
        journal: Journal,
        settings: LinkSettings,
        guests: int = 1,
    ) -> Links:
        self.check(settings)
        lab = Lab(journal, guests)
        try:
            return wire(lab, self.own(settings))
        except BaseException:
            lab.close()
            raise


def register_topology(topology: Topology[S]) -> Topology[S]:
    """Register a topology in the module that calls this; returns it."""
    register("topology", topology)
    return topology
