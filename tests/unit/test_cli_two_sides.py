"""`vtax run --ab OLD,NEW`: the two platforms of a run, their names, what is left out, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import output_of, refusal

from vtax.cli.two_sides import two_sides
from vtax.errors import BadInput
from vtax.report.answers.reproduce.compute import study_toml
from vtax.study.load import Chosen, load
from vtax.study.model import Study

STUDY = """
name = "mine"
platforms = ["native", "kvm-mine"]
[[platform]]
name = "kvm-mine"
driver = "qemu"
accel = "kvm"
cpu = "host,-pmu"
[[benchmark]]
name = "sysbench-cpu"
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(STUDY)
    return str(file)


def study_of(path: str, text: str) -> Study:
    return load(path, {}, Chosen(sides=two_sides(text, load(path).study))).study


@pytest.mark.parametrize(
    ("text", "names", "options"),
    [
        (
            "podman:runtime=runc,podman:runtime=crun",
            ("podman-runc", "podman-crun"),
            [{"runtime": "runc"}, {"runtime": "crun"}],
        ),
        ("podman,podman:runtime=crun", ("podman", "podman-crun"), [{"runtime": "crun"}]),
        ("podman,podman:userns=true", ("podman", "podman-userns-true"), [{"userns": True}]),
        (
            "podman-userns,podman-userns:runtime=crun",
            ("podman-userns", "podman-userns-crun"),
            [{"userns": True, "no_new_privileges": True, "runtime": "crun"}],
        ),
        (
            "qemu-tcg:queues=2,qemu-tcg:queues=4:nic=virtio-net",
            ("qemu-tcg-queues-2", "qemu-tcg-queues-4-virtio-net"),
            [{"queues": 2}, {"queues": 4, "nic": "virtio-net"}],
        ),
        (
            "kvm-virtio:disk=ide,kvm-mine",
            ("kvm-virtio-ide", "kvm-mine"),
            [{"accel": "kvm", "disk": "ide"}],
        ),
        (
            "kvm-mine,kvm-mine:machine=q35",
            ("kvm-mine", "kvm-mine-q35"),
            [{"accel": "kvm", "cpu": "host,-pmu", "machine": "q35"}],
        ),
        (
            "gvisor:runsc=/opt/a,gvisor:runsc=/opt/b",
            ("gvisor-old", "gvisor-new"),
            [{"runsc": "/opt/a"}, {"runsc": "/opt/b"}],
        ),
        ("docker:storage=vfs,docker", ("docker-vfs", "docker"), [{"storage": "vfs"}]),
        (
            "libvirt:domain=a:uri=qemu:///session,libvirt:domain=a",
            ("libvirt-old", "libvirt-new"),
            [{"domain": "a", "uri": "qemu:///session"}, {"domain": "a"}],
        ),
    ],
)
def test_two_platforms_of_one_driver_are_those_of_the_run(path, text, names, options):
    study = study_of(path, text)
    assert (tuple(study.platforms), study.baseline) == (names, names[0])
    made = [table for table in study.platform if table.name != "kvm-mine"]
    assert [table.options for table in made] == options
    assert {table.name for table in made} <= set(names)
    assert study.changed_by[0].option == f"--ab {text}"


@pytest.mark.parametrize(
    ("text", "error", "hint"),
    [
        ("podman:runtime=runc", "and 'podman:runtime=runc' names 1", "for example --ab podman:"),
        ("", "names 0", "for example"),
        ("qemu:cpu=host,-pmu,qemu:cpu=host", "names 3", "a [[platform]] table for each side"),
        ("podman,docker", "podman is of the driver podman, and docker of docker", "--platforms"),
        ("podman,podman:runtime=runc", "are the same platform", "vtax platforms podman"),
        ("podman:runtime=crun,podman:runtime=crun", "are the same platform", "different options"),
        (
            "pdman,podman",
            "there is no platform and no driver 'pdman'; did you mean podman?",
            "for example",
        ),
        (
            "podman:runtime,podman",
            "there is no platform and no driver 'podman:runtime'",
            "for example",
        ),
        (
            "podman:runtime=rusc,podman",
            "option runtime is 'rusc'; it must be 'runc', 'crun', 'youki' or",
            "'runsc'?",
        ),
        (
            "podman:runtme=crun,podman",
            "unknown option 'runtme'; did you mean runtime?",
            "lists the options",
        ),
        ("podman:userns=true:userns=false,podman", "gives userns twice", "once"),
    ],
)
def test_what_is_not_two_platforms_of_one_driver_is_refused(path, text, error, hint):
    with pytest.raises(BadInput) as refused:
        two_sides(text, load(path).study)
    assert error in refused.value.what
    assert refused.value.where.startswith("--ab")
    assert hint in refused.value.hint


def test_what_is_about_the_platforms_of_the_study_is_left_out():
    own = load("urschei2007").study
    study = study_of("urschei2007", "podman:runtime=runc,podman:runtime=crun")
    assert own.claim
    assert own.figure
    assert own.paper
    assert (study.claim, study.figure, study.published, study.paper) == ([], [], [], None)
    assert study.benchmark == own.benchmark
    (changed,) = study.changed_by
    assert [part.what for part in changed.parts] == [
        "podman-runc is podman with runtime = runc",
        "podman-crun is podman with runtime = crun",
        "compared with podman-runc",
        f"left out, about other platforms: {len(own.claim)} claims, {len(own.figure)} figures, the publication",
    ]


def test_a_scale_and_a_protocol_come_before_the_two_sides():
    sides = two_sides("podman,podman:runtime=crun", load("urschei2007").study)
    study = load("urschei2007", {}, Chosen("quick", "paper", sides)).study
    assert [each.option.split()[0] for each in study.changed_by] == [
        "--protocol",
        "--scale",
        "--ab",
    ]


def test_a_study_of_several_boots_is_refused(tmp_path, golden):
    file = tmp_path / "boots.toml"
    file.write_text(
        'name = "boots"\nplatforms = ["native", "podman"]\n[[boot]]\nname = "a"\nentry = "a"\nplatforms = ["native"]'
        '\n[[boot]]\nname = "b"\nentry = "b"\nplatforms = ["podman"]\n[[benchmark]]\nname = "stream"\n'
    )
    with pytest.raises(BadInput) as caught:
        study_of(str(file), "podman,podman:runtime=crun")
    golden(str(caught.value))


@pytest.mark.usefixtures("unmade_home")
def test_the_plan_shows_both_sides(path, golden, ordinary_user):
    arguments = (
        "run",
        path,
        "--dry-run",
        "--ab",
        "podman:runtime=runc,podman:runtime=crun",
        "--seed",
        "1",
    )
    golden(output_of(*arguments))
    plan = json.loads(output_of(*arguments, "--json"))
    assert plan["baseline"] == "podman-runc"
    assert [(each["driver"], each["options"]["runtime"]) for each in plan["platforms"]] == [
        ("podman", "runc"),
        ("podman", "crun"),
    ]
    assert plan["changed_by"][0]["option"].startswith("--ab ")


def test_a_stored_study_has_both_sides(path, tmp_path):
    study = study_of(path, "podman:runtime=runc,podman:userns=true")
    again = tmp_path / "again.toml"
    again.write_text(study_toml(study.declared()))
    assert load(str(again)).study.platform == study.platform


def test_both_options_for_platforms_are_refused(path):
    refused = refusal(
        "run", path, "--dry-run", "-p", "native", "--ab", "podman,podman:runtime=crun"
    )
    assert (refused.what, refused.where) == ("--ab names the platforms", "--platforms")
