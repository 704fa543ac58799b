"""Any machine the user already has, over OpenSSH: a cloud instance, another hypervisor's guest, a second computer.

Nothing of it is started or stopped but the agent. Its CPUs, memory, kernel, files and network cards are the user's,
which every figure says and the equivalence audit shows; the tools under test must be installed there. Benchmarks work
in a private directory which a small Python program makes on the machine before it starts the agent. That program
waits there, and removes the directory and whatever a benchmark left running once the agent has ended, which the agent
does by itself when the connection is gone: so the machine is left clean even when this host dies.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vtax.errors import BadInput, PlatformError
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.image.image import Image
from vtax.platforms import contained, trial_start
from vtax.platforms.base import GuestSpec, Probe
from vtax.platforms.contained import Program, StdioGuest

NOTES = (
    "CPUs, memory, kernel and files are the machine's own: vtax sets no limit there",
    "the machine is not restarted between blocks",
)
_END_TIMEOUT_S = 15.0
# A connection without terminal, forwarding or questions. One that the user shares (ControlPath) is used, never made.
_OPTIONS = (
    "BatchMode=yes",
    "ControlMaster=no",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "LogLevel=ERROR",
)
# Runs on the machine with DIRECTORY, MARK and ARGV set. The agent hands its VTAX_MARK on to all that it starts.
_KEEPER = """
import os, signal
os.mkdir(DIRECTORY, 0o700)
child = os.fork()
if not child:
    try:
        os.execvpe(ARGV[0], ARGV, {**os.environ, "VTAX_MARK": MARK})
    finally:
        os._exit(127)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
import shutil, time
def left():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"VTAX_MARK=" + MARK.encode() in open(f"/proc/{name}/environ", "rb").read().split(b"\\0"):
                yield int(name)
        except OSError:
            pass
for _ in range(50):
    found = list(left())
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    if not found:
        break
    time.sleep(0.02)
shutil.rmtree(DIRECTORY)
os._exit(min(abs(status), 127))
"""


class SshOptions(BaseModel):
    """How to reach the machine, and where to work on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = Field(description="alias of ssh_config(5), name, or USER@NAME", pattern=r"^[^\s-]\S*$")
    config: str = Field("", description="ssh_config(5) file to use; default: the local user's own")
    local_user: str = Field("", description="whose keys and configuration to use here; default: who called sudo")
    python: str = Field("/usr/bin/python3", description="Python 3.11 or newer on the machine")
    scratch: str = Field("/var/tmp", description="where a private directory is made there; a disk, not tmpfs")


@dataclass
class SshGuest:
    """An agent on another machine (see platforms.base.RunningGuest).

    ssh: the client, a program of this host. scratch: the private directory on the machine.
    """

    ssh: StdioGuest
    host: str
    scratch: str
    _stopped: bool = False

    @property
    def channel(self) -> Channel:
        """See RunningGuest.channel."""
        return self.ssh.channel

    @property
    def notes(self) -> tuple[str, ...]:
        """What the machine's figures must be read with."""
        return NOTES

    def host_cpu_s(self) -> float | None:
        """Not known: another host spends it."""
        return None

    def stop(self) -> None:
        """End the agent and wait until the machine has removed what was made there."""
        if self._stopped:
            return
        self._stopped = True
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.ssh.process.wait(_END_TIMEOUT_S)
        told = contained.describe(self.ssh.process, self.ssh.stderr)
        self.ssh.stop()
        if self.ssh.process.returncode != 0:
            raise PlatformError(
                f"{self.host} did not confirm that it removed {self.scratch}",
                where=told,
                cure="it does so by itself once it notices that the connection is gone; look there if it crashed",
            )


class Ssh:
    """See the module."""

    name = "ssh"
    summary = "any machine you have, over OpenSSH: its own files, limits and cards"
    Options = SshOptions
    variants: Mapping[str, Mapping[str, Any]] = {}
    argument = "host"
    joins_topologies = False

    def probe(self, options: SshOptions, image: Image | None) -> Probe:
        """Start the agent there once. The image is not used: without one, nothing but `cat` and Python is needed."""
        probe = trial_start.probe(self.launch, options, image, programs={"ssh": "openssh-client"})
        who = options.local_user or os.environ.get("SUDO_USER") or "root"
        config = f"-F {options.config} " if options.config else ""
        cure = (
            probe.cure or f"as {who}, make this work: ssh {config}-o BatchMode=yes {options.host} {options.python} -V"
        )
        return replace(probe, marks=("remote",), cure="" if probe.available else cure)

    def start(self, options: SshOptions, spec: GuestSpec) -> SshGuest:
        """See platforms.base.Driver."""
        return self.launch(options, spec, bootstrap.argv("-"))

    def launch(self, options: SshOptions, spec: GuestSpec, argv: Sequence[str]) -> SshGuest:
        """Connect and run argv there, its standard streams the channel. Whether that worked, the channel shows."""
        if spec.plugboard is not None:
            raise PlatformError(
                f"the network cards of {options.host} are not vtax's to join to a topology",
                cure="take network benchmarks out of studies with this platform",
            )
        mark = f"{spec.name}-{secrets.token_hex(4)}"
        scratch = f"{options.scratch.rstrip('/')}/{mark}"
        there = [options.python, *argv[1:]] if argv[0] == bootstrap.PYTHON else argv
        program = Program([*client(options), remote_line(options.python, scratch, mark, there)])
        return SshGuest(contained.start(spec, lambda group: program), options.host, scratch)


def client(options: SshOptions) -> list[str]:
    """The ssh command up to and with the host. Raises BadInput when the local user does not exist."""
    settings = [word for option in _OPTIONS for word in ("-o", option)]
    config = ["-F", options.config] if options.config else []
    return [*_as_user(options.local_user or os.environ.get("SUDO_USER", "")), "ssh", *config, "-T", "-x", "-a",
            "-e", "none", *settings, "--", options.host]  # fmt: skip


def remote_line(python: str, scratch: str, mark: str, argv: Sequence[str]) -> str:
    """What the machine's login shell is told: one line that bash, dash, zsh, csh and fish read alike.

    ssh joins its words to one line for that shell, so the program travels as hexadecimal digits: nothing to quote.
    """
    program = f"DIRECTORY={scratch!r}\nMARK={mark!r}\nARGV={list(argv)!r}\n{_KEEPER}".encode().hex()
    return shlex.join([python, "-I", "-S", "-B", "-c", f'exec(bytes.fromhex("{program}"))'])


def _as_user(name: str) -> list[str]:
    """What to put before a command so that it runs as a user of this host; nothing when it does already."""
    if name in ("", pwd.getpwuid(os.geteuid()).pw_name):
        return []
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise BadInput(f"this host has no user {name!r}", where="option local_user") from error
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups", "--"]


DRIVER = Ssh()
