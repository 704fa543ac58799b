"""Any machine the user already has, over OpenSSH: a cloud instance, another hypervisor's guest, a second computer.

Nothing of it is started or stopped but the agent. CPUs, memory, kernel, files and interfaces are the user's, as is
noted with every figure and shown by the equivalence audit; the tools under test must be installed there. Benchmarks
work in a private directory which a small Python program (there.py) makes on the machine before it starts the agent.
That program waits there, and removes the directory and whatever a benchmark left running once the agent has ended,
the agent does by itself when the connection is gone: so the machine is left clean even when this host dies. What is
there is in the journal too, so that `vtax clean` sees to it from a connection of its own.

With uplinks, such a machine is at an end of a topology, under test or as the native end of another platform's guest:
then the agent gets a network namespace of its own, with an interface on each interface there that an uplink leads to.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from tempfile import TemporaryFile
from threading import Event, Thread, Timer
from typing import IO, Annotated, Any, Self

from pydantic import Field, model_validator

from vtax.counters.host import hardware_id, machine_id_of
from vtax.errors import BadInput, Busy
from vtax.foreign_data import parse_json
from vtax.foreign_text import clean
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.host import lock
from vtax.host.journal import Registration
from vtax.host.process import run
from vtax.host.resources import Remote
from vtax.host.waiting import wait_until
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network.namespace import NO_BACKGROUND_TRAFFIC
from vtax.network.plugboard import Plugboard, Uplink
from vtax.network.uplink import check_nic, check_usable
from vtax.platforms import probing, stdio
from vtax.platforms.base import (
    GuestSpec,
    NetworkLimits,
    Probe,
    RunningGuest,
    RunsAsRoot,
    register_platform,
)
from vtax.platforms.confinement import Isolation
from vtax.platforms.options import DriverOptions
from vtax.platforms.probing import LaunchedDriver
from vtax.platforms.stdio import Program, StdioGuest
from vtax.store.hosts import HARDWARE_ID, MACHINE_ID, host_id
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


NOTES = (
    Note("machine-own-limits"),
    Note("machine-not-restarted"),
)
_END_TIMEOUT_S = 15.0
_EXAMINE_TIMEOUT_S = 30.0
_POLL_S = 0.01
_BEAT_S = 15.0  # between signs of life to a machine that is held
_SILENCE_S = 4 * _BEAT_S
_HOLDER = 200  # bytes of a lock file
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
_REPLY_PREFIX = "vtax machine "
_CREDENTIALS = (
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
)  # where ssh finds keys and tickets that are not files


@dataclass
class SshGuest(RunningGuest):
    """An agent on another machine (see platforms.base.RunningGuest).

    ssh: the client, a program of this host. scratch: the private directory on the machine. there: its entry in the
    journal.
    """

    ssh: StdioGuest
    channel: Channel
    there: Registration
    scratch: str
    notes: tuple[str, ...] = NOTES
    is_remote: bool = True
    _stopped: bool = False

    def stop(self) -> None:
        """End the agent and wait until the machine has removed what was made there.

        That takes a second connection if the first one broke. Raises PlatformError when it could not be asked; the journal
        keeps it then.
        """
        if self._stopped:
            return
        self._stopped = True
        self.channel.close()
        with suppress(subprocess.TimeoutExpired):
            self.ssh.process.wait(_END_TIMEOUT_S)
        status = self.ssh.process.poll()
        if status == 0 or (status is not None and not self.channel.has_data):
            self.there.forget()  # it reports that it removed everything, or it was never reached
        self.ssh.stop()


@register_platform
class Ssh(LaunchedDriver):
    name = "ssh"
    summary = "any machine you have, over OpenSSH: its own files, limits and interfaces"
    Options = SshOptions
    variants: Mapping[str, Mapping[str, Any]] = {}
    argument = "host"
    tunings = ()  # nothing about them is ours to tune
    reaches_out = True
    uses_image = False

    def probe(self, options: SshOptions, image: Image | None) -> Probe:
        """Start the agent there once. The image is not used: without one, nothing but `cat` and Python is needed."""
        probe = probing.probe(self.launch, options, image, programs={"ssh": "openssh-client"})
        who = options.local_user or os.environ.get("SUDO_USER") or "root"
        config = f"-F {options.config} " if options.config else ""
        hint = probe.hint or Note(
            "hint-ssh-as", who=who, config=config, host=options.host, python=options.python
        )
        probe = replace(probe, marks=("remote",), hint="" if probe.available else hint)
        if not probe.available or not options.uplinks:
            return probe
        try:
            self.check_machine(options, None, ())
        except BadInput as error:
            return replace(probe, available=False, reason=error.what, hint=error.hint)
        return probe

    def network_limits(self, options: SshOptions) -> NetworkLimits:
        """Return its limits: an uplink carries one interface to a bridge or switch of the lab."""
        return NetworkLimits(
            interfaces=len(options.joined), queues=1, not_attached=("veth", "macvtap")
        )

    def isolation(self, options: SshOptions) -> Isolation:
        return "kernel"

    def launch_program(self, options: SshOptions, spec: GuestSpec, argv: Sequence[str]) -> SshGuest:
        """Connect and run argv there, its standard streams the channel. Whether that worked, the channel shows."""
        tag = f"{spec.name}-{secrets.token_hex(4)}"
        scratch = f"{options.scratch.rstrip('/')}/{tag}"
        remote_argv = (
            [*options.interpreter, *argv[1:]] if argv[0] == bootstrap.PYTHON else list(argv)
        )
        interfaces = (
            _plug_uplinks(spec.plugboard, options.joined) if spec.plugboard is not None else []
        )
        keep = remote_line(
            options.python,
            "keep",
            directory=scratch,
            tag=tag,
            argv=remote_argv,
            interfaces=interfaces,
        )
        clear = remote_line(options.python, "clear", directory=scratch, tag=tag)
        remote = Remote(options.host, scratch, (*client(options), clear))
        registered: list[Registration] = []

        def register() -> list[Registration]:
            registered.append(spec.journal.register(remote))
            return registered

        agents = {name: os.environ[name] for name in _CREDENTIALS if name in os.environ}
        program = Program([*client(options), keep], environment=agents)
        client_program = stdio.start(spec, lambda group: program, register)
        return SshGuest(client_program, client_program.channel, registered[0], scratch)

    @contextmanager
    def hold(self, options: SshOptions, name: str, warn: Callable[[Note], None]) -> Iterator[str]:
        holder_name = f"{name} of {os.uname().nodename}, {os.getpid()}"
        line = remote_line(
            options.python, "hold", path=str(lock.HOST_LOCK), name=holder_name, silence_s=_SILENCE_S
        )
        hold_ended, is_held = Event(), False
        with (
            TemporaryFile() as errors,
            subprocess.Popen(
                [*client(options), line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
                errors="replace",
            ) as process,
        ):
            assert process.stdin
            try:
                reply = _read_hold_reply(process, errors, options)
                if "user" in reply:
                    warn(Note("lock-needs-root", host=options.host, user=reply["user"]))
                elif "holder" in reply:
                    _check_own(str(reply["holder"]), holder_name, options)
                else:
                    is_held = True
                    Thread(
                        target=_send_heartbeats, args=(process.stdin, hold_ended), daemon=True
                    ).start()
                facts = {
                    MACHINE_ID: machine_id_of(reply["machine"]),
                    HARDWARE_ID: hardware_id(*reply["hardware"]),
                }
                yield host_id(facts)
            finally:
                hold_ended.set()
                with suppress(OSError):
                    process.stdin.close()
                if _status(process, _END_TIMEOUT_S) != 0 and is_held:
                    warn(Note("lock-lost", host=options.host))
                _kill(process)

    def command(self, options: SshOptions, arguments: Sequence[str]) -> Sequence[str]:
        return [*client(options), shlex.join([*options.interpreter, *arguments])]

    def uplinks(self, options: SshOptions) -> tuple[Uplink, ...]:
        return options.joined

    def check_machine(self, options: SshOptions, mtu: int | None, programs: Sequence[str]) -> None:
        for uplink in options.joined:
            check_nic(uplink.here, mtu)
        programs_needed = [*programs, "ip", "ethtool", "nsenter"]
        argv = [*client(options), remote_line(options.python, "examine", programs=programs_needed)]
        result = run(argv, check=False, timeout_s=_EXAMINE_TIMEOUT_S)
        reply = _reply(
            result.stdout.splitlines(),
            options,
            lambda: result.stderr.strip() or f"status {result.status}",
        )
        if reply["missing"]:
            raise BadInput(
                f"the machine {options.host} lacks {', '.join(reply['missing'])}",
                hint=Note("hint-install-there"),
            )
        if reply["uid"] != 0:
            raise BadInput(
                f"on the machine {options.host} one is user {reply['uid']}, and only root makes network namespaces",
                hint=Note("hint-ssh-root", host=options.host),
            )
        for uplink in options.joined:
            check_usable(reply["interfaces"], uplink.there, mtu, f"the machine {options.host}")


def _plug_uplinks(plugboard: Plugboard, uplinks: Sequence[Uplink]) -> list[dict[str, Any]]:
    """Plug this host's side of the uplinks; what the machine must know of the interfaces its guest is to have."""
    plugged_uplinks = uplinks[: len(plugboard.interfaces)]
    plugboard.plug_uplinks(plugged_uplinks)
    return [
        {
            "nic": uplink.there,
            "name": interface.name,
            "mac": interface.mac,
            "mtu": interface.mtu,
            "quiet": dict(NO_BACKGROUND_TRAFFIC),
        }
        for uplink, interface in zip(plugged_uplinks, plugboard.interfaces, strict=True)
    ]


def _reply(
    lines: Iterable[str], options: SshOptions, otherwise: Callable[[], str]
) -> dict[str, Any]:
    """Return what the program there printed, behind what a login shell did. otherwise: why there is nothing."""
    for line in lines:
        if line.startswith(_REPLY_PREFIX):
            reply: dict[str, Any] = parse_json(line.removeprefix(_REPLY_PREFIX))
            return reply
    message = otherwise()[-300:]
    raise BadInput(
        f"the machine {options.host} cannot be reached: {message}",
        hint=Note("hint-ssh", host=options.host, python=options.python),
    )


def _read_hold_reply(
    process: subprocess.Popen[str], errors: IO[bytes], options: SshOptions
) -> dict[str, Any]:
    """Return what `hold` printed. errors: the file of its stderr."""
    assert process.stdout
    timer = Timer(_EXAMINE_TIMEOUT_S, _kill, [process])
    timer.start()

    def otherwise() -> str:
        status = _status(process, _EXAMINE_TIMEOUT_S)
        errors.seek(0)
        return errors.read().decode(errors="replace").strip() or f"status {status}"

    try:
        return _reply(process.stdout, options, otherwise)
    finally:
        timer.cancel()


def _status(process: subprocess.Popen[str], timeout_s: float) -> int | None:
    """Return the exit status or signal of a client, which is left to `_kill`; None when it does not end in time."""
    exit_info = wait_until(
        lambda: os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT),
        timeout_s,
        _POLL_S,
    )
    return exit_info.si_status if exit_info else None


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a client that was not waited for, and what it started: a ProxyCommand may outlive it."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _check_own(holder: str, own_name: str, options: SshOptions) -> None:
    """Raise Busy unless this run holds a machine: by another of its names or, without uplinks, as its own host.

    holder: the first line of the machine's lock file, of which _HOLDER bytes are read.
    own_name: by which this run would hold it.
    """
    if holder.startswith(f"{own_name} (".encode()[:_HOLDER].decode(errors="replace")):
        return
    local_holder, host = b"", options.host
    with suppress(OSError):
        local_holder = lock.HOST_LOCK.read_bytes()[:_HOLDER].partition(b"\n")[0]
    if holder != local_holder.decode(errors="replace"):
        name = clean(holder, _HOLDER)
        raise Busy(
            f"{name} has the machine {host} to itself; a second command would disturb its figures",
            hint="wait for its end; this exit status means: try again later",
        )
    if options.joined:
        raise BadInput(f"the machine {host} is this host itself", hint="name another machine")


def _send_heartbeats(stdin: IO[str], hold_ended: Event) -> None:
    """Show a machine that its run lives: whoever lost power would have it for ever."""
    with suppress(OSError, ValueError):  # the connection is gone, or closed meanwhile
        while not hold_ended.wait(_BEAT_S):
            stdin.write(".")
            stdin.flush()


def client(options: SshOptions) -> list[str]:
    """Return the ssh command up to and with the host. Raises BadInput when the local user does not exist."""
    settings = [word for option in _OPTIONS for word in ("-o", option)]
    config = ["-F", options.config] if options.config else []
    return [
        *_as_user(options.local_user or os.environ.get("SUDO_USER", "")),
        "ssh",
        *config,
        "-T",
        "-x",
        "-a",
        "-e",
        "none",
        *settings,
        "--",
        options.host,
    ]


def remote_line(python: str, call: str, **arguments: Any) -> str:
    """Return the command for the machine's login shell: one line that bash, dash, zsh, csh and fish read alike.

    call: a function of there.py. ssh joins its words to one line for that shell, so the program travels as
    hexadecimal digits: nothing to quote.
    """
    program = f"{_remote_program()}\nos._exit({call}(**{arguments!r}))\n".encode().hex()
    return shlex.join([python, "-I", "-S", "-B", "-c", f'exec(bytes.fromhex("{program}"))'])


@cache
def _remote_program() -> str:
    """Return the text of the program, with the module that removes trees, whose functions it calls by name."""
    removal = files("vtax.host").joinpath("removal.py").read_text()
    program = files("vtax.platforms.ssh").joinpath("there.py").read_text()
    return f"{program}\nexec({removal!r})\n"


def _as_user(name: str) -> list[str]:
    """Return what to put before a command so that it runs as a user of this host; nothing when it does already."""
    if name in ("", pwd.getpwuid(os.geteuid()).pw_name):
        return []
    try:
        entry = pwd.getpwnam(name)
    except KeyError as error:
        raise BadInput(f"this host has no user {name!r}", where="option local_user") from error
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups", "--"]
