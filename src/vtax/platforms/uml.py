"""User Mode Linux: a Linux kernel that runs as an ordinary program, its processes watched through seccomp or ptrace.

The program, `linux.uml`, is both kernel and machine. It sees the guest's files through hostfs: the same overlay over
the image that containers get. Its own root directory holds nothing else but what it needs itself, because a guest's
root can mount all that its kernel sees; its C library is the guest's, so that a recent program starts on an old host.

The agent answers on a virtual serial line (see _uml_stream). Network interfaces are taps in the lab's namespace,
which the program is started in. Memory is a file of the guest's size on a tmpfs of its own. Everything (one virtual
CPU, the guest's processes, input and output) runs on the CPU the guest is pinned to.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vtax.errors import PlatformError, VtaxError
from vtax.host import cgroups, namespaces
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.namespaces import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MountStep, bind
from vtax.host.process import find_program, run, spawn
from vtax.image.image import Image
from vtax.image.uml import program_file
from vtax.network.namespace import NAMES
from vtax.platforms import _uml_stream, containers, probing, stdio
from vtax.platforms._qemu_taps import open_macvtaps
from vtax.platforms._uml_stream import Stream
from vtax.platforms.base import Driver, GuestSpec, NetworkLimits, Probe, RunsAsRoot
from vtax.platforms.containers import Root
from vtax.platforms.stdio import StdioGuest, claim
from vtax.platforms.virtual_machine import console_errors

HINT = "sudo vtax image uml; or give the option program the path of a linux.uml of version 7.2 or later"
ONE_CPU = "one virtual CPU: the kernel of User Mode Linux is built for one"
_PROGRAM = "/linux.uml"
_MEMORY = "/dev/shm"
_VERSION_S = 5.0
_INIT_PATH = "/run/vtax/init"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOADER = f"{_LIBRARIES}/ld-linux-x86-64.so.2"
_DEVICES = ("null", "zero", "random", "urandom", "net/tun")
_MEMORY_EXTRA_BYTES = 64 << 20
_BOOT_OPTIONS = "initcall_blacklist=raid6_init"
"""What takes the kernel 0.9 s and serves no guest of ours: trying which code computes RAID checksums the fastest."""

_INIT = """#!/bin/busybox sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666 pts /dev/pts
mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
ip link set lo up
hostname vtax
export LC_ALL=C # an agent that loads no locale starts sooner; its Python reads UTF-8 all the same
exec {agent}
"""


class UmlOptions(BaseModel):
    """Which User Mode Linux, and how it catches system calls."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    program: Annotated[str, RunsAsRoot("a program")] = Field(
        "linux.uml",
        pattern=r"^[^\s-].*$",
        description="the kernel's program: a path, or a name on PATH or that `vtax image uml` fetched",
    )
    catch: Literal["seccomp", "ptrace"] = Field("seccomp", description="how the guest's system calls are caught")


class Uml(Driver):
    """See the module."""

    name = "uml"
    summary = "User Mode Linux: a Linux kernel that runs as a program"
    Options = UmlOptions
    preparation = ("image uml",)
    links_change = False  # its interfaces' MTU and offloads are those of their start
    variants: Mapping[str, Mapping[str, Any]] = {"uml": {}, "uml-ptrace": {"catch": "ptrace"}}
    tunings = ("default", "pinned")  # its memory is a file, which the huge pages of processes do not reach
    writes_below_directory = True

    def network_limits(self, options: UmlOptions) -> NetworkLimits:
        """See platforms.base.Driver."""
        return NetworkLimits(mtu=65521, queues=1, not_attached=("macvtap",))

    def probe(self, options: UmlOptions, image: Image | None) -> Probe:
        """Start it once."""
        if (program := _program(options)) is None:
            return Probe(False, f"{options.program} is not installed", HINT)
        if image is None:
            return Probe(False, "it starts from the image, and no image is built", "sudo vtax image build")
        try:
            version = _version(program, image)
        except VtaxError as error:
            return Probe(False, error.what, HINT)
        found = probing.probe(lambda options, spec, argv: self.start(options, spec), options, image, programs={})
        return replace(found, version=version, hint=found.hint if found.available or found.hint else HINT)

    def start(self, options: UmlOptions, spec: GuestSpec) -> StdioGuest:
        """See platforms.base.Driver."""
        program = _program(options)
        if program is None:
            raise PlatformError(f"{options.program} is not installed", hint=HINT)
        root = containers.overlay_root(spec)
        host, mounts = _prepare(spec, root, program)
        return _start(options, spec, host, mounts)


def _program(options: UmlOptions) -> Path | None:
    found = find_program(options.program)
    if found is None and options.program == UmlOptions().program:
        fetched = program_file(Home.from_environment())
        return fetched if fetched.exists() else None
    return Path(found) if found else None


def _version(program: Path, image: Image) -> str:
    """What the program calls its version. Raises PlatformError for another kind of program, and CommandFailed.

    Without setarch the program would execute itself again to be rid of randomized addresses: the loader, here.
    """
    loader = (image.tree / _LOADER, "--library-path", image.tree / _LIBRARIES)
    argv: list[str | Path] = ["setarch", "-R", *loader, program, "--version"]
    version = run(argv, check=False, timeout_s=_VERSION_S * timeout_factor()).stdout.strip()
    if not re.fullmatch(r"\d+\.\d+\S*", version):
        raise PlatformError(f"{program} is not User Mode Linux: it reports no kernel version")
    return version


def _prepare(spec: GuestSpec, root: Root, program: Path) -> tuple[Path, list[MountStep]]:
    """The root directory of the program, and the mounts that fill it: the guest's files are in its /guest."""
    init = root.upper / _INIT_PATH.lstrip("/")
    init.parent.mkdir(parents=True)
    init.write_text(_INIT.format(agent=shlex.join(_uml_stream.argv())))
    init.chmod(0o755)
    host = spec.directory / "host"
    for name in ("guest", "usr", "proc", "dev/net", _MEMORY.lstrip("/")):
        (host / name).mkdir(parents=True)
    for name in ("lib", "lib64"):
        (host / name).symlink_to(f"usr/{name}")
    files = {_PROGRAM.lstrip("/"): program, **{f"dev/{name}": Path("/dev", name) for name in _DEVICES}}
    for name in files:
        (host / name).touch()
    size = spec.resources.memory_bytes + _MEMORY_EXTRA_BYTES
    return host, [
        root.mount,
        bind(host, host),
        bind(root.path, host / "guest"),
        bind(root.path / "usr", host / "usr"),
        MountStep(host / "proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY),
        MountStep(host / _MEMORY.lstrip("/"), "tmpfs", "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={size}"),
        *(bind(source, host / name) for name, source in files.items()),
    ]


def _start(options: UmlOptions, spec: GuestSpec, host: Path, mounts: Sequence[MountStep]) -> StdioGuest:
    """Spawn the kernel where the guest's files are all there is, with one end of the agent's stream."""
    log = spec.directory / "console.log"
    with ExitStack() as undo, ExitStack() as fds:
        try:
            claimed = claim(spec, undo)
            stream = Stream(fds)
            network, interfaces = _network(spec, fds) if spec.plugboard else (None, [])
            with log.open("wb") as output, claimed.group.procs_file() as join:
                enter = namespaces.private(mounts, new_root=host, join=join, network_of=network)
                process = spawn(
                    command_line(options, spec, stream.child_fds, interfaces),
                    tag=claimed.tag,
                    stdout=output.fileno(),
                    stderr=output.fileno(),
                    environment={"HOME": _MEMORY, "TMPDIR": _MEMORY},
                    pass_fds=stream.child_fds,
                    before_exec=_pinned(spec.resources.cpus, enter),
                )
            executing_at = time.monotonic()
            machine = cgroups.Limits(tuple(sorted(os.sched_getaffinity(process.pid))), spec.resources.memory_bytes, 1)
        except (VtaxError, OSError, subprocess.SubprocessError) as error:
            raise stdio.start_error(spec, error, stdio.last_lines(log)) from error
        undo.pop_all()
        channel = stream.channel(lambda: _describe(process, log))
    return StdioGuest(process, channel, claimed, log, tuple(_notes(spec)), machine=machine, executing_at=executing_at)


def command_line(options: UmlOptions, spec: GuestSpec, lines: Sequence[int], interfaces: Sequence[str]) -> list[str]:
    """The kernel's command (`linux.uml --help`). It writes its messages to its standard error."""
    return [
        _PROGRAM,
        f"mem={spec.resources.memory_bytes // 1024}k",
        f"seccomp={'on' if options.catch == 'seccomp' else 'off'}",
        *("rootfstype=hostfs", "rootflags=/guest", "rw", f"init={_INIT_PATH}"),
        *("con=null", "con0=null,fd:2", "ssl=null", *(f"ssl{number}=fd:{fd}" for number, fd in enumerate(lines))),
        *("quiet", "panic=-1", "net.ifnames=0", _BOOT_OPTIONS, *interfaces),
    ]


def _network(spec: GuestSpec, fds: ExitStack) -> tuple[int, list[str]]:
    """The lab's namespace, open, and the words of the interfaces: taps, which are opened by their names.

    Raises PlatformError for a macvtap: the kernel's driver for open descriptors loses most packets there (7.2).
    """
    board = spec.plugboard
    assert board is not None
    taps = board.taps()
    if open_macvtaps(board.lab_namespace, taps, 1, spec.directory, fds):
        raise PlatformError(
            "User Mode Linux has no attachment macvtap",
            hint="use the attachment bridge, veth or nat",
        )
    namespace = os.open(NAMES / board.lab_namespace, os.O_RDONLY | os.O_CLOEXEC)
    fds.callback(os.close, namespace)
    pairs = enumerate(zip(board.interfaces, taps, strict=True))
    return namespace, [f"vec{n}:transport=tap,ifname={tap},mac={i.mac},mtu={i.mtu}" for n, (i, tap) in pairs]


def _describe(process: subprocess.Popen[bytes], log: Path) -> str:
    """The last lines of the console, a panic first, and whether the kernel runs or how it ended."""
    try:
        state = f"ended with status {process.wait(0.05)}"
    except subprocess.TimeoutExpired:
        state = "is still running"
    output = console_errors(log)
    return f"linux.uml {state}" + (f"; console: {output}" if output else "")


def _pinned(cpus: Sequence[int], enter: Callable[[], None]) -> Callable[[], None]:
    """Between fork and exec: onto the guest's CPUs, which everything it starts inherits, and into its root."""

    def before_exec() -> None:
        os.sched_setaffinity(0, cpus)
        enter()

    return before_exec


def _notes(spec: GuestSpec) -> list[str]:
    return [ONE_CPU] if spec.resources.vcpus > 1 else []


DRIVER = Uml()
