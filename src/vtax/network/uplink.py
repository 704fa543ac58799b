"""A network card of this host, lent to a lab: how a network of it reaches another machine.

A macvlan in passthru mode in the lab takes all that the card carries and is a port of the lab's bridge; the card
itself stays where it is. Of the card only its MTU, its offloads and whether it is up may change: what they were is
in the journal before, and is put back after. A card with addresses is the host's own, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vtax.errors import BadInput
from vtax.host.process import find_program, run
from vtax.host.resources import Undo
from vtax.network.end import Execute
from vtax.network.hop import Hop
from vtax.network.lab import Lab
from vtax.network.namespace import Namespace
from vtax.network.readback import features
from vtax.network.segment import BridgeSegment
from vtax.network.settings import LinkSettings

HOST = Namespace(Path("/proc/self/ns/net"))
_UPLINK = "uplink"
_SPEED = """! grep -q "^flags.* hypervisor" /proc/cpuinfo && ethtool -i "$1" 2>/dev/null | grep -q "^bus-info: ." &&
ethtool "$1" 2>/dev/null | sed -n "s/^[[:space:]]*Speed: \\([0-9]*\\)Mb.*/\\1/p"
exit 0"""
_SCOPES_OF_NOBODY = ("link", "host")


def check_nic(name: str, mtu: int) -> None:
    """Raise BadInput unless this host has a card of this name that it can lend to a lab with this MTU."""
    for program, package in (("ip", "iproute2"), ("ethtool", "ethtool")):
        if find_program(program) is None:
            raise BadInput(f"{program} is not installed", cure=f"apt-get install --no-install-recommends {package}")
    cards = json.loads(run(["ip", "-j", "-d", "address"]).stdout)
    card = next((card for card in cards if card["ifname"] == name), None)
    check_card(card, name, [card["ifname"] for card in cards], mtu, "this host")


def check_card(card: Mapping[str, Any] | None, name: str, others: Sequence[str], mtu: int, whose: str) -> None:
    """Raise BadInput unless a card, as `ip -j -d address` tells of it, can be lent.

    name: it goes by. others: names of all there are. whose: it is, for the message.
    """
    if card is None:
        raise BadInput(f"{whose} has no network card {name}", cure=f"it has: {', '.join(others)}")
    if card.get("link_type") != "ether":
        raise BadInput(f"{name} of {whose} is no Ethernet card", cure="name a card that a cable is plugged into")
    found = [a["local"] for a in card.get("addr_info", ()) if a.get("scope") not in _SCOPES_OF_NOBODY]
    used = f"has the address {found[0]}" if found else f"belongs to {card['master']}" if "master" in card else ""
    if used:
        raise BadInput(
            f"{name} of {whose} {used}, so it is in use; a card is lent to the lab as a whole",
            cure="name a card that nothing else uses",
        )
    least, most = card.get("min_mtu", 0), card.get("max_mtu", 0)
    if mtu < least or (most and mtu > most):
        raise BadInput(
            f"{name} of {whose} carries an MTU of {least} to {most}, and {mtu} is asked for",
            cure="ask for an MTU that it carries",
        )


def lend(lab: Lab, network: BridgeSegment, settings: LinkSettings) -> None:
    """Make the card that the settings name a port of a network of the lab. Raises BadInput or CommandFailed."""
    nic = settings.nic
    check_nic(nic, settings.mtu)
    card = json.loads(run(["ip", "-j", "link", "show", "dev", nic]).stdout)[0]
    up = "up" if "UP" in card["flags"] else "down"
    before = features(run(["ethtool", "-k", nic], check=False).stdout)
    words = [word for name, on in before.items() for word in (name, "on" if on else "off")]
    put_back = (
        Undo(f"offloads of {nic}", ("ethtool", "-K", nic, *words), (1, 80)),  # 1: one is fixed, 80: nothing to do
        Undo(f"state and MTU of {nic}", ("ip", "link", "set", "dev", nic, "mtu", str(card["mtu"]), up)),
    )
    for undo in put_back:
        lab.hold(undo)
    run(["ip", "link", "set", "dev", nic, "mtu", str(settings.mtu), "up"])
    inside = network.namespace
    run(["ip", "link", "add", "link", nic, "name", _UPLINK, "mtu", str(settings.mtu), "netns", inside.name,
         "type", "macvlan", "mode", "passthru"])  # fmt: skip
    lab.before_close(lambda: _take_out(inside))
    inside.ip(f"link set dev {_UPLINK} up", f"link set dev {_UPLINK} master {network.bridge}")
    network.hops += [
        Hop(f"nic.{nic}", HOST, nic, "nic"),
        Hop(f"lab.{_UPLINK}", inside, _UPLINK, "macvlan", limits=True),
    ]


def card_mbit_s(execute: Execute, name: str) -> float | None:
    """The rate at which a card is joined to its wire; None when its machine does not know, or the card is not real.

    execute: runs a command in its network namespace. What a virtual card, or any card in a virtual machine, says of
    itself is no limit: more may pass. It knows once the link is up.
    """
    told = execute(["sh", "-c", _SPEED, "vtax", name]).strip()
    return float(told) if told.isdigit() and int(told) > 0 else None


def _take_out(inside: Namespace) -> None:
    """Out of the bridge first, while it is up, as it went in: only then does it hand `allmulti` down to the card."""
    for words in (("set", "dev", _UPLINK, "nomaster"), ("delete", "dev", _UPLINK)):
        inside.run(["ip", "link", *words], check=False)
