"""The host's own network as text, to prove that a run leaves it as it was.

What changes by itself is left out: remaining lifetimes of leased addresses, packet counts of firewall rules.
"""

from __future__ import annotations

import re

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
_SETTINGS = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding")
_CHANGING = re.compile(r"^\s*valid_lft .*$|^#.*$|\[\d+:\d+\]|\bexpires \d+sec\b", re.MULTILINE)


def host_network() -> str:
    """Links, addresses, routes, rules, firewall, queueing and forwarding of the host, one part after another.

    A part whose program is not installed is left out: nothing of vtax could have changed it without that program.
    """
    parts = []
    for name, argv in _VIEWS.items():
        if find_program(argv[0]):
            result = run(argv, check=False)
            parts.append(f"== {name}\n{_CHANGING.sub('', result.stdout).strip()}")
    settings = run(["sysctl", "--ignore", *_SETTINGS], check=False).stdout.strip()
    return "\n".join([*parts, f"== settings\n{settings}"]) + "\n"
