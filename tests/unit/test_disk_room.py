"""Room for the files of trials: on the disk of virtual machines, on this host, and in caches."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from vtax.benchmarks.base import Context
from vtax.errors import BadInput
from vtax.host.process import run
from vtax.image.export import free_bytes
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.base import Probe
from vtax.runner import disk_room
from vtax.runner.plan import Plan, make_plan
from vtax.study.load import LoadedStudy, load, validate

GIB = 1 << 30
MACHINE = "qemu-tcg-virtio"


def planned(
    file_size: str, *platforms: str, directory: Path = Path("/nowhere"), **guest: Any
) -> Plan:
    """The plan of a study that writes one file with dd."""
    names = ["native", *platforms]
    benchmark = {"name": "dd", "parameters": {"file_size": file_size}}
    declared = {"name": "x", "platforms": names, "guest": guest, "benchmark": [benchmark]}
    loaded = LoadedStudy(validate(declared, "study.toml"), "study.toml")
    return make_plan(
        loaded, image=Image("key", directory), probes={name: Probe(True) for name in names}
    )


@pytest.fixture(autouse=True)
def host_has_room(free_disk) -> None:
    free_disk(50 * GIB)


def test_files_above_the_disk_are_refused_with_both_numbers(golden):
    with pytest.raises(BadInput) as caught:
        planned("4GiB", MACHINE)
    golden(str(caught.value))
    assert caught.value.where == "study.toml: [guest], key disk"
    assert planned("4GiB", MACHINE, disk="6GiB").cells
    with pytest.raises(BadInput, match=r"need 7 GiB, .* has 6 GiB"):
        planned("7GiB", MACHINE, disk="6GiB")


def test_without_a_virtual_machine_the_hosts_disk_alone_counts():
    assert planned("4GiB").cells
    assert planned("4GiB", "podman", disk="512MiB").cells
    with pytest.raises(BadInput, match=r"file_size is 60 GiB, .* 50 GiB"):
        planned("60GiB")


def test_a_disk_above_what_the_host_has_free_is_refused_with_both_numbers():
    with pytest.raises(BadInput, match=r"disk of 51 GiB .*this host has 50 GiB free") as caught:
        planned("1GiB", MACHINE, disk="51GiB")
    assert caught.value.where == "study.toml: [guest], key disk"


def test_room_for_a_disk_is_asked_for_by_studies_of_machines_alone(free_disk):
    free_disk(GIB)
    assert planned("100MiB", "podman").cells
    with pytest.raises(BadInput, match=r"disk of 2 GiB .*this host has 1 GiB free"):
        planned("100MiB", MACHINE)


@pytest.mark.skipif(shutil.which("mke2fs") is None, reason="needs mke2fs")
def test_what_the_image_occupies_of_the_disk_counts(tmp_path):
    run(["mke2fs", "-q", "-t", "ext4", "-m", "0", tmp_path / "disk.raw", str(512 * 1024) + "k"])
    assert 400 << 20 < free_bytes(tmp_path / "disk.raw") < 500 << 20
    with pytest.raises(BadInput, match=r"need 511 MiB, .* has 512 MiB, 4\d\d MiB free"):
        planned("511MiB", MACHINE, directory=tmp_path, disk="512MiB")


def test_a_file_that_fits_a_cache_on_one_side_alone_is_named(host_memory, golden):
    host_memory(8 * GIB)

    def notes(file_size: str, *platforms: str) -> list[str]:
        plan = planned(file_size, *platforms, disk="20GiB", memory="1GiB")
        return disk_room.cache_lines(
            plan.points, plan.context(), [each.platform for each in plan.platforms]
        )

    [line] = notes("2GiB", MACHINE)
    golden(line)
    assert [notes("512MiB", MACHINE), notes("9GiB", MACHINE), notes("2GiB", "podman")] == [
        [],
        [],
        [],
    ]


def test_a_trial_says_that_only_the_cache_below_its_disk_holds_its_files(host_memory):
    host_memory(8 * GIB)

    def said(file_size: str) -> dict[str, str | None]:
        plan = planned(file_size, MACHINE, "podman", disk="20GiB", memory="1GiB")
        (point,) = plan.points
        return {
            p.platform.name: disk_room.host_cache_note(point, plan.context(), p.platform)
            for p in plan.platforms
        }

    of = said("2GiB")
    assert [of["native"], of["podman"]] == [None, None]
    assert of[MACHINE] == Note("host-cache", size="2 GiB", guest="1 GiB", host="8 GiB")
    assert not any([*said("512MiB").values(), *said("9GiB").values()])


def test_the_shipped_studies_set_the_disk_that_their_files_need():
    for name in ("santos2008", "trindade2018"):
        loaded = load(name)
        guest = loaded.study.guest
        plan = make_plan(
            loaded,
            image=Image("key", Path("/nowhere")),
            probes={platform: Probe(True) for platform in loaded.study.platforms},
        )
        context = Context(guest.vcpus, guest.memory)
        needed = max(
            point.benchmark.files_bytes(point.parameters, context)
            for point in plan.points
            if point.benchmark.name in ("dd", "bonnie")
        )
        assert guest.disk is not None
        assert 1.3 * needed < guest.disk
    assert needed == 2 * guest.memory  # Bonnie++'s own rule


def several(benchmark: dict[str, Any], *guests: int) -> Plan:
    """The plan of a benchmark in so many guests at once."""
    declared = {
        "name": "x",
        "platforms": ["native"],
        "guest": {"memory": "512MiB"},
        "benchmark": [{**benchmark, "guests": list(guests)}],
    }
    loaded = LoadedStudy(validate(declared, "study.toml"), "study.toml")
    return make_plan(loaded, image=Image("key", Path("/nowhere")), probes={"native": Probe(True)})


DD, PGBENCH = (
    {"name": "dd", "parameters": {"file_size": "20GiB"}},
    {"name": "pgbench", "parameters": {"scale": 1000, "client": "guest", "connection": "socket"}},
)


def test_files_of_all_guests_at_once_need_room_on_the_hosts_disk():
    assert several(DD, 1, 2).cells
    with pytest.raises(BadInput, match="dd need 60 GiB in 3 guests") as refusal:
        several(DD, 1, 3)
    assert refusal.value.where == "study.toml: [[benchmark]] dd, key guests"
    with pytest.raises(BadInput, match="need 80 GiB in 4 guests"):
        several(DD, 2, 4, 3)


def test_data_that_every_guest_copies_count_too(golden):
    data_bytes = disk_room._data_bytes(several(PGBENCH, 1).points[0])
    assert data_bytes > 10 * GIB
    with pytest.raises(BadInput) as caught:
        several(PGBENCH, 1, 4)
    golden(str(caught.value))


def test_a_plan_says_that_disks_are_memory_where_the_home_is(monkeypatch):
    points = several(DD, 1).points
    monkeypatch.setattr(disk_room, "memory_below", lambda directory: "")
    assert disk_room.memory_lines(points) == []
    monkeypatch.setattr(disk_room, "memory_below", lambda directory: "tmpfs")
    (line,) = disk_room.memory_lines(points)
    assert "dd" in line
    assert "tmpfs" in line
    assert disk_room.memory_lines(several({"name": "stream"}, 1).points) == []
