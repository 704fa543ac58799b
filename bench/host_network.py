"""The host's own network as text, to prove that a run leaves it as it was.

What changes by itself is left out: remaining lifetimes of leased addresses, packet counts of firewall rules, what a
bridge counts down to its next chore.
"""

from __future__ import annotations

import re
from pathlib import Path

from vtax.errors import NetworkError
from vtax.host.process import find_program, run

_VIEWS = {
    "links": ("ip", "-d", "link"),
    "addresses": ("ip", "address"),
    "routes": ("ip", "route", "show", "table", "all"),
    "routes of IPv6": ("ip", "-6", "route", "show", "table", "all"),
    "rules": ("ip", "rule"),
    "rules of IPv6": ("ip", "-6", "rule"),
    "iptables": ("iptables-save",),
    "ip6tables": ("ip6tables-save",),
    "nftables": ("nft", "--stateless", "list", "ruleset"),
    "traffic control": ("tc", "qdisc"),
}
_NEVER_EMPTY = ("links", "addresses", "rules")
_FIREWALLS = ("iptables", "ip6tables", "nftables")
_SETTINGS = ("ipv4/ip_forward", "ipv6/conf/all/forwarding")
_IPV6 = Path("/proc/sys/net/ipv6")
_CHANGING = re.compile(
    r"^\s*valid_lft .*$|^#.*$|\[\d+:\d+\]|\bexpires \d+sec\b|\b\w+_timer +[\d.]+", re.MULTILINE
)


def host_network() -> str:
    """Links, addresses, routes, rules, firewall, queueing and forwarding of the host, one part after another.

    A part whose program is not installed is left out: nothing of vtax could have changed it without that program. A
    firewall that this kernel does not have shows what its program says. Raises CommandFailed when another part cannot
    be read, and NetworkError when one is empty that never is: comparing nothing with nothing would prove nothing.
    """
    parts = []
    for name, argv in _VIEWS.items():
        if find_program(argv[0]) and (_IPV6.exists() or "IPv6" not in name):
            result = run(argv, check=name not in _FIREWALLS)
            text = _CHANGING.sub("", result.stdout if result.status == 0 else result.stderr).strip()
            if name in _NEVER_EMPTY and not text:
                raise NetworkError(
                    f"{' '.join(argv)} shows no {name}", hint="is /proc mounted, and this the host?"
                )
            parts.append(f"== {name}\n{text}")
    if not any(part.startswith("== links") for part in parts):
        raise NetworkError(
            "the host's network cannot be looked at without the program ip", hint="install iproute2"
        )
    paths = [path for name in _SETTINGS if (path := Path("/proc/sys/net", name)).exists()]
    settings = "\n".join(f"{path}: {path.read_text().strip()}" for path in paths)
    return "\n".join([*parts, f"== settings\n{settings}"]) + "\n"
