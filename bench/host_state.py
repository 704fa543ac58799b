"""What the inside of `isolated` looks like, to compare before and after. Nobody else is in there, so all is compared.

Network (links, addresses, routes, rules, firewall), mounts, cgroups, processes, files written to /etc, /var/lib,
/run, /tmp and /dev/shm, and the settings of the network namespace are its own. Of the host's settings, which every
program on it shares, those that vtax can change are compared, and only in chains that have a turn at them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from host_network import host_network
from isolated import Isolated

from vtax.doctor.tunables import TUNABLES
from vtax.host.huge_pages import POLICY

Parts = Mapping[str, Mapping[str, str]]

_SETTLE_S = 4.0
_LOOK_AGAIN_S = 0.1
_CHANGING = re.compile(r"conntrack_count|net/(ipv4|ipv6)/(neigh|route/flush|tcp_mem)")
_WATCHED = ("/run", "/tmp", "/dev/shm")


@dataclass(frozen=True)
class Inside:
    """Where to look: the inside of `isolated` and the home in it. settings: compare the host's, too."""

    isolated: Isolated
    home: Path
    settings: bool = False

    def state(self) -> Parts:
        """Network, mounts, cgroups, settings, files: part -> thing -> value."""
        settings = [*_network_settings(), *(host_settings() if self.settings else ())]
        return {
            "network": dict.fromkeys(host_network().splitlines(), ""),
            "mount": {
                f"{words[4]} ({words[-3]})": ""
                for words in map(str.split, _lines("/proc/self/mountinfo"))
            },
            "cgroup": {path: "" for path, _, _ in os.walk("/sys/fs/cgroup")},
            "setting": {
                str(path): value for path in settings if (value := _value(path)) is not None
            },
            "file": dict.fromkeys(self._files(), ""),
            "loop device": {
                str(path): value
                for path in Path("/sys/block").glob("*/loop/backing_file")
                if (value := _value(path)) and str(self.home) in value
            },
        }

    def _files(self) -> Iterator[str]:
        for top in (*_WATCHED, *map(str, self.isolated.written.values())):
            for directory, below, names in os.walk(top):
                yield from (f"{directory}/{name}" for name in (*below, *names))

    def changes(self, before: Parts) -> list[str]:
        """What is no longer as before, once everything had time to settle. Empty: nothing."""
        return _settled(lambda: _differences(before, self.state()))

    def leftovers(self) -> list[str]:
        """Processes beside this one, and what is in the home that should have gone."""
        return _settled(lambda: [*_in_home(self.home), *_processes()])


def host_settings() -> list[Path]:
    """Files of the host's settings that vtax can change: with --tune-host, and for huge pages."""
    return [
        *(path for tunable in TUNABLES for path in tunable.files()),
        *(p for p in POLICY.iterdir() if p.is_file()),
    ]


def _settled(look: Callable[[], list[str]]) -> list[str]:
    """What stays wrong: the kernel takes away an ended process' namespaces and devices in its own time."""
    deadline = time.monotonic() + _SETTLE_S
    found = look()
    while found and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)
        found = [problem for problem in look() if problem in found]
    return found


def _differences(before: Parts, after: Parts) -> list[str]:
    found = []
    for part, now in after.items():
        then = before[part]
        for name in sorted(now.keys() | then.keys()):
            if then.get(name) != now.get(name):
                what = "new" if name not in then else "gone" if name not in now else "changed"
                values = f": {then[name]} -> {now[name]}" if what == "changed" else ""
                found.append(f"{part} {what}: {name}{values}")
    return found


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _value(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text().strip()
    return None


def _network_settings() -> Iterable[Path]:
    for top, _, names in os.walk("/proc/sys/net"):
        for name in names:
            if not _CHANGING.search(path := f"{top}/{name}"):
                yield Path(path)


def _in_home(home: Path) -> list[str]:
    found = []
    for kind, pattern in (
        ("guest directory", "guests/*"),
        ("journal", "journal/*.jsonl"),
        ("unfinished image", "images/*.partial"),
    ):
        found += [f"{kind} {path.name}" for path in home.glob(pattern)]
    return found


def _processes() -> list[str]:
    """Every process but the first one, which only waits, and this one; not those that have ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name not in ("1", str(os.getpid())):
            with suppress(OSError):
                command = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                name, _, rest = (entry / "stat").read_text().rpartition(")")
                if not rest.startswith(" Z"):
                    found.append(f"process {entry.name}: {(command or name)[:100]}")
    return found
