"""QEMU's command line, which options go together, its monitor, and what a probe makes of what it sees."""

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from vtax.errors import BadInput, GuestError, ImageError, PlatformError
from vtax.guest.bootstrap import GREETING
from vtax.guest.channel import Channel
from vtax.host.home import Home
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.platforms import _qemu_command as command
from vtax.platforms import _qemu_probe, _qemu_trial, registry, trial_start
from vtax.platforms import qemu as qemu_driver
from vtax.platforms._qemu_options import VARIANTS, QemuOptions
from vtax.platforms._qmp import Monitor
from vtax.platforms.base import Probe, Resources
from vtax.platforms.contained import StdioGuest

BOOT = command.Boot(Path("/image/vmlinux"), Path("/image/initrd.cpio"), 2_100_000)


def argv(nics=(), vhost=False, huge_pages=False, **options):
    made = command.Made(
        "vtax-1", Path("/guests/vtax-1/disk.qcow2"), Path("/guests/vtax-1/console.log"), 7, 8, nics, vhost
    )
    return command.guest(QemuOptions(**options), Resources(2, 512 << 20, (0, 1), huge_pages=huge_pages), BOOT, made)


def values(words, option):
    return [value for word, value in pairwise(words) if word == option]


def test_memory_in_huge_pages_is_there_before_the_start():
    with_them, without = argv(huge_pages=True), argv()
    assert values(with_them, "-object") == ["memory-backend-ram,id=memory,size=524288k,prealloc=on"]
    assert "memory-backend=memory" in values(with_them, "-machine")
    assert values(without, "-object") == []


def test_every_shipped_platform_is_a_valid_choice_of_options():
    for name in VARIANTS:
        assert registry.get(name).driver.name == "qemu"
    assert registry.get("kvm-emulated").identity() == registry.get("kvm-e1000").identity()
    assert registry.get("qemu-tcg").identity() == registry.get("qemu-tcg-virtio").identity()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"machine": "microvm", "nic": "e1000"}, "virtio devices only"),
        ({"machine": "microvm", "queues": 2}, "one queue only"),
        ({"machine": "q35", "disk": "ide"}, "use disk sata"),
        ({"nic": "e1000", "queues": 4}, "several need virtio-net"),
        ({"nic": "rtl8139", "vhost": "on"}, "not rtl8139"),
        ({"aio": "native"}, "cache none"),
        ({"cpu": "max -boot"}, "must be text of the form"),
        ({"speed": "high"}, "unknown option"),
    ],
)
def test_choices_that_do_not_go_together_are_refused_with_the_reason(options, why):
    with pytest.raises(BadInput, match=why):
        registry.make("mine", "qemu", options)


def test_the_machine_has_the_guests_cpus_and_memory_and_nothing_by_default():
    words = argv()
    assert values(words, "-smp") == ["2"]
    assert values(words, "-m") == [f"size={512 << 10}k"]
    assert values(words, "-cpu") == ["max,erms=off,fsrm=off,la57=off"]
    assert values(words, "-accel") == ["tcg,thread=multi"]
    assert {"-nodefaults", "-no-user-config", "-no-reboot", "-S"} <= set(words)
    assert values(argv(accel="kvm"), "-cpu") == ["host"]
    assert values(argv(cpu="max,-la57"), "-cpu") == ["max,-la57"]


def test_an_emulated_cpu_is_told_the_rate_of_its_counter_and_a_real_one_is_not():
    assert "tsc_early_khz=2100000 tsc=reliable" in command.kernel_command_line(QemuOptions(), 2_100_000)
    assert "tsc" not in command.kernel_command_line(QemuOptions(), None)
    assert "tsc" not in command.kernel_command_line(QemuOptions(accel="kvm"), 2_100_000)


@pytest.mark.parametrize(
    ("options", "devices", "modules", "root"),
    [
        ({}, ["virtio-blk-pci,drive=root"], "virtio_pci,virtio_console,virtio_blk,virtio_net", "/dev/vda"),
        ({"disk": "ide", "nic": "e1000"}, ["ide-hd,drive=root,bus=ide.0"],
         "virtio_pci,virtio_console,ata_piix,sd_mod,e1000", "/dev/sda"),
        ({"disk": "sata", "nic": "rtl8139"}, ["ahci,id=sata", "ide-hd,drive=root,bus=sata.0"],
         "virtio_pci,virtio_console,ahci,sd_mod,8139cp", "/dev/sda"),
        ({"disk": "sata", "machine": "q35"}, ["ide-hd,drive=root,bus=ide.0"],
         "virtio_pci,virtio_console,ahci,sd_mod,virtio_net", "/dev/sda"),
        ({"machine": "microvm"}, ["virtio-blk-device,drive=root"],
         "virtio_mmio,virtio_console,virtio_blk,virtio_net", "/dev/vda"),
    ],
)  # fmt: skip
def test_disk_models_come_with_their_modules_and_device_names(options, devices, modules, root):
    words = argv(**options)
    assert values(words, "-device")[2:] == devices
    [line] = values(words, "-append")
    assert f"vtax.modules={modules} " in line
    assert f"vtax.root={root} " in line
    assert line.endswith("vtax.stream=vtax.agent")


def test_the_disk_is_an_overlay_with_the_chosen_cache_and_engine():
    [drive] = values(argv(cache="none", aio="native"), "-drive")
    assert drive == "if=none,id=root,file=/guests/vtax-1/disk.qcow2,format=qcow2,cache=none,aio=native"
    assert command.disk(QemuOptions(), Path("/a,b"))[1].split(",format")[0] == "if=none,id=root,file=/a,,b"


def test_only_an_emulated_kernel_is_spared_what_no_guest_uses():
    assert "cryptomgr.notests" in command.kernel_command_line(QemuOptions(), None)
    assert "initcall_blacklist" not in command.kernel_command_line(QemuOptions(accel="kvm"), None)


@pytest.mark.parametrize(
    ("options", "does"),
    [({}, True), ({"machine": "q35"}, False), ({"machine": "microvm"}, False), ({"accel": "kvm"}, False)],
)
def test_only_an_emulated_pc_reads_its_interrupt_lines_from_the_firmware(options, does):
    line = command.kernel_command_line(QemuOptions(**options), None).split()
    assert ("acpi=noirq" in line) == does


def test_cards_are_taps_opened_by_name_with_the_topologys_addresses():
    nics = [command.Nic("52:54:00:00:00:01", "lab0"), command.Nic("52:54:00:00:00:02", "lab1")]
    words = argv(nics, nic="e1000")
    assert values(words, "-netdev") == [
        "tap,id=net0,ifname=lab0,script=no,downscript=no",
        "tap,id=net1,ifname=lab1,script=no,downscript=no",
    ]
    assert values(words, "-device")[-1] == "e1000,mac=52:54:00:00:00:02,romfile=,netdev=net1"


def test_a_virtio_card_has_its_queues_vhost_and_offloads_as_asked():
    nic = command.Nic("52:54:00:00:00:01", "lab0", queues=4, offloads=False)
    words = argv([nic], vhost=True, accel="kvm")
    assert values(words, "-netdev") == ["tap,id=net0,ifname=lab0,script=no,downscript=no,queues=4,vhost=on"]
    card = values(words, "-device")[-1].split(",")
    assert card[0] == "virtio-net-pci"
    assert {"mq=on", "vectors=10", "csum=off", "guest_tso4=off", "host_ufo=off"} <= set(card)
    plain = values(argv([command.Nic("52:54:00:00:00:01", "lab0")]), "-device")[-1]
    assert "off" not in plain
    assert "mq" not in plain


def test_a_macvtap_is_handed_over_open():
    words = argv([command.Nic("52:54:00:00:00:01", "lab0", fds=(11, 12), queues=2)])
    assert values(words, "-netdev") == ["tap,id=net0,fds=11:12,vhost=off"]


class FakeQemu:
    """Answers on a socket as QEMU's monitor does, from a script of JSON values."""

    def __init__(self, *answers):
        self.ours, self._theirs = socket.socketpair()
        self.asked = []
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()

    def _serve(self, answers):
        with self._theirs, self._theirs.makefile("rb") as lines:
            self._theirs.sendall(b'{"QMP": {"version": {}}}\n')
            self.asked.append(json.loads(lines.readline())["execute"])
            self._theirs.sendall(b'{"return": {}}\n')
            for batch in answers:
                self.asked.append(json.loads(lines.readline())["execute"])
                for answer in batch:
                    self._theirs.sendall(json.dumps(answer).encode() + b"\n")

    def close(self):
        self.ours.close()
        self._thread.join(5)


@pytest.fixture
def qemu(request):
    fake = FakeQemu(*request.param)
    yield fake
    fake.close()


CPUS = [{"cpu-index": 1, "thread-id": 31}, {"cpu-index": 0, "thread-id": 30}]


@pytest.mark.parametrize("qemu", [[[{"event": "RESUME"}, {"return": CPUS}], [{"return": {}}]]], indirect=True)
def test_the_monitor_tells_the_threads_of_the_cpus_in_order(qemu):
    monitor = Monitor(qemu.ours, 5)
    assert monitor.vcpu_threads() == [30, 31]
    monitor.execute("cont")
    assert qemu.asked == ["qmp_capabilities", "query-cpus-fast", "cont"]


@pytest.mark.parametrize("qemu", [[[{"error": {"class": "GenericError", "desc": "no such thing"}}]]], indirect=True)
def test_a_refusal_of_the_monitor_is_an_error_in_its_words(qemu):
    monitor = Monitor(qemu.ours, 5)
    with pytest.raises(PlatformError, match="QEMU refused cont: no such thing"):
        monitor.execute("cont")


@pytest.mark.parametrize("qemu", [[[]]], indirect=True)
def test_a_monitor_that_ends_is_an_error(qemu):
    monitor = Monitor(qemu.ours, 5)
    with pytest.raises(PlatformError, match="ended while it was starting"):
        monitor.execute("cont")


def test_the_trial_firmware_starts_at_the_reset_vector():
    rom = _qemu_trial.firmware()
    assert len(rom) == 1 << 16
    jump = int.from_bytes(rom[0xFFF1:0xFFF3], "little", signed=True)
    assert rom[0xFFF0] == 0xE9
    start = 0xFFF3 + jump
    assert rom[start : start + len(_qemu_trial.PROGRAM)] == _qemu_trial.PROGRAM
    assert start + len(_qemu_trial.PROGRAM) <= 0xFFF0


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump (binutils)")
def test_the_trial_program_is_what_its_comments_say(tmp_path):
    (tmp_path / "rom").write_bytes(_qemu_trial.firmware())
    shown = "".join(
        subprocess.run(
            ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", mode, "--adjust-vma=0xffff0000",
             f"--start-address={first:#x}", f"--stop-address={last:#x}", tmp_path / "rom"],
            capture_output=True, text=True, check=True,
        ).stdout
        for mode, first, last in (("i8086", 0xFFFFFF00, 0xFFFFFF18), ("i386", 0xFFFFFF18, 0xFFFFFF86),
                                  ("x86-64", 0xFFFFFF86, 0xFFFFFFBA))
    )  # fmt: skip
    wanted = ("lgdt", "%eax,%cr0", "%eax,%cr3", "%eax,%cr4", "wrmsr", "$0xffffff86", "cpuid", "shlx", "$0x76", "hlt")
    position = -1
    for each in wanted:
        position = shown.find(each, position + 1)
        assert position >= 0, each


def program(tmp_path, script):
    """A running program in QEMU's place: writes to stderr, and its stdout is the agent's channel."""
    stderr = tmp_path / "stderr.log"
    with stderr.open("wb") as errors:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=errors)
    channel = Channel(process.stdout.fileno(), process.stdout.fileno())
    return StdioGuest(process, channel, None, [], stderr)


def test_a_guest_that_greets_is_heard(tmp_path):
    running = program(tmp_path, f"import os; os.write(1, {GREETING!r})")
    _qemu_probe.await_greeting(running, time.monotonic() + 20)
    running.process.wait(5)


def test_a_broken_machine_is_given_up_long_before_the_deadline(tmp_path):
    running = program(tmp_path, "import os, time; os.write(2, b'KVM internal error. Suberror: 1'); time.sleep(60)")
    began = time.monotonic()
    with pytest.raises(GuestError, match="fell silent"):
        _qemu_probe.await_greeting(running, began + 50)
    assert time.monotonic() - began < 10
    running.process.kill()
    running.process.wait(5)


def test_a_disaster_on_the_console_is_told_before_what_came_after_it(tmp_path):
    console = tmp_path / "console.log"
    assert qemu_driver.telling_lines(console) == ""
    console.write_text("[ 1.0] one\n[ 1.1] two\n[ 1.2] three\n[ 1.3] four\n")
    assert qemu_driver.telling_lines(console) == "[ 1.1] two | [ 1.2] three | [ 1.3] four"
    console.write_text("[ 9.9] Kernel panic - not syncing: sysrq triggered crash\n" + "[ 9.9] RAX: 0\n" * 30)
    assert qemu_driver.telling_lines(console) == "[ 9.9] Kernel panic - not syncing: sysrq triggered crash"


def test_a_host_is_virtual_when_its_cpu_says_so():
    assert _qemu_probe.is_virtual("model name\t: X\nflags\t\t: fpu hypervisor lahf_lm\nbugs\t\t: none\n")
    assert not _qemu_probe.is_virtual("flags\t\t: fpu lahf_lm\nbugs\t\t: hypervisor\n")


@pytest.mark.parametrize(("factor", "patience_s"), [(1, 6), (10, 60)])
def test_a_host_with_an_emulated_processor_gets_more_time(factor, patience_s, monkeypatch):
    def look(options, timeout_s):
        asked.append(timeout_s)
        return _qemu_trial.Trial("enough seen", 0.1)

    asked = []
    monkeypatch.setattr(_qemu_probe, "_missing", lambda options: None)
    monkeypatch.setattr(_qemu_probe, "_version", lambda: "QEMU 9")
    monkeypatch.setattr(_qemu_probe, "patience", lambda: factor)
    monkeypatch.setattr(_qemu_probe._qemu_trial, "run", look)
    assert not registry.get("kvm-virtio").probe(None).available
    assert asked == [patience_s]


def test_a_missing_kvm_and_a_missing_program_come_with_their_cure(monkeypatch):
    monkeypatch.setattr(_qemu_probe, "KVM", Path("/dev/no-kvm-here"))
    monkeypatch.setattr(_qemu_probe.os, "geteuid", lambda: 0)
    monkeypatch.setattr(trial_start, "find_program", lambda name: f"/usr/bin/{name}")
    found = registry.get("kvm-virtio").probe(None)
    assert not found.available
    assert "no /dev/no-kvm-here" in found.reason
    assert "VT-x" in found.cure
    monkeypatch.setattr(trial_start, "find_program", lambda name: None)
    found = registry.get("qemu-tcg").probe(None)
    assert (found.reason, found.marks) == ("qemu-system-x86_64, qemu-img are not installed", ("emulated",))
    assert (found.available, found.cure) == (False, "apt install qemu-system-x86 qemu-utils")


@pytest.mark.parametrize(
    ("problem", "reason", "cure"),
    [("KVM internal error. Suberror: 1", "cannot run an ordinary kernel", "no hardware behind it"),
     ("", "no /dev/no-vhost-here", "modprobe vhost_net")],
)  # fmt: skip
def test_vhost_is_asked_for_only_where_kvm_itself_works(problem, reason, cure, monkeypatch):
    monkeypatch.setattr(_qemu_probe, "_missing", lambda options: None)
    monkeypatch.setattr(_qemu_probe, "_version", lambda: "QEMU 9")
    monkeypatch.setattr(_qemu_probe, "VHOST", Path("/dev/no-vhost-here"))
    monkeypatch.setattr(_qemu_probe._qemu_trial, "run", lambda *_: _qemu_trial.Trial(problem, 0.1))
    found = registry.get("kvm-virtio-vhost").probe(None)
    assert not found.available
    assert reason in found.reason
    assert cure in found.cure


def test_what_a_whole_start_told_is_kept_until_something_that_decides_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_HOME", str(tmp_path))
    kvm = tmp_path / "kvm"
    kvm.touch()
    monkeypatch.setattr(_qemu_probe, "KVM", kvm)
    monkeypatch.setattr(_qemu_probe, "find_program", lambda name: str(kvm))
    told = Probe(True, marks=("nested",), version="QEMU 9")
    options, image, another = QemuOptions(accel="kvm"), Image("one", tmp_path), Image("two", tmp_path)

    def never():
        raise AssertionError

    assert _qemu_probe.remembered(options, image, lambda: told) == told
    assert _qemu_probe.remembered(options, image, never) == told
    for changed, its_image in ((options, another), (QemuOptions(accel="kvm", cpu="max"), image)):
        with pytest.raises(AssertionError):
            _qemu_probe.remembered(changed, its_image, never)
    next((tmp_path / "probes").iterdir()).write_text('{"available": ')  # killed while it wrote
    assert _qemu_probe.remembered(options, image, lambda: told) == told
    assert _qemu_probe.remembered(options, image, never) == told


def test_a_probe_that_is_killed_while_it_keeps_its_answer_spoils_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_HOME", str(tmp_path))
    monkeypatch.setattr(_qemu_probe, "KVM", Path("/dev/null"))
    monkeypatch.setattr(_qemu_probe, "find_program", lambda name: "/dev/null")
    write = Path.write_text

    def half(path, text):
        write(path, text[: len(text) // 2])
        raise KeyboardInterrupt

    options, image, told = QemuOptions(accel="tcg"), Image("one", tmp_path), Probe(True)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", half)
        with pytest.raises(KeyboardInterrupt):
            _qemu_probe.remembered(options, image, lambda: told)
    assert _qemu_probe.remembered(options, image, lambda: told) == told
    assert len(list((tmp_path / "probes").iterdir())) == 1


def test_a_host_kernel_that_is_not_there_is_named_with_a_cure(tmp_path):
    with pytest.raises(ImageError) as caught:
        host_kernel.find(tmp_path, "6.1.0-1-amd64")
    assert "6.1.0-1-amd64 is not on this host" in caught.value.what
    assert "linux-image-6.1.0-1-amd64" in caught.value.cure
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.1.0-1-amd64").touch()
    with pytest.raises(ImageError, match=r"modules of this host's kernel"):
        host_kernel.find(tmp_path, "6.1.0-1-amd64")


def test_the_hosts_kernel_gets_an_initrd_of_its_own_modules_once(tmp_path, monkeypatch):
    root, image, home = tmp_path / "host", Image("one", tmp_path / "image"), Home(tmp_path / "home").ensure()
    modules = root / "lib/modules/6.1.0-9-generic"
    for path in (modules, root / "boot", image.tree / "usr/bin"):
        path.mkdir(parents=True)
    (image.tree / "usr/bin/busybox").write_bytes(b"busybox")
    (root / "boot/vmlinuz-6.1.0-9-generic").write_bytes(b"the host's kernel")
    (modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\nkernel/fs/ext4/ext4.ko\n")
    made = host_kernel.prepare(home, image, ["virtio_pci"], root, modules.name)
    assert made.release == modules.name
    assert made.kernel.read_bytes() == b"the host's kernel"
    assert b"modules/order" in made.initrd.read_bytes()
    monkeypatch.setattr(host_kernel, "_make", None)
    assert host_kernel.prepare(home, image, ["virtio_pci"], root, modules.name) == made
    monkeypatch.undo()
    with pytest.raises(ImageError, match="no module 8139cp"):
        host_kernel.prepare(home, image, ["8139cp"], root, modules.name)
    assert [path.name for path in made.initrd.parent.parent.iterdir()] == [made.initrd.parent.name]
