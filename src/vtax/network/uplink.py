"""An unused network interface of this host as the uplink of a lab: how a network of it reaches another machine.

A macvlan in passthru mode in the lab takes all that the interface carries and is a port of the lab's bridge; the
interface itself stays where it is. Of the interface only its MTU, its offloads and whether it is up may change: what
they were is in the journal before, and is restored after. An interface with addresses is in use, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vtax.errors import BadInput
from vtax.foreign_data import parse_json
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, run
from vtax.host.resources import RestoreCommand
from vtax.network.lab import Lab
from vtax.network.namespace import Namespace
from vtax.network.readback import features

_SPEED = """! grep -q "^flags.* hypervisor" /proc/cpuinfo && ethtool -i "$1" 2>/dev/null | grep -q "^bus-info: ." &&
ethtool "$1" 2>/dev/null | sed -n "s/^[[:space:]]*Speed: \\([0-9]*\\)Mb.*/\\1/p"
exit 0"""
_SCOPES_OF_NOBODY = ("link", "host")


def check_nic(name: str, mtu: int | None) -> None:
    """Raise BadInput unless this host has an interface of this name that a lab can use, with this MTU if any."""
    for program, package in (("ip", "iproute2"), ("ethtool", "ethtool")):
        if find_program(program) is None:
            raise BadInput(f"{program} is not installed", hint=packages_hint(package))
    links = parse_json(run(["ip", "-j", "-d", "address"]).stdout)
    check_usable(links, name, mtu, "this host")


def check_usable(
    links: Sequence[Mapping[str, Any]], name: str, mtu: int | None, owner: str
) -> None:
    """Raise BadInput unless a lab can use an interface, with an MTU if one is given.

    links: all there are, as `ip -j -d address` describes them. name: of the interface. owner: the machine, for the
    message.
    """
    link = next((link for link in links if link["ifname"] == name), None)
    if link is None:
        others = ", ".join(str(each["ifname"]) for each in links)
        raise BadInput(f"{owner} has no network interface {name}", hint=f"it has: {others}")
    if link.get("link_type") != "ether":
        raise BadInput(
            f"{name} of {owner} is no Ethernet interface", hint="choose an Ethernet interface"
        )
    found = [
        a["local"] for a in link.get("addr_info", ()) if a.get("scope") not in _SCOPES_OF_NOBODY
    ]
    use = (
        f"has the address {found[0]}"
        if found
        else f"belongs to {link['master']}"
        if "master" in link
        else ""
    )
    if use:
        raise BadInput(
            f"{name} of {owner} {use}, so it is in use; a link needs an unused interface",
            hint="choose an interface that nothing else uses",
        )
    smallest, largest = link.get("min_mtu", 0), link.get("max_mtu", 0)
    if mtu is not None and (mtu < smallest or (largest and mtu > largest)):
        raise BadInput(
            f"{name} of {owner} carries an MTU of {smallest} to {largest}, not {mtu}",
            hint="choose an MTU that it carries",
        )


def attach_uplink(lab: Lab, inside: Namespace, nic: str, port: str, mtu: int) -> None:
    """Make what an interface of this host carries appear as `port`, up, in a namespace of the lab.

    Raises BadInput or CommandFailed.
    """
    check_nic(nic, mtu)
    link = parse_json(run(["ip", "-j", "link", "show", "dev", nic]).stdout)[0]
    up = "up" if "UP" in link["flags"] else "down"
    before = features(run(["ethtool", "-k", nic], check=False).stdout)
    words = [word for name, on in before.items() for word in (name, "on" if on else "off")]
    restore = (
        RestoreCommand(
            f"offloads of {nic}", ("ethtool", "-K", nic, *words), (1, 80)
        ),  # 1: one is fixed, 80: nothing to do
        RestoreCommand(
            f"state and MTU of {nic}",
            ("ip", "link", "set", "dev", nic, "mtu", str(link["mtu"]), up),
        ),
    )
    for undo in restore:
        lab.register(undo)
    run(["ip", "link", "set", "dev", nic, "mtu", str(mtu), "up"])
    run(
        [
            "ip",
            "link",
            "add",
            "link",
            nic,
            "name",
            port,
            "mtu",
            str(mtu),
            "netns",
            str(inside.path),
            "type",
            "macvlan",
            "mode",
            "passthru",
        ]
    )
    lab.before_close(lambda: _take_out(inside, port))
    inside.ip(f"link set dev {port} up")


def nic_rate_mbit_s(execute: Callable[[Sequence[str]], str], name: str) -> float | None:
    """Return the rate of the wire at an interface; None when its machine does not know it, or the interface is
    virtual.

    execute: runs a command in its network namespace. What a virtual interface, or any interface of a virtual machine,
    reports as its speed is no limit: more may pass. The rate is known once the link is up.
    """
    reported = execute(["sh", "-c", _SPEED, "vtax", name]).strip()
    return float(reported) if reported.isdigit() and int(reported) > 0 else None


def _take_out(inside: Namespace, port: str) -> None:
    """Out of the bridge first, while it is up: only then does the kernel reset `allmulti` of the interface."""
    for words in (("set", "dev", port, "nomaster"), ("delete", "dev", port)):
        inside.run(["ip", "link", *words], check=False)
