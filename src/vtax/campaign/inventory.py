"""Hosts of an inventory, as Ansible reads it: vtax reads no inventory itself.

Host variables of vtax: `vtax_group`, `vtax_skip` (why a host is left out), `vtax_window` (of the day), `vtax_home`,
`vtax_python`. The address that Ansible speaks to (`ansible_host`) is that of control; no traffic is measured over it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtax.campaign.ansible import ENVIRONMENT, needed_program
from vtax.campaign.host_record import InventoryHost
from vtax.campaign.prepare import HOME
from vtax.campaign.settings import check_window
from vtax.errors import BadInput, CommandFailed
from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.host.process import run

_TIMEOUT_S = 300.0
_PORT = 22
_STRICT = {
    "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "error",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
}
"""A host that is there twice, and a file that is no inventory, are errors: Ansible only warns of them."""
_TWICE = re.compile(
    r"duplicate (?:mapping|dict) key ['(](.+?)[')]"
)  # as 2.19 and 2.14 say it, in wrapped lines
_TEMPLATE = re.compile(r"\{\{|\{%")


def read_inventory(inventory: Path) -> list[InventoryHost]:
    """Return the hosts of an inventory, sorted by name.

    Raises BadInput where the file is missing or cannot be read, and for an inventory without hosts, or with a host twice.
    """
    if not inventory.exists():
        raise BadInput(
            "there is no such inventory", where=str(inventory), hint="it is a file of Ansible's"
        )
    command = [needed_program("ansible-inventory"), "-i", str(inventory.absolute()), "--list"]
    try:
        strict = {**ENVIRONMENT, **_STRICT}
        result = run(
            command,
            timeout_s=_TIMEOUT_S,
            check=False,
            environment=strict,
            cwd=inventory.absolute().parent,
        )
        warnings = " ".join(result.stderr.replace("-\n", "-").split())
        if repeated_name := _TWICE.search(warnings):
            raise BadInput(
                f"{repeated_name[1]} is there twice",
                where=str(inventory),
                hint="remove one of them",
            )
        if result.status:
            raise ValueError(result.stderr)
        values = parse_json(result.stdout)
    except (CommandFailed, ValueError) as error:
        raise BadInput(
            f"ansible-inventory cannot read it: {one_line(str(error), 300)}",
            where=str(inventory),
            hint=f"ansible-inventory -i {inventory} --list",
        ) from error
    return hosts_of(values, str(inventory))


def hosts_of(document: Mapping[str, Any], where: str) -> list[InventoryHost]:
    """Return the hosts in the JSON of `ansible-inventory --list`, sorted by name. where: the inventory, for errors.

    Raises BadInput for an inventory without hosts, or with a host twice.
    """
    variables = document.get("_meta", {}).get("hostvars", {})
    names, groups = {*variables}, {"all"}
    for group, content in document.items():
        if group != "_meta" and isinstance(content, dict):
            groups.add(group)
            names.update(content.get("hosts", ()))
    ambiguous_names = sorted(names & groups)
    if ambiguous_names:
        raise BadInput(
            f"{ambiguous_names[0]} is the name of a host and of a group",
            where=where,
            hint="give one of them another name: Ansible takes both for the group",
        )
    hosts = [_host(name, variables.get(name, {}), where) for name in sorted(names)]
    if not hosts:
        raise BadInput(
            "the inventory has no host", where=where, hint=f"ansible-inventory -i {where} --graph"
        )
    by_address: dict[str, str] = {}
    for host in hosts:
        if host.skip or _TEMPLATE.search(host.address):  # what Ansible puts there is not known here
            continue
        address = host.address.lower()  # DNS knows no case
        if address in by_address:
            raise BadInput(
                f"{by_address[address]} and {host.name} are two names of the host {host.address}",
                where=where,
                hint="remove one of them, or set its vtax_skip",
            )
        by_address[address] = host.name
    return hosts


def _host(name: str, variables: Mapping[str, Any], where: str) -> InventoryHost:
    def text(key: str, default: str = "") -> str:
        return one_line(str(variables.get(key, default)), 200)

    port = str(variables.get("ansible_port", _PORT))
    address = text("ansible_host", name)
    if port != str(_PORT):
        address = f"{address}:{port}"
    if "\n" in name or not name.strip():
        raise BadInput("the inventory has a host without a name", where=where)
    check_window(text("vtax_window"), f"{where}: vtax_window of {name}")
    home = text("vtax_home", HOME)
    if not home.startswith("/"):
        raise BadInput(f"{home!r} is no absolute path", where=f"{where}: vtax_home of {name}")
    return InventoryHost(
        name,
        address,
        group=text("vtax_group"),
        skip=text("vtax_skip"),
        window=text("vtax_window"),
        home=home,
        python=text("vtax_python", "python3"),
    )
