"""What a probe of QEMU makes of what it sees: a test program, KVM broken in several ways, a whole guest."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qemu_scripts import ABORTS, HANGS, NO_MODULE, SEGFAULTS, put_in_qemus_place

from vtax.errors import GuestError
from vtax.guest.bootstrap import GREETING
from vtax.guest.channel import Channel
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import registry
from vtax.platforms.base import Probe
from vtax.platforms.qemu import probe as qemu_probe
from vtax.platforms.qemu import process
from vtax.platforms.qemu.command import QemuOptions
from vtax.platforms.stdio import StdioGuest


def test_the_trial_firmware_starts_at_the_reset_vector():
    rom = qemu_probe.firmware()
    assert len(rom) == 1 << 16
    jump = int.from_bytes(rom[0xFFF1:0xFFF3], "little", signed=True)
    assert rom[0xFFF0] == 0xE9
    start = 0xFFF3 + jump
    assert rom[start : start + len(qemu_probe.TEST_PROGRAM)] == qemu_probe.TEST_PROGRAM
    assert start + len(qemu_probe.TEST_PROGRAM) <= 0xFFF0


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump (binutils)")
def test_the_trial_program_is_what_its_comments_say(tmp_path):
    (tmp_path / "rom").write_bytes(qemu_probe.firmware())
    shown = "".join(
        subprocess.run(
            [
                "objdump",
                "-D",
                "-b",
                "binary",
                "-m",
                "i386:x86-64",
                "-M",
                mode,
                "--adjust-vma=0xffff0000",
                f"--start-address={first:#x}",
                f"--stop-address={last:#x}",
                tmp_path / "rom",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for mode, first, last in (
            ("i8086", 0xFFFFFF00, 0xFFFFFF18),
            ("i386", 0xFFFFFF18, 0xFFFFFF86),
            ("x86-64", 0xFFFFFF86, 0xFFFFFFBA),
        )
    )
    wanted = (
        "lgdt",
        "%eax,%cr0",
        "%eax,%cr3",
        "%eax,%cr4",
        "wrmsr",
        "$0xffffff86",
        "cpuid",
        "shlx",
        "$0x76",
        "hlt",
    )
    position = -1
    for each in wanted:
        position = shown.find(each, position + 1)
        assert position >= 0, each


def program(tmp_path, script):
    """A running program in QEMU's place: writes to stderr, and its stdout is the agent's channel."""
    stderr = tmp_path / "stderr.log"
    with stderr.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=errors
        )
    channel = Channel(process.stdout.fileno(), process.stdout.fileno())
    return StdioGuest(process, channel, None, stderr)


def test_a_guest_that_greets_is_heard(tmp_path):
    running = program(tmp_path, f"import os; os.write(1, {GREETING!r})")
    qemu_probe.await_greeting(running, time.monotonic() + 20)
    running.process.wait(5)


def test_a_broken_machine_is_given_up_long_before_the_deadline(tmp_path):
    running = program(
        tmp_path, "import os, time; os.write(2, b'KVM internal error. Suberror: 1'); time.sleep(60)"
    )
    started_at = time.monotonic()
    with pytest.raises(GuestError, match="fell silent"):
        qemu_probe.await_greeting(running, started_at + 50)
    assert time.monotonic() - started_at < 10
    running.process.kill()
    running.process.wait(5)


@pytest.mark.parametrize(("factor", "allowed_s"), [(1, 6), (10, 60)])
def test_a_host_with_an_emulated_processor_gets_more_time(factor, allowed_s, monkeypatch):
    def look(options, timeout_s):
        requested.append(timeout_s)
        return qemu_probe.BootProbe("enough seen", 0.1)

    requested = []
    monkeypatch.setattr(qemu_probe, "timeout_factor", lambda: factor)
    assert not qemu_probe._booted(
        QemuOptions(accel="kvm"), None, pytest.fail, Probe(False), 0.0, look
    ).available
    assert requested == [allowed_s]


def test_a_missing_kvm_and_a_missing_program_come_with_their_hint(
    devices, taken_for_root, installed
):
    installed(but="")
    found = registry.get("kvm-virtio").probe(None)
    assert not found.available
    assert f"no {devices}/kvm" in found.reason
    assert "VT-x" in found.hint
    installed()
    found = registry.get("qemu-tcg").probe(None)
    assert (found.reason, found.marks) == (
        Note("not-installed", names="qemu-system-x86_64, qemu-img"),
        ("emulated",),
    )
    assert (found.available, found.hint) == (False, "apt install qemu-system-x86 qemu-utils")


@pytest.mark.parametrize(
    ("problem", "reason", "hint"),
    [
        ("KVM internal error. Suberror: 1", "cannot run ordinary kernels", "no hardware behind it"),
        ("", "dev/vhost-net", "modprobe vhost_net"),
    ],
)
def test_vhost_is_requested_for_only_where_kvm_itself_works(problem, reason, hint, devices):
    def boot(options, timeout_s):
        return qemu_probe.BootProbe(problem, 0.1, bool(problem))

    options = registry.get("kvm-virtio-vhost").options
    found = qemu_probe._booted(options, None, pytest.fail, Probe(False), 0.0, boot)
    assert not found.available
    assert reason in found.reason
    assert hint in found.hint


BROKEN = "this host's {kvm} cannot run ordinary kernels ({how})"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "reason", "hint"),
    [
        (
            ABORTS,
            BROKEN.replace("{how}", "QEMU aborted in kvm_buf_set_msrs"),
            "no hardware behind it",
        ),
        (SEGFAULTS, BROKEN.replace("{how}", "QEMU was ended by SIGSEGV"), "no hardware behind it"),
        (
            HANGS,
            BROKEN.replace("{how}", "the machine showed no activity before the timeout"),
            "no hardware",
        ),
        (
            NO_MODULE,
            "QEMU cannot use {kvm}: failed to initialize kvm: No such file or directory",
            "VT-x",
        ),
    ],
    ids=["aborts", "segfaults", "hangs", "no module"],
)
def test_a_kvm_that_runs_no_kernel_is_reported_in_words_with_a_hint(
    script, reason, hint, tmp_path, monkeypatch, taken_for_root, unmade_home, on_path, devices
):
    monkeypatch.setattr(qemu_probe, "_BOOT_S", 1.0)
    put_in_qemus_place(script, on_path, devices)
    found = registry.get("kvm-virtio").probe(None)
    assert not found.available
    assert found.reason == reason.format(kvm=devices / "kvm")
    assert hint in found.hint
    assert list((tmp_path / "home/journal").iterdir()) == []


def test_a_crash_while_emulating_is_no_fault_of_kvm(taken_for_root, unmade_home, on_path, devices):
    put_in_qemus_place(ABORTS, on_path, devices)
    found = registry.get("qemu-tcg").probe(None)
    assert found.reason == Note("qemu-no-test", problem="QEMU aborted in kvm_buf_set_msrs")
    assert found.hint == Note("hint-other-qemu")


@pytest.mark.parametrize(
    ("status", "stderr", "how"),
    [
        (
            -6,
            "x: ../kvm.c:3183: kvm_buf_set_msrs: Assertion `ret == n' failed.",
            "aborted in kvm_buf_set_msrs",
        ),
        (
            -6,
            "x: ../kvm.c:9: int kvm_arch_init(X86CPU *, int): Assertion `a::b' failed.",
            "aborted in kvm_arch_init",
        ),
        (
            -6,
            "**\nERROR:../accel/kvm/kvm-all.c:2:kvm_init: assertion failed: (a == b)",
            "aborted in kvm_init",
        ),
        (
            None,
            "x: ../kvm.c:3183: kvm_buf_set_msrs: Assertion `ret == n' failed.",
            "aborted in kvm_buf_set_msrs",
        ),
        (-11, "", "was ended by SIGSEGV"),
        (139, "Segmentation fault", "was ended by SIGSEGV"),
        (-9, "x: warning: 1", "was ended by SIGKILL"),
        (1, "unable to find CPU model 'x'", ""),
        (33, "", ""),
        (None, "", ""),
    ],
)
def test_a_crash_is_named_by_its_function_otherwise_by_its_signal(status, stderr, how):
    crashed = process.crash(status, stderr)
    assert crashed == (how and f"QEMU {how}")
    assert process.crash_in(f"console: up; {crashed}") == crashed


def test_what_a_whole_start_reported_is_kept_until_something_that_decides_it_changes(
    tmp_path, use_home
):
    use_home(tmp_path)
    kvm = tmp_path / "kvm"
    kvm.touch()
    printed = Probe(True, marks=("nested",), version="QEMU 9")
    options, image, another = (
        QemuOptions(accel="kvm"),
        Image("one", tmp_path),
        Image("two", tmp_path),
    )

    def never():
        raise AssertionError

    assert qemu_probe.cached([kvm], options, image, lambda: printed) == printed
    assert qemu_probe.cached([kvm], options, image, never) == printed
    for changed, its_image in ((options, another), (QemuOptions(accel="kvm", cpu="max"), image)):
        with pytest.raises(AssertionError):
            qemu_probe.cached([kvm], changed, its_image, never)
    next((tmp_path / "probes").iterdir()).write_text('{"available": ')  # killed while it wrote
    assert qemu_probe.cached([kvm], options, image, lambda: printed) == printed
    assert qemu_probe.cached([kvm], options, image, never) == printed


def test_a_probe_that_is_killed_while_it_keeps_its_answer_spoils_no_other(
    tmp_path, monkeypatch, use_home
):
    use_home(tmp_path)
    write = Path.write_text

    def half(path, text):
        write(path, text[: len(text) // 2])
        raise KeyboardInterrupt

    options, image, printed = QemuOptions(accel="tcg"), Image("one", tmp_path), Probe(True)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", half)
        with pytest.raises(KeyboardInterrupt):
            qemu_probe.cached([], options, image, lambda: printed)
    assert qemu_probe.cached([], options, image, lambda: printed) == printed
    assert len(list((tmp_path / "probes").iterdir())) == 1
