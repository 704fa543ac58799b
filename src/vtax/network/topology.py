"""What every topology is: where the ends stand and how they are joined.

A topology is one module in `vtax.network.topologies` (or an entry point of that group) that defines `TOPOLOGY`. It
knows nothing of platforms or benchmarks: it makes ends, and the runner starts a guest at each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vtax.errors import BadInput
from vtax.host.journal import Journal
from vtax.network.lab import Lab
from vtax.network.links import Links
from vtax.network.settings import Attachment, LinkSettings, check_congestion
from vtax.network.uplink import check_nic

__all__ = ["Links", "Topology"]


@dataclass(frozen=True)
class Topology:
    """A way to join guests.

    guests: of the platform under test, by settings. cards: of each of them, by settings. natives: how many native
    ends it has. forwards: whether guests must route between their cards. attachments: the ones it can be built with.
    mtu: the largest that what it is built with carries.
    far: whether its native end can stand on another machine. packages: what the image must hold beyond the usual.
    check_host: raises BadInput when the host lacks what it is built with. wire: makes the ends and flows in a lab;
    the lab is removed when it raises.
    """

    name: str
    summary: str
    wire: Callable[[Lab, LinkSettings], Links]
    guests: Callable[[LinkSettings], int] = lambda settings: 1
    cards: Callable[[LinkSettings], int] = lambda settings: 1
    natives: int = 1
    forwards: bool = False
    attachments: tuple[Attachment, ...] = ("bridge",)
    mtu: int = 65535
    far: bool = False
    packages: tuple[str, ...] = ()
    check_host: Callable[[], None] = lambda: None

    def check(self, link: Mapping[str, Any]) -> LinkSettings:
        """The settings, if this topology can be built here with them. Raises BadInput naming what is wrong."""
        self.check_host()
        settings = LinkSettings.of(link)
        check_congestion(settings)
        if settings.attachment not in self.attachments:
            raise BadInput(
                f"link setting attachment: {self.name} cannot be built with {settings.attachment}",
                cure=f"attachments of {self.name}: {', '.join(self.attachments)}",
            )
        if settings.mtu > self.mtu:
            raise BadInput(
                f"link setting mtu: {self.name} carries an MTU of at most {self.mtu}, not {settings.mtu}",
                cure=f"ask for at most {self.mtu}",
            )
        if settings.peer:
            self._check_far(settings)
        for name in ("cards", "pairs"):
            if getattr(settings, name) != 1 and not self._uses(name):
                raise BadInput(f"link setting {name}: {self.name} has a fixed number of {name}")
        return settings

    def build(self, journal: Journal, link: Mapping[str, Any]) -> Links:
        """Make the lab and its links. Raises BadInput, NetworkError or CommandFailed, leaving nothing behind."""
        settings = self.check(link)
        lab = Lab(journal)
        try:
            return self.wire(lab, settings)
        except BaseException:
            lab.close()
            raise

    def _check_far(self, settings: LinkSettings) -> None:
        if not self.far:
            raise BadInput(
                f"link setting peer: no end of {self.name} can stand on another machine", cure="use point-to-point"
            )
        if settings.attachment != "bridge":
            raise BadInput(
                f"link setting attachment: {settings.attachment} does not lead to another machine", cure="use bridge"
            )
        check_nic(settings.nic, settings.mtu)

    def _uses(self, name: str) -> bool:
        one, two = LinkSettings(), LinkSettings.model_validate({name: 2})
        return (self.guests(one), self.cards(one)) != (self.guests(two), self.cards(two))
