"""QEMU's command line, which options go together, its monitor, and the kernel of the host."""

import json
import socket
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from vtax.errors import BadInput, ImageError, PlatformError
from vtax.host.home import Home
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import registry, virtual_machine
from vtax.platforms.base import Resources
from vtax.platforms.qemu import command
from vtax.platforms.qemu.command import VARIANTS, QemuOptions
from vtax.platforms.qemu.process import Monitor

BOOT = virtual_machine.Boot(Path("/image/vmlinux"), Path("/image/initrd.cpio"), 2_100_000)


def argv(nics=(), vhost=False, huge_pages=False, **options):
    disk = Path("/guests/vtax-1/disk.qcow2") if options.get("root", "disk") == "disk" else None
    shares = [
        command.SharedDirectory(tag, options[tag], Path("/guests/vtax,1", tag), fd=fd)
        for tag, fd in (("root", 9), ("data", 10))
        if options.get(tag) in ("9p", "virtiofs")
    ]
    made = command.QemuIo(
        "vtax-1", Path("/guests/vtax-1/console.log"), 7, 8, disk, shares, nics, vhost
    )
    return command.guest(
        QemuOptions(**options), Resources(2, 512 << 20, (0, 1), huge_pages=huge_pages), BOOT, made
    )


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
        ({"io_thread": True, "disk": "ide"}, "io_thread needs disk virtio-blk"),
        ({"io_thread": True, "root": "9p"}, "io_thread needs disk virtio-blk"),
        (
            {"root": "9p", "disk": "ide", "cache": "none"},
            "root 9p has no disk: leave out disk, cache",
        ),
        ({"cpu": "max -boot"}, "must be text such as 'host,-la57' or 'EPYC-v4'"),
        ({"speed": "high"}, "unknown option"),
    ],
)
def test_choices_that_do_not_go_together_are_refused_with_the_reason(options, why):
    with pytest.raises(BadInput, match=why):
        registry.make("mine", "qemu", options)


def test_a_disk_has_a_thread_of_its_own_and_a_kernel_no_mitigations_where_asked():
    words = argv(io_thread=True)
    assert values(words, "-object") == ["iothread,id=disk"]
    assert "virtio-blk-pci,drive=root,iothread=disk" in values(words, "-device")
    assert "virtio-blk-pci,drive=root" in values(argv(), "-device")
    [without] = values(argv(mitigations="off"), "-append")
    [as_is] = values(argv(), "-append")
    assert "mitigations=off" in without.split()
    assert "mitigations" not in as_is


@pytest.mark.parametrize(("ladder", "top"), [("qemu-tcg", "tcg"), ("kvm-virtio", "kvm")])
def test_each_rung_of_a_ladder_is_another_platform_than_the_one_below(ladder, top):
    rungs = registry.ladders()[ladder]
    machines = [registry.platform_of(rung) for rung in rungs]
    assert not {rung.name for rung in rungs} & set(registry.names())
    for below, above in pairwise(machines):
        before, after = below.options.model_dump(), above.options.model_dump()
        changed = {name for name in after if after[name] != before[name]}
        assert changed
        assert len(changed - {"vhost"}) <= 1
    assert machines[-1].options.accel == top
    assert machines[-1].options.vhost == "auto"
    shipped = registry.get(ladder).options.model_dump()
    tuned = {"io_thread": True, "huge_pages": True, "mitigations": "off"}
    assert machines[-1].options.model_dump() == {**shipped, **tuned}


def test_the_machine_has_the_guests_cpus_and_memory_and_nothing_by_default():
    words = argv()
    assert values(words, "-smp") == ["2"]
    assert values(words, "-m") == [f"size={512 << 10}k"]
    assert values(words, "-cpu") == ["max,erms=off,fsrm=off,la57=off"]
    assert values(words, "-accel") == ["tcg,thread=multi"]
    assert {"-nodefaults", "-no-user-config", "-no-reboot", "-S"} <= set(words)
    assert values(argv(accel="kvm"), "-cpu") == ["host"]
    assert values(argv(cpu="max,-la57"), "-cpu") == ["max,-la57"]


def test_an_emulated_cpu_is_reported_the_rate_of_its_counter_and_a_real_one_is_not():
    assert "tsc_early_khz=2100000 tsc=reliable" in command.kernel_command_line(
        QemuOptions(), 2_100_000
    )
    assert "tsc" not in command.kernel_command_line(QemuOptions(), None)
    assert "tsc" not in command.kernel_command_line(QemuOptions(accel="kvm"), 2_100_000)


@pytest.mark.parametrize(
    ("options", "devices", "modules", "root"),
    [
        (
            {},
            ["virtio-blk-pci,drive=root"],
            "virtio_pci,virtio_console,virtio_blk,virtio_net",
            "/dev/vda",
        ),
        (
            {"disk": "ide", "nic": "e1000"},
            ["ide-hd,drive=root,bus=ide.0"],
            "virtio_pci,virtio_console,ata_piix,sd_mod,e1000",
            "/dev/sda",
        ),
        (
            {"disk": "sata", "nic": "rtl8139"},
            ["ahci,id=sata", "ide-hd,drive=root,bus=sata.0"],
            "virtio_pci,virtio_console,ahci,sd_mod,8139cp",
            "/dev/sda",
        ),
        (
            {"disk": "sata", "machine": "q35"},
            ["ide-hd,drive=root,bus=ide.0"],
            "virtio_pci,virtio_console,ahci,sd_mod,virtio_net",
            "/dev/sda",
        ),
        (
            {"machine": "microvm"},
            ["virtio-blk-device,drive=root"],
            "virtio_mmio,virtio_console,virtio_blk,virtio_net",
            "/dev/vda",
        ),
    ],
)
def test_disk_models_come_with_their_modules_and_device_names(options, devices, modules, root):
    words = argv(**options)
    assert values(words, "-device")[2:] == devices
    [line] = values(words, "-append")
    assert f"vtax.modules={modules} " in line
    assert f"vtax.root={root} " in line
    assert line.endswith("vtax.stream=vtax.agent")


def test_the_disk_is_an_overlay_with_the_chosen_cache_and_engine():
    [drive] = values(argv(cache="none", aio="native"), "-drive")
    assert (
        drive == "if=none,id=root,file=/guests/vtax-1/disk.qcow2,format=qcow2,cache=none,aio=native"
    )
    assert (
        command.disk(QemuOptions(), Path("/a,b"))[1].split(",format")[0]
        == "if=none,id=root,file=/a,,b"
    )


@pytest.mark.parametrize("machine", ["pc", "microvm"])
def test_a_share_is_the_root_in_place_of_a_disk(machine):
    bus = {"pc": "pci", "microvm": "device"}[machine]
    by_9p, by_virtiofs = argv(root="9p", machine=machine), argv(root="virtiofs", machine=machine)
    assert (
        values(by_9p, "-drive") == values(by_virtiofs, "-drive") == values(by_9p, "-object") == []
    )
    [back] = values(by_9p, "-fsdev")
    assert (
        back == "local,id=root,path=/guests/vtax,,1/root,security_model=passthrough,multidevs=remap"
    )
    assert values(by_9p, "-device")[2:] == [f"virtio-9p-{bus},fsdev=root,mount_tag=root"]
    assert "socket,id=root,fd=9" in values(by_virtiofs, "-chardev")
    assert values(by_virtiofs, "-device")[2:] == [f"vhost-user-fs-{bus},chardev=root,tag=root"]
    assert values(by_virtiofs, "-object") == [
        "memory-backend-memfd,share=on,id=memory,size=524288k"
    ]
    [line] = values(by_9p, "-append")
    assert ",9pnet_virtio,9p,virtio_net vtax.root=9p " in line
    [line] = values(by_virtiofs, "-append")
    assert ",virtiofs,virtio_net vtax.root=virtiofs " in line
    assert registry.make("mine", "qemu", {"root": "9p"}).disk is None


def test_data_may_be_shared_beside_a_disk_or_another_share():
    words = argv(data="virtiofs", disk="ide")
    assert len(values(words, "-drive")) == 1
    assert values(words, "-device")[2:4] == [
        "ide-hd,drive=root,bus=ide.0",
        "vhost-user-fs-pci,chardev=data,tag=data",
    ]
    assert values(words, "-object") == ["memory-backend-memfd,share=on,id=memory,size=524288k"]
    [line] = values(words, "-append")
    assert "ata_piix,sd_mod,virtiofs,virtio_net vtax.root=/dev/sda" in line
    assert " vtax.data=virtiofs " in line
    assert registry.make("mine", "qemu", {"data": "9p"}).disk is None
    both = argv(root="9p", data="virtiofs")
    assert [word.partition(",")[0] for word in values(both, "-device")[2:4]] == [
        "virtio-9p-pci",
        "vhost-user-fs-pci",
    ]
    assert "socket,id=data,fd=10" in values(both, "-chardev")


def test_only_an_emulated_kernel_is_spared_what_no_guest_uses():
    assert "cryptomgr.notests" in command.kernel_command_line(QemuOptions(), None)
    assert "initcall_blacklist" not in command.kernel_command_line(QemuOptions(accel="kvm"), None)


@pytest.mark.parametrize(
    ("options", "does"),
    [
        ({}, True),
        ({"machine": "q35"}, False),
        ({"machine": "microvm"}, False),
        ({"accel": "kvm"}, False),
    ],
)
def test_only_an_emulated_pc_reads_its_interrupt_lines_from_the_firmware(options, does):
    line = command.kernel_command_line(QemuOptions(**options), None).split()
    assert ("acpi=noirq" in line) == does


def test_interfaces_are_taps_opened_by_name_with_the_topologys_addresses():
    nics = [command.Nic("52:54:00:00:00:01", "lab0"), command.Nic("52:54:00:00:00:02", "lab1")]
    words = argv(nics, nic="e1000")
    assert values(words, "-netdev") == [
        "tap,id=net0,ifname=lab0,script=no,downscript=no",
        "tap,id=net1,ifname=lab1,script=no,downscript=no",
    ]
    assert values(words, "-device")[-1] == "e1000,mac=52:54:00:00:00:02,romfile=,netdev=net1"


def test_a_virtio_interface_has_its_queues_vhost_and_offloads_as_requested():
    nic = command.Nic("52:54:00:00:00:01", "lab0", queues=4, offloads=False)
    words = argv([nic], vhost=True, accel="kvm")
    assert values(words, "-netdev") == [
        "tap,id=net0,ifname=lab0,script=no,downscript=no,queues=4,vhost=on"
    ]
    interface = values(words, "-device")[-1].split(",")
    assert interface[0] == "virtio-net-pci"
    assert {"mq=on", "vectors=10", "csum=off", "guest_tso4=off", "host_ufo=off"} <= set(interface)
    plain = values(argv([command.Nic("52:54:00:00:00:01", "lab0")]), "-device")[-1]
    assert "off" not in plain
    assert "mq" not in plain


def test_a_macvtap_is_handed_over_open():
    words = argv([command.Nic("52:54:00:00:00:01", "lab0", fds=(11, 12), queues=2)])
    assert values(words, "-netdev") == ["tap,id=net0,fds=11:12,vhost=off"]


class FakeQemu:
    """Answers on a socket as QEMU's monitor does, from a script of JSON values."""

    def __init__(self, *answers):
        self.ours, self._stranger = socket.socketpair()
        self.requested = []
        self._thread = threading.Thread(target=self._serve, args=(answers,))
        self._thread.start()

    def _serve(self, answers):
        with self._stranger, self._stranger.makefile("rb") as lines:
            self._stranger.sendall(b'{"QMP": {"version": {}}}\n')
            self.requested.append(json.loads(lines.readline())["execute"])
            self._stranger.sendall(b'{"return": {}}\n')
            for batch in answers:
                self.requested.append(json.loads(lines.readline())["execute"])
                for answer in batch:
                    self._stranger.sendall(json.dumps(answer).encode() + b"\n")

    def close(self):
        self.ours.close()
        self._thread.join(5)


@pytest.fixture
def qemu(request):
    fake = FakeQemu(*request.param)
    yield fake
    fake.close()


CPUS = [{"cpu-index": 1, "thread-id": 31}, {"cpu-index": 0, "thread-id": 30}]


@pytest.mark.parametrize(
    "qemu", [[[{"event": "RESUME"}, {"return": CPUS}], [{"return": {}}]]], indirect=True
)
def test_the_monitor_tells_the_threads_of_the_cpus_in_order(qemu):
    monitor = Monitor(qemu.ours, 5)
    assert monitor.vcpu_threads() == [30, 31]
    monitor.execute("cont")
    assert qemu.requested == ["qmp_capabilities", "query-cpus-fast", "cont"]


@pytest.mark.parametrize(
    "qemu", [[[{"error": {"class": "GenericError", "desc": "no such thing"}}]]], indirect=True
)
def test_a_refusal_of_the_monitor_is_an_error_in_its_words(qemu):
    monitor = Monitor(qemu.ours, 5)
    with pytest.raises(PlatformError, match="cont: no such thing"):
        monitor.execute("cont")


@pytest.mark.parametrize("qemu", [[[]]], indirect=True)
def test_a_monitor_that_ends_is_an_error(qemu):
    monitor = Monitor(qemu.ours, 5)
    with pytest.raises(PlatformError) as refused:
        monitor.execute("cont")
    assert refused.value.what == Note("qemu-ended-starting")


def test_a_disaster_on_the_console_is_reported_before_what_came_after_it(tmp_path):
    console = tmp_path / "console.log"
    assert virtual_machine.console_errors(console) == ""
    console.write_text("[ 1.0] one\n[ 1.1] two\n[ 1.2] three\n[ 1.3] four\n")
    assert virtual_machine.console_errors(console) == "[ 1.1] two | [ 1.2] three | [ 1.3] four"
    console.write_text(
        "[ 9.9] Kernel panic - not syncing: sysrq triggered crash\n" + "[ 9.9] RAX: 0\n" * 30
    )
    assert (
        virtual_machine.console_errors(console)
        == "[ 9.9] Kernel panic - not syncing: sysrq triggered crash"
    )


def test_a_host_kernel_that_is_not_there_is_named_with_a_hint(tmp_path, golden):
    with pytest.raises(ImageError) as caught:
        host_kernel.find(tmp_path, "6.1.0-1-amd64")
    golden(str(caught.value), "no kernel")
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.1.0-1-amd64").touch()
    with pytest.raises(ImageError) as caught:
        host_kernel.find(tmp_path, "6.1.0-1-amd64")
    golden(str(caught.value))


def test_the_hosts_kernel_gets_an_initrd_of_its_own_modules_once(tmp_path, monkeypatch):
    root, image, home = (
        tmp_path / "host",
        Image("one", tmp_path / "image"),
        Home(tmp_path / "home").ensure(),
    )
    modules = root / "lib/modules/6.1.0-9-generic"
    for path in (modules, root / "boot", image.tree / "usr/bin"):
        path.mkdir(parents=True)
    (image.tree / "usr/bin/busybox").write_bytes(b"busybox")
    (root / "boot/vmlinuz-6.1.0-9-generic").write_bytes(b"the host's kernel")
    (modules / "modules.builtin").write_text(
        "kernel/drivers/virtio/virtio_pci.ko\nkernel/fs/ext4/ext4.ko\n"
    )
    made = host_kernel.prepare(home, image, ["virtio_pci"], root, modules.name)
    assert made.release == modules.name
    assert made.kernel.read_bytes() == b"the host's kernel"
    assert b"modules/order" in made.initrd.read_bytes()
    monkeypatch.setattr(host_kernel, "_make_kernel", None)
    assert host_kernel.prepare(home, image, ["virtio_pci"], root, modules.name) == made
    monkeypatch.undo()
    with pytest.raises(ImageError, match="no module 8139cp"):
        host_kernel.prepare(home, image, ["8139cp"], root, modules.name)
    assert [path.name for path in made.initrd.parent.parent.iterdir()] == [made.initrd.parent.name]
