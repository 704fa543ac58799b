"""Ladders of virtual machines: each rung starts here, or doctor says why not, and has its mechanism from that rung on."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_guests import LabGuests
from support import needs_program, needs_root

from vtax.host import huge_pages
from vtax.platforms import registry
from vtax.platforms.stdio import StdioGuest

pytestmark = [needs_root, needs_program("qemu-system-x86_64", "qemu-img")]
RUNGS = {rung.name: rung for rungs in registry.ladders().values() for rung in rungs}
EMULATED = [rung.name for rung in registry.ladders()["qemu-tcg"]]
GROUND = {
    "nic": "e1000",
    "disk": "/dev/sda",
    "cache": "writethrough",
    "io thread": False,
    "huge pages": False,
    "pinned": False,
    "cpu": "QEMU Virtual CPU version 2.5+",
    "mitigations": "on",
}
ADDED = {
    "ground": {},
    "nic": {"nic": "virtio_net"},
    "disk": {"disk": "/dev/vda"},
    "cache": {"cache": "writeback"},
    "vhost": {},
    "io-thread": {"io thread": True},
    "huge-pages": {"huge pages": True},
    "pinned": {"pinned": True},
    "cpu": {"cpu": "other"},
    "tuned": {"mitigations": "off"},
}


def mechanisms(lab: LabGuests) -> dict[str, object]:
    """Return what a started machine has of each mechanism, seen from inside, from its threads and its memory."""
    running = lab.endpoints["guest"].running
    assert isinstance(running, StdioGuest)
    tasks = Path(f"/proc/{running.process.pid}/task")
    threads = {(task / "comm").read_text().strip(): task.name for task in tasks.iterdir()}
    allowed = Path(f"/proc/{threads['CPU 0/TCG']}/status").read_text()
    [cpus] = [line.split()[1] for line in allowed.splitlines() if line.startswith("Cpus_allowed_l")]
    model = lab.run("guest", "sed", "-n", "s/^model name.*: //p", "/proc/cpuinfo").strip()
    command = Path(f"/proc/{running.process.pid}/cmdline").read_text()
    driver = lab.run("guest", "readlink", "/sys/class/net/eth0/device/driver").strip()
    return {
        "nic": Path(driver).name,
        "disk": lab.run("guest", "findmnt", "-no", "SOURCE", "/").strip(),
        "cache": command.partition("cache=")[2].partition(",")[0],
        "io thread": "IO disk" in threads,
        "huge pages": huge_pages.bytes_of_process(running.process.pid) > lab.memory_bytes / 2,
        "pinned": cpus.isdigit(),
        "cpu": model if model == GROUND["cpu"] else "other",
        "mitigations": "off"
        if "mitigations=off" in lab.run("guest", "cat", "/proc/cmdline")
        else "on",
    }


@pytest.mark.parametrize("name", EMULATED)
@pytest.mark.push_with("tcg-tuned")
def test_every_rung_has_its_mechanism_and_those_below(name, image, journal, private_home):
    platform = registry.platform_of(RUNGS[name])
    assert platform.probe(image).marks == ("emulated",)
    expected = dict(GROUND)
    for rung in EMULATED[: EMULATED.index(name) + 1]:
        expected |= ADDED[rung.removeprefix("tcg-")]
    with LabGuests("point-to-point", platform, image, journal, private_home) as lab:
        assert mechanisms(lab) == expected
        lab.links.verify()


@pytest.mark.parametrize("name", [name for name in RUNGS if name not in EMULATED])
def test_a_rung_that_does_not_run_here_says_why(name, image, journal, private_home):
    platform = registry.platform_of(RUNGS[name])
    probe = platform.probe(image)
    if not probe.available:
        assert "/dev/kvm" in str(probe.reason) or "/dev/vhost-net" in str(probe.reason)
        assert probe.hint
        return
    with LabGuests("point-to-point", platform, image, journal, private_home) as lab:
        lab.links.verify()
