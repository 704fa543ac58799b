"""Checks the network requirements of a study against platforms and other machines before the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtax.errors import BadInput, placed
from vtax.messages import Note
from vtax.platforms.base import MachineDriver, Platform
from vtax.runner.points import Point


def network_obstacle(platform: Platform, point: Point, source: str) -> BadInput | None:
    """Return why a platform's interfaces cannot do what a point's links request; None when they can."""
    if point.link is None:
        return None
    lacks_uplinks = isinstance(platform.driver, MachineDriver) and not platform.driver.uplinks(
        platform.options
    )
    if lacks_uplinks or not platform.driver.joins_topologies:
        hint = f"take network benchmarks out of studies with {platform.name}"
        if lacks_uplinks:
            hint = Note("hint-uplinks", name=platform.name)
        return BadInput(
            Note("needs-network", label=point.label, name=platform.name),
            where=f"{source}: key platforms",
            hint=hint,
        )
    needed = point.joined.interfaces(point.link)
    try:
        _refuse_beyond(platform, point, needed, source, forwards=point.joined.forwards)
    except BadInput as error:
        return error
    return None


def check_machines(
    points: Sequence[Point],
    resolve: Callable[[str, str], Platform],
    source: str,
    *,
    starting: bool = True,
) -> None:
    """Raise BadInput when a machine that a study names for an end cannot be reached, or lacks what its points
    need.

    resolve: from a platform's name and where it is asked for to the platform. starting: whether programs that the
    study names may be started to find out.
    """
    wanted: dict[str, list[tuple[str, Point]]] = {}
    for point in points:
        for role, name in point.machines.items():
            asking = wanted.setdefault(name, [])
            if any(other is point for _, other in asking):
                raise BadInput(
                    f"{name} is at two ends of {point.topology}",
                    where=f"{source}: link setting {role} of {point.label}",
                    hint="name a machine of its own for each end, or leave one on this host",
                )
            asking.append((role, point))
    for name, asking in wanted.items():
        role, first = asking[0]
        where = f"{source}: link setting {role} of {first.label}"
        platform = resolve(name, where)
        driver = platform.driver
        if not isinstance(driver, MachineDriver):
            raise BadInput(
                f"{name} is a platform of driver {driver.name}, and no other machine",
                where=where,
                hint=f"{role} = 'ssh:HOST/NIC:NIC_THERE', or the name of a [[platform]] of driver ssh with uplinks",
            )
        if not driver.uplinks(platform.options):
            raise BadInput(
                f"nothing says which network interfaces join {name} to this host",
                where=where,
                hint=f"{role} = 'ssh:HOST/NIC:NIC_THERE', or uplinks = 'NIC:NIC_THERE' in its [[platform]]",
            )
        for _, point in asking:
            _refuse_beyond(platform, point, _interfaces_there(point), source)
        if platform.host_programs and not starting:
            continue
        programs: dict[str, None] = {}
        mtus = set()
        for _, point in asking:
            programs.update(dict.fromkeys(_native_programs(point)))
            if point.link:
                mtus.add(point.link.mtu)
        with placed(where):
            for mtu in sorted(mtus):
                driver.check_machine(platform.options, mtu, list(programs))
    _refuse_shared([resolve(name, source) for name in wanted], source)


def _interfaces_there(point: Point) -> int:
    """Return how many interfaces lead to a machine: one for each trunk to another half; else those of a native end.

    A native end has as many as the guest where it is the only one, else one for each guest.
    """
    topology = point.joined
    if topology.wire_there and point.link:
        return topology.trunks(point.link)
    if len(topology.natives) == 1 and point.link:
        return topology.interfaces(point.link)
    return point.colocation.guests


def _refuse_shared(machines: Sequence[Platform], source: str) -> None:
    """Raise BadInput for two machines behind one interface of this host."""
    behind: dict[str, str] = {}
    for machine in machines:
        assert isinstance(machine.driver, MachineDriver)
        for uplink in machine.driver.uplinks(machine.options):
            if behind.setdefault(uplink.here, machine.name) != machine.name:
                raise BadInput(
                    f"{uplink.here} of this host leads to {behind[uplink.here]} and to {machine.name}",
                    where=source,
                    hint="use an interface of its own for every machine",
                )


def _native_programs(point: Point) -> list[str]:
    """Return a benchmark's programs at native ends: its server, and its client too where both ends are native."""
    topology = point.joined
    if topology.wire_there:  # they are in the image
        return []
    programs = point.programs("peer")
    if len(topology.natives) > 1:
        programs = point.programs("peer", "guest")
    if len(point.machines) > 1:
        # nobody is here to send the packet that proves a link, see Links.verify
        programs = [*programs, "ping"]
    return programs


def _refuse_beyond(
    platform: Platform, point: Point, interfaces: int, source: str, *, forwards: bool = False
) -> None:
    """Raise BadInput when a point's links are beyond the limits of a platform's interfaces.

    interfaces: how many an end needs. forwards: whether it must route between them.
    """
    assert point.link is not None
    limits, topology = platform.network_limits, point.joined
    name, label, link = platform.name, point.label, point.link

    def refuse(what: str, hint: str, *, where: str) -> BadInput:
        return BadInput(what, where=f"{source}: key platforms, and {where} of {label}", hint=hint)

    if link.attachment in limits.not_attached:
        what = Note("not-joined-by", name=name, attachment=link.attachment, label=label)
        others = [kind for kind in topology.attachments if kind not in limits.not_attached]
        hint = Note("hint-without", name=name)
        if others:
            hint = Note("hint-others", name=name, others=", ".join(others))
        raise refuse(what, hint, where="link setting attachment")
    most = min(limits.mtu, limits.engine_mtu) if link.attachment == "own-nat" else limits.mtu
    if link.mtu > most:
        wanted = link.mtu
        what = Note("mtu-beyond", name=name, most=most, label=label, wanted=wanted)
        raise refuse(what, Note("hint-at-most", name=name, most=most), where="link setting mtu")
    if link.queues > limits.queues:
        most, wanted = limits.queues, link.queues
        what = Note("queues-beyond", name=name, most=most, label=label, wanted=wanted)
        if most == 1:
            what = Note("one-queue", name=name, label=label, wanted=wanted)
        raise refuse(what, Note("hint-at-most", name=name, most=most), where="link setting queues")
    if forwards and not limits.forwards:
        raise refuse(
            Note("no-routing", topology=point.topology, name=name),
            Note("hint-without", name=name),
            where="topology",
        )
    if interfaces > limits.interfaces:
        numbers = {"needed": interfaces, "most": limits.interfaces}
        what = Note("interfaces-beyond", topology=point.topology, name=name, **numbers)
        hint = Note("hint-without", name=name)
        if isinstance(platform.driver, MachineDriver):
            form = "/".join(["NIC:NIC_THERE"] * interfaces)
            hint = Note("hint-more-uplinks", name=name, needed=interfaces, form=form)
        raise refuse(what, hint, where="topology")
