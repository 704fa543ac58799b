"""All that depends on the processor follows from one value: here, that of an arm64 host in place of this one's."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json
import vtax.host.architecture as architecture
architecture.HOST = architecture.ARM64
from pathlib import Path
from vtax.host import tsc
from vtax.image.recipe import Recipe
from vtax.platforms.qemu import command
from vtax.platforms.qemu import driver as qemu
from vtax.platforms.qemu.command import VARIANTS, QemuOptions
from vtax.platforms.qemu.probe import _PACKAGES
from vtax.platforms.base import Resources
from vtax.platforms.virtual_machine import Boot

def guest(**options):
    made = command.QemuIo("g", Path("/console"), 3, 4, Path("/disk"))
    return command.guest(QemuOptions(**options), Resources(2, 1 << 29, (0, 1)), Boot(Path("/k"), Path("/i")), made)

def refused(**options):
    try:
        QemuOptions(**options)
    except ValueError as error:
        return str(error)

print(json.dumps({
    "recipe": [Recipe().architecture, Recipe().kernel_package], "tsc": tsc.frequency_khz(), "packages": _PACKAGES,
    "virtio": guest(), "emulated": guest(**VARIANTS["qemu-tcg-e1000"]), "variants": list(VARIANTS),
    "kvm": guest(accel="kvm"), "pc": refused(machine="pc"), "ide": refused(disk="ide"),
}))
"""


@pytest.fixture(scope="module")
def arm64():
    return json.loads(
        subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        ).stdout
    )


def after(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def test_an_image_is_of_its_architecture_with_its_kernel(arm64):
    assert arm64["recipe"] == ["arm64", "linux-image-arm64"]


def test_a_machine_is_that_of_its_architecture(arm64):
    virtio, emulated, kvm = (arm64[name] for name in ("virtio", "emulated", "kvm"))
    assert virtio[0] == "qemu-system-aarch64"
    assert after(virtio, "-machine") == "virt,gic-version=max"
    assert [after(each, "-cpu") for each in (virtio, kvm)] == ["max,pauth-impdef=on", "host"]
    words = after(virtio, "-append").split()
    assert words[0] == "console=ttyAMA0"
    assert not {"no_timer_check", "acpi=noirq", "tsc=reliable"} & set(words)
    assert arm64["tsc"] is None  # there is none, and nobody executes the instruction that reads it
    assert [emulated[number + 1] for number, word in enumerate(emulated) if word == "-device"][
        -2:
    ] == [
        "ahci,id=sata",
        "ide-hd,drive=root,bus=sata.0",
    ]
    assert arm64["packages"] == {"qemu-system-aarch64": "qemu-system-arm", "qemu-img": "qemu-utils"}


def test_machines_of_other_architectures_are_refused(arm64):
    assert "qemu-tcg-virtio" in arm64["variants"]
    assert not [name for name in arm64["variants"] if "microvm" in name]
    assert "aarch64 host has machines virt" in arm64["pc"]
    assert "no IDE controller" in arm64["ide"]
