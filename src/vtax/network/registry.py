"""Finds topologies: modules of `vtax.network.topologies` that define `TOPOLOGY`, and entry points of that group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache

import vtax.network.topologies
from vtax.errors import BadInput
from vtax.host.plugins import discover
from vtax.network.topology import Topology


@cache
def topologies() -> Mapping[str, Topology]:
    """All topologies by name."""
    found: Mapping[str, Topology] = discover(vtax.network.topologies, "TOPOLOGY", Topology)
    return found


def packages_of(names: Iterable[str]) -> tuple[str, ...]:
    """What the image must hold beyond the usual for these topologies; unknown ones are left out."""
    known = topologies()
    return tuple(p for name in dict.fromkeys(names) if name in known for p in known[name].packages)


def get(name: str) -> Topology:
    """The topology of a name. Raises BadInput with the nearest names."""
    if name in topologies():
        return topologies()[name]
    near = get_close_matches(name, topologies(), 3)
    raise BadInput(
        f"there is no topology {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""),
        cure=f"topologies: {', '.join(sorted(topologies()))}",
    )
