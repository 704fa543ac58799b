"""The VirtualBox driver without VirtualBox: the calls that make a machine, the order they come in, and errors."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support import needs_root

from vtax.errors import BadInput, GuestError, PlatformError
from vtax.guest.channel import Channel
from vtax.guest.guest import Guest
from vtax.host.journal import Journal
from vtax.image.image import Image
from vtax.messages import Note
from vtax.network.plugboard import Interface
from vtax.platforms import registry, virtual_machine
from vtax.platforms.base import GuestSpec, Resources
from vtax.platforms.virtualbox import driver, machine, tools
from vtax.platforms.virtualbox.machine import VARIANTS, VirtualBoxOptions

TWO_CPUS = Resources(2, 512 << 20, (2, 3))
NICS = (Interface("eth0", "02:76:74:00:02:00", ("198.18.0.2/24",)),)
MADE = machine.VirtualBoxIo("vtax-1", Path("/guests/vtax-1"), NICS, ("vtax-1b0",))


def calls(made: machine.VirtualBoxIo = MADE, **options) -> dict[str, list[str]]:
    """The calls of VBoxManage by their first word, and those of storage by that of the controller too."""
    found = machine.commands(VirtualBoxOptions(**options), TWO_CPUS, made)
    return {
        call[0] if call[0] not in ("storagectl", "storageattach") else f"{call[0]} {call[3]}": call
        for call in found
    }


def setting(call: list[str], name: str) -> str:
    return call[call.index(name) + 1]


def test_a_machine_has_its_cpus_memory_and_two_serial_lines():
    modify = calls()["modifyvm"]
    assert (setting(modify, "--cpus"), setting(modify, "--memory")) == ("2", "512")
    at = modify.index("--uart2")
    assert modify[at : at + 6] == [
        "--uart2",
        "0x2F8",
        "3",
        "--uart-mode2",
        "server",
        "/guests/vtax-1/agent",
    ]
    assert setting(modify, "--uart-mode1") == "file"


def test_the_disk_is_a_vdi_over_the_images_own():
    create = calls()["createmedium"]
    assert setting(create, "--diffparent") == "/guests/vtax-1/image.vmdk"
    assert (setting(create, "--filename"), setting(create, "--format")) == (
        "/guests/vtax-1/disk.vdi",
        "VDI",
    )
    assert 'RW 4096 FLAT "/image/disk.raw" 0\n' in machine.base_disk(
        Path("/image/disk.raw"), 4096 * 512
    )
    with pytest.raises(ValueError, match="cannot name"):
        machine.base_disk(Path('/a"b'), 512)


def test_the_disk_is_on_the_chosen_controller_and_the_cd_on_ide():
    assert setting(calls()["storageattach sata"], "--medium") == "/guests/vtax-1/disk.vdi"
    assert setting(calls()["storageattach ide"], "--type") == "dvddrive"
    on_ide = machine.commands(VirtualBoxOptions(disk="ide"), TWO_CPUS, MADE)
    assert [call[3:7] for call in on_ide if call[0] == "storageattach"] == [
        ["ide", "--port", "1", "--device"],
        ["ide", "--port", "0", "--device"],
    ]


@pytest.mark.parametrize(
    ("platform", "nic", "module"),
    [
        ("virtualbox", "82540EM", "e1000"),
        ("virtualbox-virtio", "virtio", "virtio_net"),
        ("virtualbox-pcnet", "Am79C973", "pcnet32"),
    ],
)
def test_each_platform_has_its_nic_model_bridged_and_the_driver_of_it(platform, nic, module):
    options = VirtualBoxOptions(**VARIANTS[platform])
    modify = machine.commands(options, TWO_CPUS, MADE)[1]
    assert (setting(modify, "--nic1"), setting(modify, "--bridge-adapter1")) == (
        "bridged",
        "vtax-1b0",
    )
    assert (setting(modify, "--nic-type1"), setting(modify, "--mac-address1")) == (
        nic,
        "027674000200",
    )
    assert module in machine.kernel_command_line(options)


def test_a_guest_without_a_network_has_no_interface():
    modify = calls(machine.VirtualBoxIo("vtax-1", Path("/guests/vtax-1")))["modifyvm"]
    assert setting(modify, "--nic1") == "none"


def test_its_own_nat_has_the_network_of_the_lab_and_no_bridge():
    modify = machine.commands(VirtualBoxOptions(), TWO_CPUS, replace(MADE, bridged=()))[1]
    assert (setting(modify, "--nic1"), setting(modify, "--nat-net1")) == ("nat", "198.18.0.0/24")
    assert "--bridge-adapter1" not in modify


def test_options_are_passed_in_the_words_of_vboxmanage():
    modify = calls(nested_paging=False, large_pages=False, paravirt_provider="kvm", chipset="ich9")[
        "modifyvm"
    ]
    words = ("--nested-paging", "--large-pages", "--paravirt-provider", "--chipset")
    assert [setting(modify, word) for word in words] == ["off", "off", "kvm", "ich9"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"nic": "Am79C973"}, "use kernel host"),
        ({"nested_paging": False}, "large_pages needs nested_paging"),
        ({"nic": "e1000"}, "option nic"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(options, reason):
    with pytest.raises(BadInput, match=reason):
        registry.make("mine", "virtualbox", options)


def test_the_streams_line_is_a_console_for_its_speed_and_the_kernels_is_the_other():
    words = machine.kernel_command_line(VirtualBoxOptions()).split()
    assert [word for word in words if word.startswith("console=")] == [
        "console=ttyS1,115200",
        "console=ttyS0,115200",
    ]
    assert "vtax.stream=/dev/ttyS1" in words
    assert words.index("loglevel=1") > words.index("quiet")


def test_where_the_hosts_cpu_is_emulated_the_kernel_skips_what_that_is_slow_at():
    plain = machine.kernel_command_line(VirtualBoxOptions()).split()
    emulated = machine.kernel_command_line(
        VirtualBoxOptions(), emulated=True, tsc_khz=2596117
    ).split()
    assert {"tsc_early_khz=2596117", "tsc=reliable", "no_timer_check", "edd=off"} < set(
        emulated
    ) - set(plain)
    assert set(plain) < set(emulated)
    assert not any(word.startswith("tsc") for word in plain)
    assert not any(
        word.startswith("tsc")
        for word in machine.kernel_command_line(VirtualBoxOptions(), emulated=True).split()
    )


def test_the_cd_has_kernel_initrd_and_their_command_line():
    argv = machine.boot_medium(virtual_machine.Boot(Path("/k"), Path("/i")), MADE)
    assert {"kernel=/k", "initrd=/i", "isolinux/isolinux.cfg=/guests/vtax-1/isolinux.cfg"} < set(
        map(str, argv)
    )
    assert machine.loader_configuration("a=b c").endswith("  APPEND a=b c\n")


def test_every_program_uses_a_service_of_the_guests_own():
    environment = machine.environment(MADE)
    assert environment == {
        "VBOX_USER_HOME": "/guests/vtax-1/virtualbox",
        "VBOX_IPC_SOCKETID": "vtax-1",
    }


def test_virtual_cpus_are_found_by_the_names_of_their_threads(tmp_path):
    for thread, name in (
        (11, "VBoxHeadless"),
        (12, "EMT-1"),
        (13, "EMT-10"),
        (14, "EMT-0"),
        (15, "EMTx"),
    ):
        (tmp_path / "7/task" / str(thread)).mkdir(parents=True)
        (tmp_path / "7/task" / str(thread) / "comm").write_text(f"{name}\n")
    assert virtual_machine.vcpu_threads(7, tools.VCPU, tmp_path) == [14, 12, 13]
    assert virtual_machine.vcpu_threads(8, tools.VCPU, tmp_path) == []


SERVICE = 'while [ $# -gt 1 ]; do shift; done; echo $$ >"$1"; exit 126'
"""VBoxSVC --daemonize --pidfile FILE: the file is there when it ends, with a status that says nothing."""


@pytest.fixture
def have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: Callable[[str, str], None]
) -> Callable[..., Path]:
    """Makes programs of the names that a host needs, each the script, and the service; returns the log of their
    calls, each with the settings that it uses."""

    def put(script: str, service: str = SERVICE) -> Path:
        for name in ("VBoxManage", "VBoxHeadless", "xorriso", "ip", "VBoxSVC"):
            noted = f'echo "${{0##*/}} $* in $VBOX_USER_HOME" >>{tmp_path}/calls'
            on_path(name, f"{noted}\n{service if name == 'VBoxSVC' else script}")
        monkeypatch.setattr(tools, "service_program", lambda: tmp_path / "programs" / "VBoxSVC")
        return tmp_path / "calls"

    return put


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with everything, as far as the checks see."""
    monkeypatch.setattr(tools, "check_host", lambda: None)


def test_a_host_without_virtualbox_is_refused_with_what_to_install(tmp_path, installed):
    installed()
    with pytest.raises(PlatformError) as refused:
        tools.check_host()
    assert refused.value.what == Note("no-vboxmanage")
    for package in (
        "contrib",
        "virtualbox-dkms linux-headers-amd64",
        "isolinux syslinux-common xorriso",
    ):
        assert package in refused.value.hint
    installed(but="xorriso")
    loader = [tmp_path / "isolinux.bin", tmp_path / "ldlinux.c32"]
    with pytest.raises(PlatformError) as refused:
        tools.check_host(tmp_path / "no", loader)
    assert refused.value.what == Note(
        "not-installed", names=("xorriso", *map(str, loader)), count=3
    )
    assert refused.value.hint == "apt install xorriso isolinux syslinux-common"
    installed(but="")
    with pytest.raises(PlatformError) as refused:
        tools.check_host(tmp_path / "no", loader[:1])
    assert refused.value.what == Note("not-installed", names=(str(loader[0]),), count=1)
    assert refused.value.hint == "apt install isolinux"
    with pytest.raises(PlatformError) as refused:
        tools.check_host(tmp_path / "no", [])
    assert refused.value.what == Note("no-vboxdrv", device=str(tmp_path / "no"))
    assert refused.value.hint.startswith("modprobe vboxdrv")


def test_interfaces_are_bridged_in_the_first_network_namespace_only(tmp_path):
    with pytest.raises(PlatformError) as refused:
        tools.check_network(tmp_path / "no")
    assert refused.value.what == Note("no-vboxnetflt")
    for name, target in (("own", "net:[1]"), ("first", "net:[2]")):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(PlatformError) as refused:
        tools.check_network(tmp_path, tmp_path / "own", tmp_path / "first")
    assert refused.value.what == Note("vbox-first-namespace")
    tools.check_network(tmp_path, tmp_path / "own", tmp_path / "own")


def test_an_old_version_is_refused_and_warnings_before_it_are_skipped(have):
    assert (
        tools.parse_version("WARNING: vboxdrv is not loaded.\n7.2.22_Debianr170995\n") == "7.2.22"
    )
    with pytest.raises(PlatformError, match="printed no version"):
        tools.parse_version("Segmentation fault")
    have("echo 6.1.50r161033")
    with pytest.raises(PlatformError) as refused:
        tools.version()
    assert refused.value.what == Note("vbox-too-old", found="6.1.50")


def spec(tmp_path: Path, journal: Journal) -> GuestSpec:
    image = Image("key", tmp_path / "image")
    image.directory.mkdir()
    for path in (image.disk, image.kernel, image.initrd):
        path.write_bytes(b"\0" * 512)
    (tmp_path / "guest").mkdir()
    return GuestSpec(
        "vtax-unit1", image, Resources(1, 256 << 20, (0,)), tmp_path / "guest", journal
    )


@needs_root
@pytest.mark.usefixtures("ready")
def test_a_call_that_fails_ends_the_start_with_its_message_and_leaves_nothing(tmp_path, have):
    failing = (
        '[ "$2" != createmedium ] || { echo "VBoxManage: error: Could not find file" >&2; exit 1; }'
    )
    log = have(failing)
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError) as failed:
        driver.VirtualBox().start(VirtualBoxOptions(), spec(tmp_path, journal))
    assert failed.value.what == Note("failed-with-status", what="VBoxManage createmedium", status=1)
    assert failed.value.where == "Could not find file"
    called = [
        line.split()[2] for line in log.read_text().splitlines() if line.startswith("VBoxManage")
    ]
    assert called == ["createvm", "modifyvm", "createmedium"]
    assert journal.close() == []


@pytest.mark.slow
@needs_root
@pytest.mark.usefixtures("ready")
def test_where_kvm_has_the_processors_virtualization_the_hint_unloads_it(
    tmp_path, monkeypatch, have
):
    monkeypatch.setattr(driver, "_START_S", 1.0)
    message = "AMD-V is being used by another hypervisor (VERR_SVM_IN_USE)."
    said = f"Error: failed to start machine. Error message: {message}"
    have(f'case $0 in *Headless) echo "{said}"; exit 1 ;; esac')
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError, match="no connection to") as failed:
        driver.VirtualBox().start(VirtualBoxOptions(), spec(tmp_path, journal))
    assert failed.value.where == message
    assert Note("hint-unload-kvm") in failed.value.hint
    assert journal.close() == []


@pytest.mark.parametrize(
    "message",
    [
        "VirtualBox can't operate in VMX root mode. (VERR_VMX_IN_VMX_ROOT_MODE)",
        "00:00:01.1 Power up failed (vrc=VERR_SVM_IN_USE, hrc=NS_ERROR_FAILURE (0X80004005))",
        f"VMSetError: {'x' * 300}; rc=VERR_SVM_HOST_SVME_NOT_ENABLED",
    ],
)
def test_kvm_is_named_for_the_status_codes_of_that_alone(message):
    assert "rmmod kvm_amd" in tools.hint(f"noise\n{message}\nmore\n")
    assert tools.hint("VMSetError: no such file; rc=VERR_FILE_NOT_FOUND") == ""


@needs_root
@pytest.mark.usefixtures("ready")
def test_a_service_of_the_guests_own_runs_before_all_calls(tmp_path, monkeypatch, have):
    log = have('case "$*" in *createvm*) exit 1 ;; esac')
    monkeypatch.setenv("VBOX_USER_HOME", "/root/.config/VirtualBox")
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError, match="createvm failed"):
        driver.VirtualBox().start(VirtualBoxOptions(), spec(tmp_path, journal))
    called = [line for line in log.read_text().splitlines() if line.startswith("VBox")]
    assert [line.split()[0] for line in called] == ["VBoxSVC", "VBoxManage"]
    assert {line.rpartition(" in ")[2] for line in called} == {
        str(tmp_path / "guest" / "virtualbox")
    }
    assert journal.close() == []


@needs_root
@pytest.mark.usefixtures("ready")
def test_a_service_that_does_not_start_ends_the_start(tmp_path, monkeypatch, have):
    monkeypatch.setattr(driver, "_PID_S", 0.05)
    log = have("", service="echo 'VBoxSVC: no room' >&2; exit 1")
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError) as failed:
        driver.VirtualBox().start(VirtualBoxOptions(), spec(tmp_path, journal))
    assert failed.value.what == Note("vboxsvc-not-started", status=1)
    assert failed.value.where == "VBoxSVC: no room"
    assert "VBoxManage" not in log.read_text()
    assert journal.close() == []


@needs_root
@pytest.mark.usefixtures("ready")
def test_packets_reach_the_bridged_end_with_their_checksums(tmp_path, monkeypatch, have):
    have("exit 1")
    monkeypatch.setattr(tools, "check_network", lambda: None)
    called: list[tuple[list[str], str | None]] = []
    monkeypatch.setattr(
        driver,
        "run",
        lambda argv, network_namespace=None: called.append(
            (list(map(str, argv)), network_namespace)
        ),
    )
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError):
        driver.VirtualBox().start(
            VirtualBoxOptions(), replace(spec(tmp_path, journal), plugboard=Plugboard())
        )
    assert (["ethtool", "-K", "guest-eth0", "tx", "off"], "lab") in called
    assert not driver.VirtualBox().network_limits(VirtualBoxOptions()).links_change
    journal.close()


class Plugboard:
    """Of a topology that calls the lab's end guest-eth0."""

    interfaces = NICS
    lab_namespace = "lab"

    def plug_devices(self, devices: Sequence[str]) -> Sequence[str]:
        return [f"guest-eth{number}" for number, _ in enumerate(devices)]


def test_a_host_without_the_service_is_refused(tmp_path):
    with pytest.raises(PlatformError) as refused:
        tools.service_program([tmp_path])
    assert refused.value.what == Note("no-vboxsvc", names=(str(tmp_path),))
    (tmp_path / "VBoxSVC").touch()
    assert tools.service_program([tmp_path / "no", tmp_path]) == tmp_path / "VBoxSVC"


@pytest.mark.usefixtures("ready")
def test_a_service_directory_of_somebody_else_is_left_alone(tmp_path, monkeypatch):
    taken = tmp_path / "service"
    taken.mkdir()
    monkeypatch.setattr(machine, "service_directory", lambda name: taken)
    journal = Journal(tmp_path / "journal")
    with pytest.raises(PlatformError) as refused:
        driver.VirtualBox().start(VirtualBoxOptions(), spec(tmp_path, journal))
    assert refused.value.what == Note("directory-exists", directory=str(taken))
    assert taken.exists()
    assert journal.close() == []


def test_what_virtualbox_complains_of_is_found_in_its_output_and_its_log():
    output = "VBoxManage: error: Failed to create medium\nVBoxManage: error: Details: code NS_ERROR_INVALID_ARG\n"
    assert tools.errors(output) == "Failed to create medium | Details: code NS_ERROR_INVALID_ARG"
    assert tools.errors("0%...10%...100%\nMedium created.\n") == ""


def test_a_machine_is_described_by_its_console_first(tmp_path):
    made = machine.VirtualBoxIo("vtax-1", tmp_path)
    made.console.write_text("noise\nKernel panic - not syncing: VFS\n")
    (tmp_path / "stderr.log").write_text("VBoxManage: error: no\n")
    assert (
        driver.describe(None, made, tmp_path / "stderr.log")
        == "console: Kernel panic - not syncing: VFS; no"
    )


def test_a_guest_that_crashes_at_boot_is_reported_with_its_console_and_a_hint(tmp_path):
    made = machine.VirtualBoxIo("vtax-1", tmp_path)
    made.console.write_text(
        "[ 1.2] VFS: Cannot open root device\n[ 1.3] Kernel panic - not syncing: VFS\n"
    )
    ended = subprocess.Popen(["true"])
    ended.wait()
    ours, other = socket.socketpair()
    other.close()
    fd = ours.detach()
    channel = Channel(fd, fd, lambda: driver.describe(ended, made, tmp_path / "stderr.log"))
    channel.silence_hint = virtual_machine.NOT_BOOTED
    with pytest.raises(GuestError) as failed:
        Guest(channel).hello(1)
    channel.close()
    assert failed.value.where == (
        "console: [ 1.3] Kernel panic - not syncing: VFS; VBoxHeadless ended with status 0"
    )
    assert "option kernel" in failed.value.hint


def test_probe_says_why_not(taken_for_root, installed):
    installed()
    found = driver.VirtualBox().probe(VirtualBoxOptions(), None)
    assert (found.available, found.reason) == (False, Note("no-vboxmanage"))
    assert driver.NEVER_ON_HARDWARE in driver.VirtualBox().summary


def test_clean_removes_a_veth_pair_and_accepts_one_that_is_gone(have):
    have("")
    assert tools.link("vtax-1b0").remove()
    have('echo "Cannot find device \\"vtax-1b0\\"" >&2; exit 1')
    assert not tools.link("vtax-1b0").remove()
