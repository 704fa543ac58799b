"""Finds topologies: modules that register one, of `vtax.network.topologies`, of files and of other
packages.

Whoever asks for a topology by its name knows its settings as LinkSettings only. They are an instance of its own class
when they come from `settings`, and `Topology.own` refuses any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from vtax.errors import BadInput, nearest_of
from vtax.host.plugins import Origin, discover, origins
from vtax.network.settings import LinkSettings
from vtax.network.topology import Topology


@cache
def topologies() -> Mapping[str, Topology[LinkSettings]]:
    """Return all topologies by name."""
    by_name: Mapping[str, Topology[LinkSettings]] = discover("topology", Topology)
    return by_name


def foreign() -> Mapping[str, Origin]:
    """Return where topologies that vtax does not ship come from, by name."""
    return origins("topology", Topology)


def packages_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return what the image must hold beyond the usual for these topologies; unknown ones are left out."""
    registered = [topologies()[name] for name in dict.fromkeys(names) if name in topologies()]
    return tuple(package for topology in registered for package in topology.packages)


def get(name: str) -> Topology[LinkSettings]:
    """Return the topology of a name. Raises BadInput with the nearest names."""
    if name in topologies():
        return topologies()[name]
    raise BadInput(
        f"there is no topology {name!r}{nearest_of(name, topologies())}",
        hint=f"known: {', '.join(sorted(topologies()))}",
    )


class ForeignSetting(BadInput):
    """A link setting that only other topologies have. setting: its name."""

    def __init__(self, topology: str, setting: str, owners: Iterable[str]) -> None:
        super().__init__(
            f"link setting {setting}: {topology} has no such setting",
            hint=f"leave it out; it is a setting of {', '.join(owners)}",
        )
        self.setting = setting


def settings(name: str, values: Mapping[str, Any]) -> LinkSettings:
    """Return the link settings of a topology from a study's values, parsed once.

    Raises BadInput, also for a topology that does not exist, and ForeignSetting.
    """
    topology = get(name)
    for setting in values:
        owners = [
            other.name for other in topologies().values() if setting in other.Settings.model_fields
        ]
        if owners and name not in owners:
            raise ForeignSetting(name, setting, owners)
    parsed: LinkSettings = topology.Settings.of(values)
    return parsed
