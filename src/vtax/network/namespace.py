"""A network namespace seen from outside, and what is done in it: links, settings, counters, one echo.

Programs are started in it with nsenter (`ip netns exec` remounts /sys and hides the cgroups). What needs no program
runs in a thread that enters the namespace and ends: the network namespace belongs to the thread, not the process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TypeVar

from vtax.counters.open_files import read_again
from vtax.counters.table import HOP_COLUMNS
from vtax.errors import CommandFailed, NetworkError, VtaxError
from vtax.host.process import Result, run

NAMES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_TRAFFIC = "/proc/thread-self/net/dev"
NO_BACKGROUND_TRAFFIC = {
    # IPv6 on, which Docker turns off. No traffic but the test: no link-local addresses, no router discovery, no
    # duplicate address detection, and no trip of bridged packets through iptables.
    "ipv6/conf/all/disable_ipv6": "0",
    "ipv6/conf/default/disable_ipv6": "0",
    "ipv6/conf/default/addr_gen_mode": "1",
    "ipv6/conf/default/accept_ra": "0",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/router_solicitations": "0",
    "bridge/bridge-nf-call-iptables": "0",
    "bridge/bridge-nf-call-ip6tables": "0",
    "bridge/bridge-nf-call-arptables": "0",
}
"""Settings below /proc/sys/net of a namespace without traffic of its own."""
_T = TypeVar("_T")


def inside(path: Path, work: Callable[[], _T]) -> _T:
    """Return what work() returns when called in a thread that has entered the network namespace at path.

    Sockets and files it opens stay in that namespace. Raises what work raises, and NetworkError when the namespace
    is gone.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def enter_and_work() -> None:
        try:
            _enter(path)
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=enter_and_work, name="vtax-namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


@dataclass(frozen=True)
class Namespace:
    """A network namespace: a name under /run/netns, or the namespace of a living process (/proc/PID/ns/net)."""

    path: Path

    @classmethod
    def named(cls, name: str) -> Namespace:
        """Return the namespace of a name under /run/netns."""
        return cls(NAMES / name)

    @property
    def name(self) -> str:
        """Its name under /run/netns. Raises NetworkError when it has none."""
        if self.path.parent != NAMES:
            raise NetworkError(f"{self.path} has no name under {NAMES}")
        return self.path.name

    def run(self, argv: Sequence[str], *, check: bool = True, timeout_s: float = 60.0) -> Result:
        """Run a program of the host in it. Raises CommandFailed."""
        return run(["nsenter", f"--net={self.path}", "--", *argv], check=check, timeout_s=timeout_s)

    def ip(self, *commands: str) -> None:
        """Run commands of ip(8) in it, one string each, as one batch. Raises NetworkError naming the one refused."""
        if not commands:
            return
        try:
            run(
                ["nsenter", f"--net={self.path}", "--", "ip", "-batch", "-"],
                input_text="\n".join(commands) + "\n",
            )
        except CommandFailed as error:
            line = error.what.rpartition("Command failed -:")[2].strip()
            place = "; ".join(commands)
            if line.isdigit() and 0 < int(line) <= len(commands):
                place = f"ip {commands[int(line) - 1]}"
            raise NetworkError(
                f"the kernel refused a link of the lab: {error.what}", where=place
            ) from error

    def suppress_background_traffic(self) -> None:
        """Set it up, before links exist, so that they carry no traffic but the test's."""

        def write_all() -> None:
            for key, value in NO_BACKGROUND_TRAFFIC.items():
                # a kernel without IPv6 or bridge netfilter has nothing to suppress
                with suppress(OSError):
                    Path("/proc/sys/net", key).write_text(value)

        inside(self.path, write_all)

    def set(self, key: str, value: str) -> None:
        """Write one setting below /proc/sys/net of this namespace. Raises NetworkError."""
        try:
            inside(self.path, lambda: Path("/proc/sys/net", key).write_text(value))
        except OSError as error:
            raise NetworkError(
                f"the kernel refused the setting {key} = {value}: {error.strerror}"
            ) from error

    def redirect(self, first: str, second: str) -> None:
        """Redirect what enters by either interface to the other (tc-mirred(8)). Raises CommandFailed."""
        for source, target in ((first, second), (second, first)):
            self.run(["tc", "qdisc", "add", "dev", source, "ingress"])
            entering = f"filter add dev {source} parent ffff: protocol all u32 match u32 0 0"
            self.run(["tc", *f"{entering} action mirred egress redirect dev {target}".split()])

    def traffic(self) -> Traffic:
        """Open the counters of its interfaces."""
        return Traffic(inside(self.path, lambda: os.open(_TRAFFIC, os.O_RDONLY | os.O_CLOEXEC)))


HOST = Namespace(Path("/proc/self/ns/net"))
"""The namespace that vtax itself is in."""


class Traffic:
    """The counters of the interfaces of a namespace, open: it lives until they are closed."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> dict[str, dict[str, int]]:
        """Return what every interface has carried since it was made, by its name and the names of table.HOP."""
        return parse_traffic(read_again(self._descriptor).decode())

    def close(self) -> None:
        """Close them."""
        os.close(self._descriptor)


def parse_traffic(text: str) -> dict[str, dict[str, int]]:
    """Return the counters in the text of /proc/net/dev: interface -> name in counters.table.HOP -> value."""
    interfaces = {}
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        interfaces[name.strip()] = {
            counter.name: int(fields[column]) for column, counter in HOP_COLUMNS.items()
        }
    return interfaces


def _enter(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NetworkError(f"the network namespace {path} is gone") from error
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise VtaxError(f"cannot enter {path}: {os.strerror(code)}", hint="run as root")
    finally:
        os.close(fd)
