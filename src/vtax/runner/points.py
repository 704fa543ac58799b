"""The combinations of levels that a study asks for, checked against tools, topologies and link settings."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from vtax.benchmarks import registry as benchmark_registry
from vtax.benchmarks.base import Benchmark, Context, Parameters
from vtax.errors import BadInput, placed
from vtax.image.image import Image
from vtax.network import registry as topology_registry
from vtax.network.settings import LinkSettings
from vtax.study.expand import DEFAULT_TOPOLOGY, RawPoint, key_of, points
from vtax.study.keys import refusal
from vtax.study.load import LoadedStudy
from vtax.study.units import format_levels

Surroundings = tuple[str, Hashable]
"""Tuning, and the network or None."""


@dataclass(frozen=True)
class Point:
    """A combination of levels, checked. key: hash of all that defines it except the platform."""

    key: str
    label: str
    benchmark: Benchmark
    parameters: Parameters
    topology: str
    link: LinkSettings | None
    levels: Mapping[str, Any]
    tuning: str = ""

    @property
    def surroundings(self) -> Surroundings:
        """What a guest must have been started with to run this point: tuning, topology, structure of its links."""
        return (self.tuning, (self.topology, self.link.structure()) if self.link else None)


def checked_points(loaded: LoadedStudy, image: Image) -> tuple[Point, ...]:
    """Every point of a study, in its order. Raises BadInput naming source, table and key.

    Addresses are of the right form only: nothing is made yet.
    """
    guest = loaded.study.guest
    context = Context(guest.vcpus, guest.memory, guest_address="198.18.0.1", peer_address="198.18.0.2")
    allowed = guest.model_dump()
    checked: dict[str, Point] = {}
    links: dict[Any, LinkSettings] = {}
    for raw in points(loaded.study):
        where = f"{loaded.source}: [[benchmark]] number {raw.table + 1} ({raw.label})"
        with placed(where):
            point = _checked_point(raw, context, image, allowed, links, where)
        _refuse_same(checked.get(point.key), point, where)
        checked[point.key] = point
    return tuple(checked.values())


def _refuse_same(known: Point | None, point: Point, where: str) -> None:
    """Raise BadInput for a point that another one of the study already is: `64KiB` and 65536 are one level."""
    if known is not None:
        same = " and ".join(format_levels(each.levels) or each.label for each in (known, point))
        raise BadInput(f"{same} are the same point", where=where, cure="measure it once: keep one of the two")


def _checked_point(
    raw: RawPoint,
    context: Context,
    image: Image,
    guest: Mapping[str, Any],
    links: dict[Any, LinkSettings],
    where: str,
) -> Point:
    with placed(f"{where}, key name"):
        benchmark = benchmark_registry.get(raw.benchmark)
    parameters = _checked_parameters(benchmark, raw, where)
    topology, link = "", None
    if benchmark.needs_network:
        topology = raw.topology or DEFAULT_TOPOLOGY
        link = _checked_link(raw, topology, where, links)
    elif raw.topology or raw.link:
        raise BadInput(
            f"{raw.benchmark} uses no network, so topology and link have no place",
            where=f"{where}, key {'topology' if raw.topology else _link_key(raw, next(iter(raw.link)))}",
            cure="take that key out, or choose a network benchmark such as iperf3",
        )
    benchmark.commands(parameters, context)
    defining = {
        "benchmark": benchmark.name,
        "parameters": parameters.model_dump(mode="json"),
        "topology": topology,
        "link": _defining(link) if link else {},
        "guest": guest,
        "image": image.key,
    }
    if raw.tuning:
        defining["tuning"] = raw.tuning
    return Point(key_of(defining), raw.label, benchmark, parameters, topology, link, raw.levels, raw.tuning)


def _checked_link(raw: RawPoint, topology: str, where: str, known: dict[Any, LinkSettings]) -> LinkSettings:
    """The settings of a point's links, checked against this host. known: those that were checked before."""
    given = (topology, *((name, type(value), value) for name, value in raw.link.items()))
    if given not in known:
        with placed(f"{where}, key topology"):
            chosen = topology_registry.get(topology)
        link = _parsed_link(raw, topology, where)
        with placed(f"{where}, keys topology and link"):
            chosen.check(link)
        known[given] = link
    return known[given]


def _parsed_link(raw: RawPoint, topology: str, where: str) -> LinkSettings:
    try:
        return topology_registry.settings(topology, raw.link)
    except topology_registry.ForeignSetting as error:
        raise BadInput(error.what, where=f"{where}, key {_link_key(raw, error.setting)}", cure=error.cure) from error
    except BadInput as error:
        cause = error.__cause__
        location = cause.errors()[0]["loc"] if isinstance(cause, ValidationError) else ()
        key = _link_key(raw, str(location[0])) if location else "link"
        raise BadInput(error.what, where=f"{where}, key {key}", cure=error.cure) from error


def _defining(link: LinkSettings) -> dict[str, Any]:
    """Link settings as keys of cells contain them: in the form from before topologies declared settings of their own,
    so that the cells of stored runs keep their keys."""
    plain = link.model_dump(mode="json")
    return {"pairs": 1, "cards": plain.pop("interfaces", 1), **plain}


def _link_key(raw: RawPoint, setting: str) -> str:
    return f"{'link_factors' if f'link.{setting}' in raw.levels else 'link'}.{setting}"


def _checked_parameters(benchmark: Benchmark, raw: RawPoint, where: str) -> Parameters:
    try:
        return benchmark.Parameters.model_validate(dict(raw.parameters))
    except ValidationError as error:
        place, told = refusal(benchmark.Parameters, error, "parameter")
        name = ".".join(map(str, place))
        table = "factors" if name in raw.levels else "parameters"
        raise BadInput(
            f"{benchmark.name}: {told}",
            where=f"{where}, key {table}.{name}" if name else where,
            cure=f"vtax benchmarks {benchmark.name} explains every parameter",
        ) from error
