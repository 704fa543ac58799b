"""Options of machines behind OpenSSH."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from vtax.network.plugboard import Uplink
from vtax.platforms.base import RunsAsRoot
from vtax.platforms.options import DriverOptions
from vtax.study.declared import Example

_UPLINK = r"[^\s/:]{1,15}:[^\s/:]{1,15}"  # two names that Linux allows


class SshOptions(DriverOptions):
    """Address of the machine, and place of the work on it."""

    host: Annotated[str, Example("db1"), Example("root@db1.lab")] = Field(
        description="alias of ssh_config(5), name, or USER@NAME",
        pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_:][A-Za-z0-9_.:%+-]*$",
    )
    config: Annotated[
        str, RunsAsRoot("a configuration of ssh, which may name programs: ProxyCommand, Match exec")
    ] = Field("", description="ssh_config(5) file to use; default: the local user's own")
    local_user: Annotated[
        str, RunsAsRoot("the user of this host whose keys and configuration ssh uses")
    ] = Field("", description="whose keys and configuration to use here; default: who called sudo")
    python: Annotated[str, Example("/usr/bin/python3"), Example("python3.12")] = Field(
        "/usr/bin/python3",
        description="Python 3.11 or newer on the machine",
        pattern=r"^(/[A-Za-z0-9_./+-]*/)?(python|pypy)[0-9.]*$",
    )
    home: Annotated[str, Example("/var/lib/vtax")] = Field(
        "",
        description="VTAX_HOME of the vtax there, for guests on the machine; default: its own",
        pattern=r"^(/[A-Za-z0-9_./+-]*)?$",
    )
    scratch: Annotated[str, Example("/var/tmp")] = Field(
        "/var/tmp",
        description="where a private directory is made there; a disk, not tmpfs",
        pattern=r"^/[A-Za-z0-9_./+-]*$",
    )
    uplinks: Annotated[str, Example("eth1:eth2")] = Field(
        "",
        description="unused interfaces that join it to this host: NIC:NIC_THERE, several with a slash between",
        pattern=rf"^({_UPLINK}(/{_UPLINK})*)?$",
    )

    @model_validator(mode="before")
    @classmethod
    def _uplinks_of_a_name(cls, values: Any) -> Any:
        """`HOST/NIC:NIC_THERE`, as in the name of a platform, has uplinks in it."""
        host = values.get("host") if isinstance(values, dict) else None
        if not isinstance(host, str) or "/" not in host or "uplinks" in values:
            return values
        name, _, uplinks = host.partition("/")
        return {**values, "host": name, "uplinks": uplinks}

    @model_validator(mode="after")
    def _each_interface_once(self) -> Self:
        for names in zip(*((uplink.here, uplink.there) for uplink in self.joined), strict=True):
            if len(set(names)) < len(names):
                raise ValueError(f"uplinks {self.uplinks} name an interface twice")
        return self

    @property
    def interpreter(self) -> list[str]:
        """The Python there, with the home of its vtax."""
        return [*(["env", f"VTAX_HOME={self.home}"] if self.home else []), self.python]

    @property
    def joined(self) -> tuple[Uplink, ...]:
        """The uplinks, one by one."""
        return tuple(Uplink(*uplink.split(":")) for uplink in self.uplinks.split("/") if uplink)
