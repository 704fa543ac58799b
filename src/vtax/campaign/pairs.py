"""Pairs of hosts: which measure, in which order, and which of the two begins. Pure.

Each pair of hosts is an edge of a complete graph. Its edges are coloured by the circle method (Kirkman, On a problem
in combinations, Camb. Dublin Math. J. 1847), a colour a round in which no host is in two pairs. Pairs that are
missing are matched greedily in that order: where all hosts answer that is the rounds, and nobody waits for one that
does not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, zip_longest

from vtax.campaign.directory import FILE
from vtax.campaign.host_record import ENDED, CampaignHost, HostSession, InventoryHost
from vtax.campaign.inventory import TEMPLATE
from vtax.campaign.launching import Due, too_many_failed
from vtax.campaign.settings import Pair, Pairs, Settings, is_open
from vtax.errors import BadInput
from vtax.network.lab import MAX_LABS
from vtax.platforms.ssh_options import PEER, SshOptions
from vtax.study.model import Study
from vtax.study.refusals import RefusedStudy, validated

_SSH = "ssh"
_MEASURED = ("done", "collected")


def peers_of(study: Study) -> list[str]:
    """Return the names of the machines of a study that a campaign of pairs names."""
    hosts = {
        each.name: str(each.options.get("host", ""))
        for each in study.platform
        if each.driver == _SSH
    }
    return [name for name, host in hosts.items() if host.partition("/")[0] == PEER]


def _machines_of(study: Study) -> list[str]:
    """Return the names of the machines that a study measures on, or joins by its links."""
    links = [
        level
        for of in study.benchmark
        for level in (*of.link.values(), *chain(*of.link_factors.values()))
    ]
    tables = {each.name for each in study.platform if each.driver == _SSH}
    named = dict.fromkeys(map(str, (*study.platforms, *links)))
    return [name for name in named if name in tables or name.startswith(f"{_SSH}:")]


def check_study(study: Study, source: str, inventory: str) -> None:
    """Raise BadInput for a study of pairs that no campaign can measure; nothing for one of single hosts."""
    peers, machines = peers_of(study), _machines_of(study)
    if inline := [name for name in machines if name.startswith(f"{_SSH}:{PEER}")]:
        raise BadInput(
            f"{inline[0]}: {PEER} needs a table of its own",
            where=source,
            hint="a [[platform]] of the driver ssh whose host is @peer",
        )
    if not peers:
        return
    if len(several := dict.fromkeys([*peers, *machines])) > 1:
        raise BadInput(
            f"{' and '.join(several)} are several machines, and a pair has one",
            where=source,
            hint="measure the others by a study of their own",
        )
    if study.boot:
        raise BadInput(
            "pairs are not rebooted", where=f"{source}: boot", hint="a campaign for each boot"
        )
    if not inventory:
        raise BadInput(
            "pairs need the addresses of their hosts", where=source, hint="--inventory FILE"
        )
    if peers[0] not in machines:
        raise BadInput(
            f"{peers[0]} is another machine that nothing is measured on or with",
            where=source,
            hint="list it in platforms, or as the peer of a link; else remove its table",
        )


def check_hosts(listed: Iterable[InventoryHost], settings: Settings) -> None:
    """Raise BadInput where hosts of a campaign of pairs cannot be paired; nothing for one of single hosts."""
    if (wanted := settings.pairs) is None:
        return
    hosts = [each for each in listed if not each.skip]
    where = settings.inventory
    if settings.change:
        raise BadInput(
            "a change of pairs is not judged",
            where=f"{FILE}: change",
            hint="remove one of the tables",
        )
    if len(hosts) < 2:
        raise BadInput(
            "a pair needs two hosts", where=where, hint="add hosts, or remove a vtax_skip"
        )
    for host in hosts:
        _check_host(host, where)
    _check_counts(hosts, wanted, where)
    known = {each.name for each in listed}
    if unknown := [name for pair in wanted.only for name in pair if name not in known]:
        raise BadInput(
            f"the inventory has no host {unknown[0]}", where=f"{FILE}: pairs.only", hint=where
        )


def _check_host(host: InventoryHost, where: str) -> None:
    """Raise BadInput for a host that the others cannot reach, or are not joined to."""
    for key, value in {
        "vtax_nic": host.nic,
        "vtax_address": host.peer_address,
        "vtax_home": host.home,
    }.items():
        if TEMPLATE.search(value):
            raise BadInput(
                f"{value} of {host.name} is a template, which the other host of a pair would fill in",
                where=f"{where}: {key}",
                hint="write what it stands for",
            )
    if not host.nic:
        raise BadInput(
            f"{host.name} names no interface that joins it to the other hosts",
            where=f"{where}: vtax_nic",
            hint="vtax_nic: eth1, of no use to anything else there",
        )
    if not _is_fit("uplinks", "/".join(f"{nic}:{nic}" for nic in host.nic.split("/"))):
        raise BadInput(
            f"{host.nic!r} of {host.name} are no names of interfaces",
            where=f"{where}: vtax_nic",
            hint="at most 15 characters each, several with a slash between: eth1/eth2",
        )
    for key, option, value in (
        ("vtax_address", "host", host.peer_address),
        ("vtax_home", "home", host.home),
    ):
        if value == PEER or not _is_fit(option, value):
            raise BadInput(
                f"{value!r} of {host.name} cannot be used by ssh",
                where=f"{where}: {key}",
                hint="letters, digits and . _ - +",
            )


def _is_fit(option: str, value: str) -> bool:
    """Return whether the driver of machines takes a value for that option."""
    try:
        validated(SshOptions, {"host": "other", "uplinks": "", option: value})
    except RefusedStudy:
        return False
    return True


def _check_counts(hosts: Sequence[InventoryHost], wanted: Pairs, where: str) -> None:
    """Raise BadInput where hosts that may be a pair have different numbers of interfaces."""
    counts, first = {host.name: host.nic.count("/") for host in hosts}, dict[str, str]()
    met = [
        (first.setdefault(host.group if wanted.within_groups else "", host.name), host.name)
        for host in hosts
    ]
    for a, b in wanted.only or met:
        if a in counts and b in counts and counts[a] != counts[b]:
            raise BadInput(
                f"{a} and {b} have different numbers of interfaces",
                where=f"{where}: vtax_nic",
                hint="name as many on each",
            )


def rounds_of(names: Sequence[str]) -> Iterator[list[Pair]]:
    """Yield the rounds in which every name meets every other once; of an odd number one rests in each.

    Who measures follows from the places of both in the list: each name as often, or once more, as it is the peer.
    """
    turning = [*range(len(names) + len(names) % 2)]
    half = len(turning) // 2
    for _ in turning[1:]:
        met = [sorted(each) for each in zip(turning[:half], reversed(turning[half:]), strict=True)]
        ends = [(a, b) if (a + b) % 2 else (b, a) for a, b in met if b < len(names)]
        yield [(names[a], names[b]) for a, b in ends]
        turning = [turning[0], turning[-1], *turning[1:-1]]


def wanted_pairs(hosts: Iterable[CampaignHost], settings: Settings) -> list[Pair]:
    """Return the pairs that the campaign asks for, in the order of their rounds; none of one of single hosts."""
    if (wanted := settings.pairs) is None:
        return []
    there = sorted(
        (host for host in hosts if not host.skip and host.state != "excluded"),
        key=lambda each: each.name,
    )
    names = {host.name for host in there}
    if wanted.only:
        return [
            pair
            for pair in {_key(*pair): pair for pair in wanted.only}.values()
            if names.issuperset(pair)
        ]
    if wanted.within_groups:
        there.sort(key=lambda each: each.group)
    groups = groupby(there, key=lambda each: each.group if wanted.within_groups else "")
    rounds = [[*rounds_of([host.name for host in of])][: wanted.rounds or None] for _, of in groups]
    return [
        pair
        for at_once in zip_longest(*rounds, fillvalue=())
        for of_group in at_once
        for pair in of_group
    ]


def missing(hosts: Sequence[CampaignHost], settings: Settings) -> dict[Pair, int]:
    """Return how many sessions of each pair are not in the store yet, of those that lack some."""
    launched = _launched(hosts)
    found = {
        pair: settings.sessions
        - sum(each.state == "collected" for _, each in launched.get(_key(*pair), ()))
        for pair in wanted_pairs(hosts, settings)
    }
    return {pair: count for pair, count in found.items() if count > 0}


def ended(hosts: Sequence[CampaignHost], settings: Settings) -> list[CampaignHost]:
    """Return the hosts none of whose pairs lacks a session, as such."""
    lacking = {name for pair in missing(hosts, settings) for name in pair}
    done = {name for pair in wanted_pairs(hosts, settings) for name in pair} - lacking
    return [
        replace(host, state="collected") for host in hosts if host.name in done and not host.running
    ]


def is_lacking(session: HostSession) -> bool:
    """Return whether a session neither runs nor was measured."""
    return session.state not in (*_MEASURED, "running")


def is_given_up(session: HostSession, settings: Settings) -> bool:
    """Return whether a session of a pair ended in vain as often as the campaign tries one."""
    return is_lacking(session) and session.attempts >= settings.launch.attempts


def given_up(hosts: Sequence[CampaignHost], settings: Settings) -> list[Pair]:
    """Return the pairs of which a session is given up: who was to measure, and the peer."""
    launched = _launched(hosts)
    return [
        (name, each.peer)
        for pair in wanted_pairs(hosts, settings)
        for name, each in launched.get(_key(*pair), ())
        if is_given_up(each, settings)
    ]


def next_batch(
    hosts: Sequence[CampaignHost],
    settings: Settings,
    now: float,
    asked: Collection[str],
    tried: Collection[Pair] = (),
) -> tuple[Due, ...]:
    """Return the pairs that are to be launched now: no host is in two, and at most MAX_LABS run at once.

    One pair measures first, where the campaign has a canary. asked: hosts that were asked already; these are asked
    again only while they are `ready`. tried: who measured and its peer, of pairs that are not launched again. A peer
    whose host does not answer, or is skipped, is free: its own check says whether it measures still. now: Unix time.
    """
    if too_many_failed(hosts, settings):
        return ()
    running = {host.name: session for host in hosts if (session := host.running)}
    free = (
        {
            host.name
            for host in hosts
            if not host.skip
            and (host.state not in ENDED or host.state == "collected")
            and (host.name not in asked or host.state == "ready")
            and is_open(host.window or settings.window, now)
        }
        - {*running}
        - {
            session.peer
            for host in hosts
            if (session := host.running) and host.state != "unreachable" and not host.skip
        }
    )
    labs = [
        number
        for number in range(MAX_LABS)
        if number not in {each.lab for each in running.values()}
    ]
    if settings.launch.canary and not any(
        each.state in _MEASURED for host in hosts for each in host.sessions
    ):
        labs = labs[
            : 0 if any(host.running and host.state != "unreachable" for host in hosts) else 1
        ]
    numbers = {
        host.name: 1 + max((each.number for each in host.sessions), default=0) for host in hosts
    }
    launched, found, before = _launched(hosts), list[Due](), {_key(*pair) for pair in tried}

    def in_vain(pair: Pair) -> int:  # how often it was tried
        of = launched.get(_key(*pair), ())
        return max((each.attempts for _, each in of if each.state not in _MEASURED), default=0)

    for pair in sorted(wanted_pairs(hosts, settings), key=in_vain):
        due = (
            _due(pair, launched.get(_key(*pair), ()), settings, now)
            if free.issuperset(pair)
            else None
        )
        if due and labs and _key(*pair) not in before:
            found.append(replace(due, number=due.number or numbers[due.host], lab=labs.pop(0)))
            free -= {*pair}
    return tuple(found)


def run_options(host: CampaignHost, session: HostSession, peer: CampaignHost) -> list[str]:
    """Return the options of `vtax host run` for the session of a pair that a host measures with its peer."""
    joined = zip(host.nic.split("/"), peer.nic.split("/"), strict=True)
    uplinks = "/".join(f"{here}:{there}" for here, there in joined)
    return [
        "--peer",
        f"{peer.peer_address}/{uplinks}",
        "--peer-home",
        peer.home,
        "--lab",
        str(session.lab),
    ]


def _key(a: str, b: str) -> Pair:
    """Return a pair whoever measures."""
    return (a, b) if a < b else (b, a)


def _launched(hosts: Iterable[CampaignHost]) -> dict[Pair, list[tuple[str, HostSession]]]:
    """Return what was launched of each pair, by its key, with the host that measures."""
    found: dict[Pair, list[tuple[str, HostSession]]] = {}
    for host in hosts:
        for each in host.sessions:
            found.setdefault(_key(host.name, each.peer), []).append((host.name, each))
    return found


def _due(
    pair: Pair, launched: Sequence[tuple[str, HostSession]], settings: Settings, now: float
) -> Due | None:
    """Return the session of a pair that is to be launched, resumed, or begun anew where it failed: its peer may have
    gone. A new one is without its number; None where none is due.

    Of several sessions of a pair each is measured from the other end than the one before.
    """
    for host, each in launched:
        if each.state not in _MEASURED:
            is_over = each.state == "running" or is_given_up(each, settings)
            return None if is_over else Due(host, each.number, each.peer)
    if len(launched) >= settings.sessions:
        return None
    last, before = max(
        ((each.started_at or 0.0, host) for host, each in launched), default=(None, "")
    )
    if last is not None and now < last + settings.every_s:
        return None
    measures, peer = pair[::-1] if before == pair[0] else pair
    return Due(measures, 0, peer)
