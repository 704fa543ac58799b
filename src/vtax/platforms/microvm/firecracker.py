"""Firecracker: the microVM of services that start one for every call. The agent answers on its serial line.

That line is the program's standard streams. What the program finds no room for on its output it drops, so the pipe is
a large one and the kernel has no console. Disks are raw files: each guest has a copy of the image's.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from vtax.counters.layer import Part
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

_MODULES = ("virtio_mmio", "virtio_blk", "virtio_net")
_WORDS = ("reboot=k", "8250.nr_uarts=1")
"""A reboot, also after a panic, ends the program only by the keyboard's controller. It has one serial line."""
_PIPE_BYTES = 1 << 20


class FirecrackerOptions(MicroVmOptions):
    """Options of the driver `firecracker`."""

    binary: Annotated[str, Example("/opt/bin/firecracker"), RunsAsRoot("a program")] = Field(
        "firecracker",
        pattern=PROGRAM_PATTERN,
        description="the firecracker program: a name on PATH, or a path",
    )


@register_platform
class Firecracker(MicroVm):
    name = "firecracker"
    summary = "a microVM of Firecracker"
    Options = FirecrackerOptions
    variants: Mapping[str, Mapping[str, Any]] = {
        "firecracker": {},
        "firecracker-restore": {"start": "restore"},
    }
    product = "Firecracker"
    version = re.compile(r"^Firecracker v(\S+)", re.MULTILINE)
    vcpu = re.compile(r"fc_vcpu \d+")
    parts = (Part("vcpu", ".*", r"fc_vcpu [0-9]+"), Part("monitor", ".*"))
    disk_name = "disk.raw"
    serve = ("--api-sock", microvm.SOCKET)
    alone = ("--no-api",)

    def command(self, machine: Machine) -> list[str]:
        path = machine.directory / "machine.json"
        path.write_text(json.dumps(configuration(machine)))
        return ["--config-file", str(path), *_common(machine)]

    def restore_command(self, machine: Machine, snapshot: Path) -> list[str]:
        return [*self.serve, *_common(machine)]

    def load(self, api: Api, machine: Machine, snapshot: Path) -> None:
        overrides = [{"iface_id": nic.name, "host_dev_name": tap} for nic, tap in machine.nics]
        memory = {"backend_type": "File", "backend_path": str(snapshot / "memory")}
        body = {
            "snapshot_path": str(snapshot / "state"),
            "mem_backend": memory,
            "network_overrides": overrides,
        }
        api.request("PUT", "/snapshot/load", body)

    def save(self, api: Api, snapshot: Path) -> None:
        api.request("PATCH", "/vm", {"state": "Paused"})
        files = {
            "snapshot_path": str(snapshot / "state"),
            "mem_file_path": str(snapshot / "memory"),
        }
        api.request("PUT", "/snapshot/create", {"snapshot_type": "Full", **files})

    def resume(self, api: Api) -> None:
        api.request("PATCH", "/vm", {"state": "Resumed"})

    def make_disk(self, spec: GuestSpec) -> list[str]:
        return microvm.copy(spec.image.disk, spec.directory / self.disk_name)

    def make_stream(self, fds: ExitStack) -> Stream:
        """Make two pipes: it waits for input on a pipe from the start, on a socket not."""
        stdin, write = os.pipe()
        read, stdout = os.pipe()
        for fd in (stdin, stdout):
            fds.callback(os.close, fd)
        fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return Stream(stdin, stdout, read, write)


def _common(machine: Machine) -> list[str]:
    return ["--id", machine.name, "--log-path", str(machine.log), "--level", "Error"]


def configuration(machine: Machine) -> dict[str, Any]:
    """Return what --config-file has (Firecracker, docs/getting-started.md). A flush of the guest reaches the disk."""
    words = virtual_machine.kernel_command_line("", _MODULES, "/dev/vda", "/dev/ttyS0", _WORDS)
    return {
        "boot-source": {
            "kernel_image_path": str(machine.boot.kernel),
            "initrd_path": str(machine.boot.initrd),
            "boot_args": words,
        },
        "drives": [
            {
                "drive_id": "root",
                "path_on_host": machine.disk.name,
                "is_root_device": False,
                "is_read_only": False,
                "cache_type": "Writeback",
            }
        ],
        "network-interfaces": _interfaces(machine.nics),
        "machine-config": {
            "vcpu_count": machine.vcpus,
            "mem_size_mib": machine.memory_mib,
            "smt": False,
        },
    }


def _interfaces(nics: Sequence[tuple[Interface, str]]) -> list[dict[str, str]]:
    return [{"iface_id": nic.name, "guest_mac": nic.mac, "host_dev_name": tap} for nic, tap in nics]
