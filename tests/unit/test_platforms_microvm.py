"""Drivers of microVMs without their programs: what these are called with, and programs that are others."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from vtax.errors import PlatformError
from vtax.messages import Note
from vtax.network.plugboard import Interface
from vtax.platforms import registry
from vtax.platforms.base import HostProgram
from vtax.platforms.microvm import cloud_hypervisor, firecracker
from vtax.platforms.microvm import machine as microvm
from vtax.platforms.virtual_machine import Boot

NAMES = ("firecracker", "cloud-hypervisor")
SAY = {"firecracker": "Firecracker v1.17.0-dev", "cloud-hypervisor": "cloud-hypervisor v54.0.0"}
NIC = Interface("eth0", "02:76:74:00:02:00", ("198.18.0.2/24",))


def machine(directory: Path, disk: str = "disk.raw", nic: Interface = NIC) -> microvm.Machine:
    boot = Boot(Path("/k"), Path("/i"))
    return microvm.Machine("vtax-1", directory, boot, directory / disk, 2, 512, ((nic, "tap7"),))


def program(tmp_path: Path, script: str) -> Path:
    path = tmp_path / "program"
    path.write_text(script)
    path.chmod(0o755)
    return path


def checked(name: str, binary: object) -> tuple[str, tuple[str, ...]]:
    platform = registry.make("mine", name, {"binary": str(binary)})
    return platform.driver.check_host(platform.options)


def test_firecracker_is_given_kernel_disk_interfaces_and_no_console(tmp_path):
    argv = firecracker.Firecracker().command(machine(tmp_path))
    given = json.loads(Path(argv[argv.index("--config-file") + 1]).read_text())
    source = given["boot-source"]
    assert (source["kernel_image_path"], source["initrd_path"]) == ("/k", "/i")
    words = source["boot_args"].split()
    assert {"reboot=k", "panic=-1", "vtax.stream=/dev/ttyS0", "vtax.root=/dev/vda"} < set(words)
    assert not any(word.startswith("console=") for word in words)
    (drive,) = given["drives"]
    assert (drive["path_on_host"], drive["is_read_only"]) == ("disk.raw", False)
    assert drive["cache_type"] == "Writeback"
    assert given["network-interfaces"] == [
        {"iface_id": "eth0", "guest_mac": NIC.mac, "host_dev_name": "tap7"}
    ]
    assert given["machine-config"] == {"vcpu_count": 2, "mem_size_mib": 512, "smt": False}


def test_cloud_hypervisor_is_given_kernel_disk_interfaces_and_a_console_of_its_own(tmp_path):
    argv = cloud_hypervisor.CloudHypervisor().command(machine(tmp_path, "disk.qcow2"))
    given = dict(zip(argv[::2], argv[1::2], strict=True))
    assert (given["--kernel"], given["--initramfs"], given["--cpus"]) == ("/k", "/i", "boot=2")
    assert (given["--memory"], given["--serial"], given["--console"]) == (
        "size=512M",
        "file=console.log",
        "tty",
    )
    assert given["--disk"] == "path=disk.qcow2,image_type=qcow2,backing_files=on"
    assert {"console=ttyS0", "vtax.stream=/dev/hvc0"} < set(given["--cmdline"].split())
    assert given["--net"] == f"tap=tap7,mac={NIC.mac}"


def test_offloads_that_a_link_turns_off_are_off_at_the_machine_too(tmp_path):
    nic = Interface(NIC.name, NIC.mac, NIC.addresses, offloads=False)
    argv = cloud_hypervisor.CloudHypervisor().command(machine(tmp_path, nic=nic))
    assert argv[-1] == f"tap=tap7,mac={NIC.mac},offload_tso=off,offload_ufo=off,offload_csum=off"


def test_what_firecracker_would_drop_on_a_full_output_has_a_mebibyte_of_room():
    with ExitStack() as fds:
        stream = firecracker.Firecracker().make_stream(fds)
        os.set_blocking(stream.stdout, False)
        assert os.write(stream.stdout, bytes(1 << 20)) == 1 << 20
    os.close(stream.read)
    os.close(stream.write)


def test_every_byte_passes_the_terminal_of_cloud_hypervisor_unchanged():
    with ExitStack() as fds:
        stream = cloud_hypervisor.CloudHypervisor().make_stream(fds)
        os.write(stream.write, bytes(range(256)))
        assert os.read(stream.stdin, 1000) == bytes(range(256))
        os.write(stream.stdout, bytes(range(256)))
        assert os.read(stream.read, 1000) == bytes(range(256))
    os.close(stream.read)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_known_by_what_it_says_of_its_version(
    name, tmp_path, monkeypatch, on_path, devices
):
    monkeypatch.setattr(microvm, "is_virtual", lambda: True)
    on_path("qemu-img", "")
    (devices / "kvm").touch()
    binary = program(tmp_path, f"#!/bin/sh\necho {SAY[name]}\necho\necho Supported: none\n")
    version, marks = checked(name, binary)
    driver = registry.drivers()[name]
    assert version == f"{driver.product} {SAY[name].partition(' v')[2]}"
    assert marks == ("nested",)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\nexit 0\n", "''"),
        ("#!/bin/sh\necho QEMU emulator version 7.2.22\n", "QEMU emulator"),
        ("#!/bin/sh\necho broken >&2\nexit 3\n", "broken"),
        ("\x7fELF and no more", "Exec format error"),
        ("#!/bin/sh\nprintf '\\377\\376'\n", ""),
    ],
    ids=["silent", "another", "fails", "no-program", "no-text"],
)
def test_a_program_that_is_another_or_none_is_refused_with_what_it_said(
    name, script, said, tmp_path, on_path
):
    on_path("qemu-img", "")
    binary = program(tmp_path, script)
    with pytest.raises(PlatformError, match=f"{binary} is not ") as caught:
        checked(name, binary)
    assert said in caught.value.where
    assert "binary" in caught.value.hint


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["absent", "directory", "plain file"])
def test_a_path_without_a_program_is_refused(name, kind, tmp_path):
    path = tmp_path / "there"
    if kind == "directory":
        path.mkdir()
    if kind == "plain file":
        path.write_text("text")
    with pytest.raises(PlatformError) as caught:
        checked(name, path)
    assert caught.value.what == Note("no-program", name=str(path))
    assert caught.value.hint == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_host_without_kvm_is_shown_what_to_turn_on(name, tmp_path, on_path, devices):
    on_path("qemu-img", "")
    with pytest.raises(PlatformError) as caught:
        checked(name, program(tmp_path, f"#!/bin/sh\necho {SAY[name]}\n"))
    assert caught.value.what == Note("no-device", device=str(devices / "kvm"))
    assert "virtualization" in caught.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_a_program_of_ones_own_needs_consent_and_the_default_none(name):
    assert registry.get(name).host_programs == ()
    mine = registry.make("mine", name, {"binary": "/opt/monitor"})
    assert mine.host_programs == (HostProgram("mine", name, "binary", "/opt/monitor", "a program"),)


def answering(directory: Path, answer: bytes) -> threading.Thread:
    """Serve one request on the socket of a monitor in a directory."""
    server = socket.socket(socket.AF_UNIX)
    here = os.open(directory, os.O_PATH)
    server.bind(f"/proc/self/fd/{here}/{microvm.SOCKET}")
    os.close(here)
    server.listen()

    def serve() -> None:
        with server, server.accept()[0] as connection:
            asked = b""
            while not asked.endswith(b"}"):
                asked += connection.recv(4096)
            (directory / "asked").write_bytes(asked)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_monitor_is_asked_by_its_socket_however_long_the_path_is(tmp_path):
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    server = answering(directory, b"HTTP/1.1 204 No Content\r\n\r\n")
    firecracker.Firecracker().resume(microvm.Api(directory, "Firecracker"))
    server.join()
    asked = (directory / "asked").read_bytes()
    assert asked.startswith(b"PATCH /vm HTTP/1.1\r\n")
    assert asked.endswith(b'{"state": "Resumed"}')


def test_what_a_monitor_refuses_is_an_error_with_its_words(tmp_path):
    fault = b'{"fault_message":"Load snapshot error: bad magic"}'
    server = answering(
        tmp_path, b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(fault), fault)
    )
    with pytest.raises(PlatformError, match="Firecracker refuses /snapshot/load") as caught:
        firecracker.Firecracker().load(
            microvm.Api(tmp_path, "Firecracker"), machine(tmp_path), tmp_path
        )
    server.join()
    assert "bad magic" in caught.value.where


def test_a_monitor_that_never_listens_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(microvm, "_CONNECT_S", 0.05)
    with pytest.raises(PlatformError) as caught:
        cloud_hypervisor.CloudHypervisor().resume(microvm.Api(tmp_path, "Cloud Hypervisor"))
    assert caught.value.what.code == "vmm-silent"
    assert caught.value.what.data["product"] == "Cloud Hypervisor"


def test_a_restored_machine_has_taps_of_its_own_and_the_snapshot_stays_as_it_is(tmp_path):
    kept, own = tmp_path / "kept", tmp_path / "own"
    kept.mkdir()
    own.mkdir()
    given = json.dumps({"net": [{"tap": "tap1", "mac": NIC.mac}], "cpus": {"boot_vcpus": 2}})
    (kept / "config.json").write_text(given)
    (kept / "state.json").write_text("state")
    argv = cloud_hypervisor.CloudHypervisor().restore_command(machine(own), kept)
    assert argv[-2:] == ["--restore", f"source_url=file://{own}/snapshot"]
    assert json.loads((own / "snapshot/config.json").read_text())["net"] == [
        {"tap": "tap7", "mac": NIC.mac}
    ]
    assert (own / "snapshot/state.json").read_text() == "state"
    assert (kept / "config.json").read_text() == given


@pytest.mark.parametrize("damaged", ['{"net": [{"tap"', "[]", "{}", '{"net": [1]}'])
def test_a_snapshot_whose_configuration_is_damaged_is_an_error(tmp_path, damaged):
    kept, own = tmp_path / "kept", tmp_path / "own"
    kept.mkdir()
    own.mkdir()
    (kept / "config.json").write_text(damaged)
    with pytest.raises(PlatformError, match=r"snapshot .*damaged") as caught:
        cloud_hypervisor.CloudHypervisor().restore_command(machine(own), kept)
    assert caught.value.where == str(kept / "config.json")


def test_a_snapshot_is_of_one_kernel_and_one_processor(monkeypatch):
    here = microvm.snapshot_key("firecracker", 1)
    assert microvm.snapshot_key("firecracker", 1) == here != microvm.snapshot_key("firecracker", 2)
    with monkeypatch.context() as patch:
        patch.setattr(
            microvm.os, "uname", lambda: os.uname_result(("Linux", "h", "9.9", "v", "x86_64"))
        )
        assert microvm.snapshot_key("firecracker", 1) != here
    cpu = Path("/proc/cpuinfo").read_text()
    for old, new, same in (
        ("cpu MHz\t\t: ", "cpu MHz\t\t: 1", True),
        ("model\t\t: ", "model\t\t: 1", False),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(
                microvm.Path, "read_text", lambda path, old=old, new=new: cpu.replace(old, new)
            )
            assert (microvm.snapshot_key("firecracker", 1) == here) == same


def test_a_snapshot_is_made_once_whole_or_not_at_all_and_few_are_kept(unmade_home, journal):
    def fail(path: Path) -> None:
        (path / "state").touch()
        raise OSError("no space")

    kept = unmade_home / "cache/snapshots"
    with pytest.raises(OSError, match="no space"):
        microvm.ensure_snapshot("0" * 16, fail, journal)
    assert [path.name for path in kept.iterdir()] == ["lock"]
    for number in range(10):
        name = f"{number:016x}"
        path, is_new = microvm.ensure_snapshot(name, lambda path: (path / "state").touch(), journal)
        assert (path.name, is_new) == (name, True)
        os.utime(path, (number, number))
    assert microvm.ensure_snapshot(f"{9:016x}", fail, journal)[1] is False
    assert sorted(path.name for path in kept.iterdir()) == [
        *(f"{n:016x}" for n in range(2, 10)),
        "lock",
    ]
    assert journal.registered == ()
