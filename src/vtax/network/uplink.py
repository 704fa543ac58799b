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
from vtax.network.hop import offload_words
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
    """Raise BadInput unless a lab can use an interface.

    links: all interfaces of a machine, as `ip -j -d address` describes them.
    name: of the interface.
    mtu: that it must carry; None for any.
    owner: the machine, for the message.
    """
    by_name = {str(link["ifname"]): link for link in links}
    if name not in by_name:
        raise BadInput(
            f"{owner} has no network interface {name}", hint=f"it has: {', '.join(by_name)}"
        )
    link = by_name[name]
    if link.get("link_type") != "ether":
        raise BadInput(
            f"{name} of {owner} is no Ethernet interface", hint="choose an Ethernet interface"
        )
    addresses = []
    for address in link.get("addr_info", ()):
        if address.get("scope") not in _SCOPES_OF_NOBODY:
            addresses.append(address["local"])
    use = ""
    if addresses:
        use = f"has the address {addresses[0]}"
    elif "master" in link:
        use = f"belongs to {link['master']}"
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


def attach_uplink(lab: Lab, namespace: Namespace, nic: str, port: str, mtu: int) -> None:
    """Make an interface of this host appear as a port, up, in a namespace of the lab.

    lab: closes it again.
    namespace: of the lab.
    nic: the interface.
    port: the name of the macvlan that carries what the interface does.
    mtu: of both.

    Raises BadInput or CommandFailed.
    """
    check_nic(nic, mtu)
    link = parse_json(run(["ip", "-j", "link", "show", "dev", nic]).stdout)[0]
    set_link = ("ip", "link", "set", "dev", nic, "mtu")
    set_offloads = ["ethtool", "-K", nic]
    for feature, on in features(run(["ethtool", "-k", nic], check=False).stdout).items():
        set_offloads += offload_words([feature], on)
    # status 1: an offload is fixed, 80: nothing to do
    lab.register(RestoreCommand(f"offloads of {nic}", tuple(set_offloads), (1, 80)))
    state = "up" if "UP" in link["flags"] else "down"
    lab.register(
        RestoreCommand(f"state and MTU of {nic}", (*set_link, str(link["mtu"]), state)),
    )
    run([*set_link, str(mtu), "up"])
    command = ["ip", "link", "add", "link", nic, "name", port, "mtu", str(mtu)]
    run([*command, "netns", str(namespace.path), "type", "macvlan", "mode", "passthru"])
    lab.before_close(lambda: _remove_port(namespace, port))
    namespace.ip(f"link set dev {port} up")


def nic_rate_mbit_s(execute: Callable[[Sequence[str]], str], name: str) -> float | None:
    """Return the rate of the wire at an interface, once the link is up.

    None when its machine does not know it, and for a virtual interface or machine, whose speed is no limit.

    execute: runs a command in the network namespace of the interface.
    name: of the interface.
    """
    speed = execute(["sh", "-c", _SPEED, "vtax", name]).strip()
    return float(speed) if speed.isdigit() and int(speed) > 0 else None


def _remove_port(namespace: Namespace, port: str) -> None:
    """Remove a port: first from its bridge, while it is up, since only then the kernel resets `allmulti` of the nic."""
    for words in (("set", "dev", port, "nomaster"), ("delete", "dev", port)):
        namespace.run(["ip", "link", *words], check=False)
