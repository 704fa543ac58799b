"""Program on another machine for the guest there. It travels as text and needs only Python, and ip(8) for networks.

`keep` works in a directory of its own, starts the agent, and when that has ended, for whatever reason, ends all that
was started and removes the directory. An interface that the guest needs is a macvlan on a network interface of the
machine, in a network namespace that lives as long as the guest's processes; of the machine's own interface only its
MTU, its offloads and whether it is up may change, and are restored. `clear` does the same from a second connection,
when the first one broke. `examine` only looks. `hold` keeps the machine for one run.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it travels with this program, see platforms.ssh
    from vtax.host.removal import remove_tree

_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
_NEWNS, _NEWNET, _REC, _SLAVE = (
    0x00020000,
    0x40000000,
    0x4000,
    0x80000,
)  # linux/sched.h, sys/mount.h
_STATE = "interfaces.json"
_RECORD = struct.Struct("hhqqi0q")  # struct flock, as vtax.host.lock has it
_FEATURES = {
    "tx-checksumming": "tx",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}


def keep(directory: str, tag: str, argv: list[str], interfaces: list[dict[str, Any]]) -> int:
    """Run argv, tagged, until it ends; returns its exit status once nothing of it is left.

    interfaces: `nic` (of the machine), `name`, `mac`, `mtu` of each that the guest is to have, `quiet` (settings of
    its namespace); none for the machine's own network.
    """
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    Path(directory).mkdir(0o700)
    status = 1
    try:
        if interfaces:
            Path(directory, _STATE).write_text(
                json.dumps([_state(interface["nic"]) for interface in interfaces])
            )
        child, ready, go = _fork(tag, argv, interfaces)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        if os.read(ready, 1):
            for interface in interfaces:
                _add_interface(interface, child)
            os.write(go, b"+")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except (OSError, subprocess.SubprocessError) as error:
        message = getattr(error, "stderr", None) or error
        print(f"vtax: {str(message).strip()}", file=sys.stderr, flush=True)
    finally:
        _end_tagged(tag)
        _remove(directory)
    return min(abs(status), 127)


def clear(directory: str, tag: str) -> int:
    """End the guest and wait until `keep` has removed what it made, or do that; 3 when there was nothing."""
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    had_processes = _end_tagged(tag)
    for _ in range(100):
        if not Path(directory).exists():
            return 0 if had_processes else 3
        time.sleep(0.05)
    _remove(directory)
    return 0


def examine(programs: list[str]) -> int:
    """Print what this machine is as an end of a topology: one line of JSON behind `vtax machine `."""
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    interfaces: list[Any] = []
    if shutil.which("ip"):
        interfaces = json.loads(_run("ip", "-j", "-d", "address"))
    reply = {
        "uid": os.geteuid(),
        "missing": [name for name in programs if shutil.which(name) is None],
        "interfaces": interfaces,
    }
    print("\nvtax machine " + json.dumps(reply), flush=True)
    return 0


def hold(path: str, name: str, silence_s: float) -> int:
    """Hold the machine's measuring lock until stdin ends, then return 0; 4 when nothing came on it for so long.

    Prints who this machine is behind `vtax machine `, with who holds the lock (returns 3), or with the user that
    cannot hold it (returns 5). path, name: as in vtax.host.lock.
    """
    firmware = "/sys/class/dmi/id/"
    reply = {
        "machine": _text("/etc/machine-id") or os.uname().nodename,
        "hardware": [_text(firmware + "product_uuid"), _text(firmware + "board_serial")],
    }
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError:
        if os.geteuid() == 0:
            raise
        print("\nvtax machine " + json.dumps({**reply, "user": os.geteuid()}), flush=True)
        return 5
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to another user")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").partition("\n")[0]
        print(
            "\nvtax machine " + json.dumps({**reply, "holder": holder or "another process"}),
            flush=True,
        )
        return 3
    with suppress(OSError):
        fcntl.fcntl(
            descriptor, fcntl.F_OFD_SETLK, _RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{name} (process {os.getpid()})\n".encode(), 0)
    print("\nvtax machine " + json.dumps(reply), flush=True)
    while is_heard := bool(select.select([0], [], [], silence_s)[0]):
        if not os.read(0, 4096):
            break
    os.ftruncate(descriptor, 0)
    return 0 if is_heard else 4


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(errors="replace").strip()
    return ""


def _fork(tag: str, argv: list[str], interfaces: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Return the guest's first process: its PID, and two descriptors.

    On the first it says that its namespace is there, at the second it waits for leave.
    """
    ready, start = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child:
        os.close(start)
        os.close(wait)
        return child, ready, go
    try:
        os.close(ready)
        os.close(go)
        if interfaces:
            _enter_network(interfaces[0]["quiet"])
        os.write(start, b"+")
        if os.read(wait, 1):
            os.close(start)
            os.close(wait)
            os.execvpe(argv[0], argv, {**os.environ, "VTAX_MARK": tag})
    except OSError as error:
        os.write(2, f"vtax: {argv[0]}: {error}\n".encode())
    finally:
        os._exit(127)
    raise AssertionError


def _enter_network(quiet: dict[str, str]) -> None:
    """Enter a network namespace of its own, and a /sys that shows its interfaces."""
    libc = ctypes.CDLL(None, use_errno=True)
    _must(libc.unshare(_NEWNET | _NEWNS))
    _must(libc.mount(b"none", b"/", None, _REC | _SLAVE, None))
    _must(libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None))
    for key, value in quiet.items():
        with suppress(OSError):  # a kernel without IPv6 or bridge netfilter has nothing to silence
            Path("/proc/sys/net", key).write_text(value)


def _must(status: int) -> None:
    if status != 0:
        raise OSError(
            f"it cannot have a network namespace of its own: {os.strerror(ctypes.get_errno())}"
        )


def _add_interface(interface: dict[str, Any], pid: int) -> None:
    """Give a process's network namespace a macvlan on the machine's interface."""
    _run("ip", "link", "set", "dev", interface["nic"], "mtu", str(interface["mtu"]), "up")
    _run(
        "ip",
        "link",
        "add",
        "link",
        interface["nic"],
        "name",
        interface["name"],
        "address",
        interface["mac"],
        "mtu",
        str(interface["mtu"]),
        "netns",
        str(pid),
        "type",
        "macvlan",
        "mode",
        "private",
    )


def _state(nic: str) -> dict[str, Any]:
    """Return what may change of an interface of the machine."""
    interface = json.loads(_run("ip", "-j", "link", "show", "dev", nic))[0]
    ready = dict(
        line.split(":", 1) for line in _run("ethtool", "-k", nic).splitlines() if ":" in line
    )
    features = {
        short: ready[long].split()[0]
        for long, short in _FEATURES.items()
        if ready.get(long, "").split()
    }
    return {
        "nic": nic,
        "mtu": interface["mtu"],
        "up": "UP" in interface["flags"],
        "features": features,
    }


def _restore(state: dict[str, Any]) -> None:
    up = "up" if state["up"] else "down"
    _run("ip", "link", "set", "dev", state["nic"], "mtu", str(state["mtu"]), up)
    words = [word for pair in state["features"].items() for word in pair]
    subprocess.run(["ethtool", "-K", state["nic"], *words], check=False, capture_output=True)


def _remove(directory: str) -> None:
    with suppress(
        OSError, ValueError, subprocess.SubprocessError
    ):  # nothing was made, or the NIC itself is gone
        for state in json.loads(Path(directory, _STATE).read_text()):
            _restore(state)
    try:
        remove_tree(Path(directory))
    except OSError as error:
        print(f"vtax: {directory} is left: {error}", file=sys.stderr, flush=True)


def _end_tagged(tag: str) -> bool:
    """Kill everything that carries the tag, and whatever it starts meanwhile; whether there was any."""
    had_any = False
    for _ in range(50):
        pids = list(_tagged_pids(tag))
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            break
        had_any = True
        time.sleep(0.02)
    return had_any


def _tagged_pids(tag: str) -> Iterator[int]:
    variable = b"VTAX_MARK=" + tag.encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and variable in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
