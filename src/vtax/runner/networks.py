"""Checks the network requirements of a study against platforms and other machines before the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtax.benchmarks.base import Context
from vtax.errors import BadInput, placed
from vtax.network import registry as topology_registry
from vtax.network.plugboard import Machine
from vtax.platforms.base import PeerDriver, Platform
from vtax.runner.points import Point


def why_not(platform: Platform, point: Point, source: str) -> BadInput | None:
    """Why a platform's interfaces cannot do what a point's links request; None when they can."""
    if point.link is None:
        return None
    if not platform.driver.joins_topologies:
        return BadInput(
            f"{point.label} needs a network, and interfaces of {platform.name} cannot be joined to a topology",
            where=f"{source}: key platforms",
            hint=f"take network benchmarks out of studies with {platform.name}",
        )
    try:
        _refuse_beyond(platform, point, source)
    except BadInput as error:
        return error
    return None


def check_peers(
    points: Sequence[Point], resolve: Callable[[str, str], Platform], source: str, *, starting: bool = True
) -> None:
    """Raise BadInput when a machine that a study names as peer cannot be reached, or lacks what its points need.

    resolve: from a platform's name and where it is asked for to the platform. starting: whether programs that the
    study names may be started to find out.
    """
    wanted: dict[Machine, list[Point]] = {}
    for point in points:
        if point.link and (machine := topology_registry.get(point.topology).machine(point.link)):
            wanted.setdefault(machine, []).append(point)
    for machine, asking in wanted.items():
        peer, where = machine.platform, f"{source}: link setting peer of {asking[0].label}"
        platform = resolve(peer, where)
        driver = platform.driver
        if not isinstance(driver, PeerDriver):
            raise BadInput(
                f"{peer} is a platform of driver {driver.name}, and a peer is another machine",
                where=where,
                hint="peer = 'ssh:HOST', or the name of a [[platform]] of driver ssh",
            )
        if platform.host_programs and not starting:
            continue
        programs = list(dict.fromkeys(program for point in asking for program in _programs(point)))
        with placed(where):
            for mtu in sorted({point.link.mtu for point in asking if point.link}):
                driver.check_peer(platform.options, machine.nic, mtu, programs)


def _programs(point: Point) -> list[str]:
    """What a benchmark runs on its peer."""
    context = Context(1, 1, guest_address="198.18.0.1", peer_address="198.18.0.2")
    commands = [c for c in point.benchmark.commands(point.parameters, context) if c.place == "peer"]
    return [c.argv[0] for c in commands if c.argv[0] not in [file.path for file in c.files]]


def _refuse_beyond(platform: Platform, point: Point, source: str) -> None:
    """Raise BadInput when a point's links are beyond the limits of a platform's interfaces."""
    assert point.link is not None
    limits, topology = platform.network_limits, topology_registry.get(point.topology)
    name, label, link = platform.name, point.label, point.link

    def refuse(what: str, hint: str, *, where: str) -> BadInput:
        return BadInput(what, where=f"{source}: key platforms, and {where} of {label}", hint=hint)

    if link.attachment in limits.not_attached:
        what = f"the network interfaces of {name} cannot be joined by {link.attachment}, and {label} requests it"
        others = ", ".join(each for each in topology.attachments if each not in limits.not_attached)
        raise refuse(what, f"take {name} out, or request one of {others}", where="link setting attachment")
    if link.mtu > limits.mtu:
        most, wanted = limits.mtu, link.mtu
        what = f"the network interfaces of {name} carry an MTU of at most {most}, and {label} requests {wanted}"
        raise refuse(what, f"take {name} out, or request at most {most}", where="link setting mtu")
    if link.queues > limits.queues:
        most, wanted = limits.queues, link.queues
        what = f"the network interfaces of {name} have at most {most} queues, and {label} requests {wanted}"
        if most == 1:
            what = f"the network interfaces of {name} have at most 1 queue, and {label} requests {wanted}"
        raise refuse(what, f"take {name} out, or request at most {most}", where="link setting queues")
    if topology.forwards and not limits.forwards:
        raise refuse(
            f"{point.topology} needs guests that route between their interfaces, and the network stack of "
            f"{name} drops large packets that a router receives",
            f"take {name} out",
            where="topology",
        )
    if (needed := topology.interfaces(link)) > limits.interfaces:
        most = limits.interfaces
        raise refuse(
            f"{point.topology} needs guests with {needed} network interfaces, and those of {name} have "
            f"at most {most}",
            f"take {name} out",
            where="topology",
        )
