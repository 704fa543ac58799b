"""A virtual machine that the user already has under libvirt, reached through its virtio channel.

The domain's CPUs, memory, disk, kernel and interfaces are the user's, as on any machine vtax did not make. One
that is off is started and shut down again, gracefully; one that runs is left running. In the guest a service runs the
agent's bootstrap on the channel (docs/platforms.md has it), so no network is needed to reach it. Everything is asked
of `virsh`: what vtax does here, a user could type.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

from pydantic import Field

from vtax.errors import CommandFailed, GuestError, PlatformError, VtaxError
from vtax.guest.channel import Channel
from vtax.host.journal import Registration
from vtax.host.packages import packages_hint
from vtax.host.process import Result, find_program, run
from vtax.host.resources import RestoreCommand
from vtax.image.image import Image
from vtax.messages import Note, together
from vtax.platforms import probing
from vtax.platforms.base import (
    Driver,
    GuestSpec,
    Probe,
    RunningGuest,
    RunsAsRoot,
    register_platform,
)
from vtax.platforms.confinement import Isolation
from vtax.platforms.options import DriverOptions
from vtax.study.declared import Example

NOTES = (
    Note("domain-own-limits"),
    Note("domain-not-restarted"),
)
_CONNECT_TIMEOUT_S = 10.0
_SHUTDOWN_TIMEOUT_S = 120.0
# How long the channel is left unconnected before it is used in a domain that runs: whoever waits there from before
# sees its end and starts anew.
_RESET_S = 0.5
_ANSWER_S = 12.0
# Connections to a daemon or driver of this host. Others start what they name: ?command=, ?proxy=, +ext, +ssh
# (libvirt, "Connection URIs", "Remote support").
_URI = r"^((qemu|xen|lxc|ch|vbox|bhyve)(\+unix)?:///(system|session)?(\?socket=/[A-Za-z0-9_./+-]+)?|test:///default)$"
_HINT = Note("hint-libvirt-channel")


class LibvirtOptions(DriverOptions):
    """Which domain, and where its agent listens."""

    domain: Annotated[str, Example("web1")] = Field(
        description="name of the domain", pattern=r"^[^\s-]\S*$"
    )
    uri: Annotated[
        str,
        Example("xen:///system"),
        RunsAsRoot("a socket to which root of this host connects", harmless=r"[^?]*"),
    ] = Field("qemu:///system", pattern=_URI, description="libvirt connection, of this host")
    channel: str = Field(
        "org.vtax.0", description="name of the virtio channel whose service runs the bootstrap"
    )
    scratch: str = Field(
        "/var/tmp", description="directory in the guest where benchmarks may write"
    )


@dataclass
class LibvirtGuest(RunningGuest):
    """An agent in a domain (see platforms.base.RunningGuest). started: the journal's entry if vtax started it."""

    options: LibvirtOptions
    channel: Channel
    started: Registration | None
    scratch: str
    notes: tuple[str, ...] = NOTES
    _stopped: bool = False

    def host_cpu_s(self) -> float | None:
        """CPU seconds of the domain since its start, as libvirt counts them."""
        with suppress(VtaxError, ValueError):
            probed = _virsh(self.options, "domstats", "--cpu-total", self.options.domain).stdout
            values = dict(line.strip().split("=", 1) for line in probed.splitlines() if "=" in line)
            return int(values["cpu.time"]) / 1e9 if "cpu.time" in values else None
        return None

    def stop(self) -> None:
        """End the agent; shut the domain down if it was off before."""
        if self._stopped:
            return
        self._stopped = True
        self.channel.close()
        if self.started is not None:
            try:
                self.started.release()
            except VtaxError as error:
                domain = self.options.domain
                hint = Note("hint-virsh-destroy", domain=domain)
                raise PlatformError(
                    Note("domain-not-shut-down", domain=domain, what=error.what), hint=hint
                ) from error


@register_platform
class Libvirt(Driver):
    name = "libvirt"
    summary = "a libvirt domain you have, through its virtio channel: its own files, limits and interfaces"
    Options = LibvirtOptions
    variants: Mapping[str, Mapping[str, Any]] = {}
    argument = "domain"
    joins_topologies = False
    tunings = ()  # nothing about them is ours to tune
    reaches_out = True
    uses_image = False

    def isolation(self, options: LibvirtOptions) -> Isolation:
        return "kernel"

    def probe(self, options: LibvirtOptions, image: Image | None) -> Probe:
        """Exchange a message with the service in a domain that runs; one that is off is looked at, not started."""
        started_at = time.monotonic()

        def probed(available: bool, reason: str, hint: str = "") -> Probe:
            return Probe(available, reason, hint, seconds=time.monotonic() - started_at)

        if find_program("virsh") is None:
            return probed(False, Note("no-virsh"), packages_hint("libvirt-clients"))
        try:
            state = _state(options)
            _find_socket(options)
            if state != "running":
                return probed(True, Note("domain-not-running", state=state))
            channel = _connect(options, is_running=True)
            try:
                probing.exchange(channel, with_image=True, timeout_s=_ANSWER_S)
            finally:
                channel.close()
        except GuestError as error:
            return probed(
                False, Note("channel-silent", channel=options.channel, what=error.what), _HINT
            )
        except VtaxError as error:
            return probed(False, error.what, error.hint)
        return probed(True, together(NOTES))

    def start(self, options: LibvirtOptions, spec: GuestSpec) -> LibvirtGuest:
        if spec.plugboard is not None:
            raise PlatformError(
                Note("not-joined", name=options.domain),
                hint=Note("hint-no-network"),
            )
        _find_socket(options)
        registered = None
        is_running = _state(options) == "running"
        if not is_running:
            registered = spec.journal.register(shutdown_command(options))
            _virsh(options, "start", options.domain)
        try:
            return LibvirtGuest(options, _connect(options, is_running), registered, options.scratch)
        except BaseException:
            if registered is not None:
                registered.release()
            raise


def channel_socket(xml: str, name: str) -> Path | None:
    """Return the unix socket of the virtio channel of a name; None when the domain has no such channel.

    The path is empty where libvirt will choose one when the domain starts. xml: of `virsh dumpxml` (libvirt,
    Domain XML format, "Channel").
    """
    for device in ElementTree.fromstring(xml).iterfind("devices/channel[@type='unix']"):
        target, source = device.find("target"), device.find("source")
        if target is not None and (target.get("type"), target.get("name")) == ("virtio", name):
            return Path(source.get("path", "")) if source is not None else Path()
    return None


def _connect(options: LibvirtOptions, is_running: bool) -> Channel:
    path = _find_socket(options)
    if is_running:
        Channel.to_unix_socket(path, timeout_s=_CONNECT_TIMEOUT_S).close()
        time.sleep(_RESET_S)
    return Channel.to_unix_socket(
        path, timeout_s=_CONNECT_TIMEOUT_S, diagnose=lambda: _diagnose(options)
    )


def _find_socket(options: LibvirtOptions) -> Path:
    socket = channel_socket(_virsh(options, "dumpxml", options.domain).stdout, options.channel)
    if socket is None:
        raise PlatformError(
            Note("domain-no-channel", domain=options.domain, channel=f"{options.channel!r}"),
            hint=_HINT,
        )
    return socket


def _state(options: LibvirtOptions) -> str:
    state = _virsh(options, "domstate", options.domain).stdout.strip()
    if state not in ("running", "shut off"):
        raise PlatformError(
            Note("domain-state", domain=options.domain, state=state), hint=Note("hint-domain-state")
        )
    return state


def shutdown_command(options: LibvirtOptions) -> RestoreCommand:
    """Return the journal's entry of a domain that vtax starts: asked to shut down, and waited for.

    It is never killed: its disk is the user's.
    """
    return RestoreCommand(
        f"domain {options.domain}",
        tuple(_command(options, "shutdown", options.domain)),
        harmless_words=("no domain with matching name",),
        until=tuple(_command(options, "domstate", options.domain)),
        until_says=("shut off",),
        within_s=_SHUTDOWN_TIMEOUT_S,
    )


def _diagnose(options: LibvirtOptions) -> str:
    try:
        return f"the domain is {_virsh(options, 'domstate', '--reason', options.domain).stdout.strip()}"
    except VtaxError as error:
        return error.what


def _command(options: LibvirtOptions, *words: str) -> list[str]:
    return ["virsh", "--quiet", "--connect", options.uri, *words]


def _virsh(options: LibvirtOptions, *words: str) -> Result:
    """Run virsh. Raises PlatformError with what virsh said."""
    try:
        return run(_command(options, *words), timeout_s=15.0)
    except CommandFailed as error:
        message = error.what.rpartition("error: ")[2] or error.what
        raise PlatformError(
            f"libvirt: {message}", where=options.uri, hint=Note("hint-virsh-list")
        ) from error
