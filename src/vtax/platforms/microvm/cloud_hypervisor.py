"""Cloud Hypervisor: a microVM with PCI and a virtio console, on which the agent answers.

The console is a terminal that vtax opens, since the program passes bytes only to one. The kernel's messages go to a
file by the serial line. The disk is an overlay over the image's, as of QEMU.
"""

from __future__ import annotations

import json
import os
import re
import tty
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from vtax.counters.layer import Part
from vtax.errors import PlatformError
from vtax.messages import Note
from vtax.network.plugboard import Interface
from vtax.platforms import virtual_machine
from vtax.platforms.base import GuestSpec, RunsAsRoot, register_platform
from vtax.platforms.microvm import machine as microvm
from vtax.platforms.microvm.machine import (
    PROGRAM_PATTERN,
    Api,
    Machine,
    MicroVm,
    MicroVmOptions,
    Stream,
)
from vtax.study.declared import Example

_MODULES = ("virtio_pci", "virtio_console", "virtio_blk", "virtio_net")
_WORDS = ("8250.nr_uarts=1",)
_CONSOLE = virtual_machine.CONSOLE
_CONFIGURATION = "config.json"


class CloudHypervisorOptions(MicroVmOptions):
    """Options of the driver `cloud-hypervisor`."""

    binary: Annotated[str, Example("/opt/bin/cloud-hypervisor"), RunsAsRoot("a program")] = Field(
        "cloud-hypervisor",
        pattern=PROGRAM_PATTERN,
        description="the cloud-hypervisor program: a name on PATH, or a path",
    )


@register_platform
class CloudHypervisor(MicroVm):
    name = "cloud-hypervisor"
    summary = "a microVM of Cloud Hypervisor"
    Options = CloudHypervisorOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        "cloud-hypervisor": {},
        "cloud-hypervisor-restore": {"start": "restore"},
    }
    product = "Cloud Hypervisor"
    version = re.compile(r"^cloud-hypervisor v(\S+)", re.MULTILINE)
    vcpu = re.compile(r"vcpu\d+")
    parts = (
        Part("vcpu", ".*", r"vcpu[0-9]+"),
        Part("io", ".*", r"_(disk|net)[0-9]+_.*"),
        Part("monitor", ".*"),
    )
    packages: Mapping[str, str] = {"qemu-img": "qemu-utils"}
    disk_name = "disk.qcow2"
    serve = ("--api-socket", microvm.SOCKET)

    def command(self, machine: Machine) -> list[str]:
        words = virtual_machine.kernel_command_line(
            "ttyS0", _MODULES, "/dev/vda", "/dev/hvc0", _WORDS
        )
        nics = [_interface(nic, tap) for nic, tap in machine.nics]
        return [
            *(
                "--kernel",
                str(machine.boot.kernel),
                "--initramfs",
                str(machine.boot.initrd),
                "--cmdline",
                words,
            ),
            *("--cpus", f"boot={machine.vcpus}", "--memory", f"size={machine.memory_mib}M"),
            *("--disk", f"path={machine.disk.name},image_type=qcow2,backing_files=on"),
            *("--serial", f"file={_CONSOLE}", "--console", "tty", "--log-file", str(machine.log)),
            *(["--net", *nics] if nics else []),
        ]

    def restore_command(self, machine: Machine, snapshot: Path) -> list[str]:
        """Return them, for a copy of the snapshot whose configuration has this machine's taps.

        Raises PlatformError for one that cannot be read.
        """
        copy = machine.directory / "snapshot"
        copy.mkdir()
        for path in snapshot.iterdir():
            (copy / path.name).symlink_to(path)
        try:
            configuration = json.loads((snapshot / _CONFIGURATION).read_text())
            for (_, tap), net in zip(machine.nics, configuration.get("net") or [], strict=True):
                net["tap"] = tap
        except (ValueError, AttributeError, TypeError) as error:
            note = Note("snapshot-damaged", error=error)
            raise PlatformError(
                note, where=str(snapshot / _CONFIGURATION), hint=Note("hint-snapshot")
            ) from error
        (copy / _CONFIGURATION).unlink()
        (copy / _CONFIGURATION).write_text(json.dumps(configuration))
        return [
            *self.serve,
            "--log-file",
            str(machine.log),
            "--restore",
            f"source_url=file://{copy}",
        ]

    def save(self, api: Api, snapshot: Path) -> None:
        api.request("PUT", "/api/v1/vm.pause")
        api.request("PUT", "/api/v1/vm.snapshot", {"destination_url": f"file://{snapshot}"})

    def resume(self, api: Api) -> None:
        api.request("PUT", "/api/v1/vm.resume")

    def make_disk(self, spec: GuestSpec) -> list[str]:
        virtual_machine.overlay(spec)
        return []

    def make_stream(self, fds: ExitStack) -> Stream:
        pty_master, pty_slave = os.openpty()
        fds.callback(os.close, pty_slave)
        tty.setraw(pty_slave)
        return Stream(pty_slave, pty_slave, pty_master, pty_master)

    def last_console_lines(self, directory: Path) -> str:
        return virtual_machine.console_errors(directory / _CONSOLE)


def _interface(nic: Interface, tap: str) -> str:
    words = [f"tap={tap}", f"mac={nic.mac}"]
    if not nic.offloads:
        words += [f"offload_{name}=off" for name in ("tso", "ufo", "csum")]
    return ",".join(words)
