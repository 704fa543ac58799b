"""Boots of the host: entries of boot loaders, and their order in a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import output_of, refusal
from scripted import install
from stubbed_host import ADVANCED, BOOTS, NATIVE, XEN, Machine, loaded_study, look, planned

from vtax.errors import BadInput
from vtax.host import boot_loaders
from vtax.host.boot_loaders import Entry, SystemdBoot
from vtax.host.home import Home
from vtax.messages import Note
from vtax.platforms.base import Probe
from vtax.runner import boots, resume
from vtax.runner.begin import begin
from vtax.store.store import Store

# Boot loaders


def test_entries_of_grub_are_known_by_title_id_and_submenu(machine):
    found = {entry.id: entry for entry in boot_loaders.loader().entries()}
    assert list(found) == [NATIVE, ADVANCED, XEN, "uefi-firmware"]
    assert found[NATIVE] == Entry(
        NATIVE,
        "Debian GNU/Linux",
        "/boot/vmlinuz-6.1.0-50-amd64",
        ("root=/dev/vda1", "ro", "quiet"),
    )
    assert found[XEN].is_xen
    assert found[XEN].kernel == "/boot/vmlinuz-6.1.0-50-amd64"
    assert found[XEN].options == ("placeholder", "root=/dev/vda1", "ro", "console=hvc0")
    assert boot_loaders.loader().find("Debian GNU/Linux, with Linux 6.1.0-50-amd64").id == ADVANCED


def test_the_current_entry_is_known_by_hypervisor_kernel_and_options(machine):
    loader = boot_loaders.loader()
    native, xen = loader.find(NATIVE), loader.find(XEN)
    assert boot_loaders.current_entry(loader, [native, xen]) == native
    machine.boot(XEN)
    assert boot_loaders.current_entry(loader, [native, xen]) == xen
    (machine.root / "sys/hypervisor/properties/features").write_text(
        "0\n"
    )  # a guest of Xen, not its dom0
    assert boot_loaders.current_entry(loader, [native, xen]) is None


def test_the_configuration_of_a_debian_host_with_xen_is_read(machine):
    """The file that grub-mkconfig 2.06-13+deb12u2 wrote in the nested machine `grub`."""
    file = Path(__file__).parent / "fixtures/boots/debian-12-xen.cfg"
    (machine.root / "boot/grub/grub.cfg").write_text(file.read_text())
    loader = boot_loaders.loader()
    disk = "05ab17ad-5bac-4f0b-8087-1df6c9dd662c"
    linux, xen = "gnulinux-6.1.0-50-amd64-advanced", "xen-gnulinux-6.1.0-50-amd64-advanced"
    below_xen = (
        "Advanced options for Debian GNU/Linux (with Xen hypervisor)>xen-hypervisor-4.17-amd64"
    )
    assert [entry.id for entry in loader.entries()] == [
        f"gnulinux-simple-{disk}",
        f"gnulinux-advanced-{disk}>{linux}-{disk}",
        f"xen-gnulinux-simple-{disk}",
        f"{below_xen}-{disk}>{xen}-{disk}",  # both submenus have the id gnulinux-advanced-DISK
        f"{below_xen}.efi-{disk}>{xen}-{disk}",
    ]
    named = [loader.find("Debian GNU/Linux"), loader.find("Debian GNU/Linux, with Xen hypervisor")]
    more = "net.ifnames=0 panic=-1 no_timer_check systemd.show_status=false mitigations=off quiet"
    command_line = machine.root / "proc/cmdline"
    command_line.write_text(
        f"BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/vda1 ro console=ttyS0 {more}\n"
    )
    assert boot_loaders.current_entry(loader, named) == named[0]
    machine.boot(XEN)
    command_line.write_text(f"placeholder root=/dev/vda1 ro console=hvc0 {more}\n")
    assert boot_loaders.current_entry(loader, named) == named[1]


def test_entries_that_boot_the_same_are_refused(machine):
    loader = boot_loaders.loader()
    with pytest.raises(BadInput, match="look the same") as caught:
        boot_loaders.current_entry(loader, [loader.find(NATIVE), loader.find(ADVANCED)])
    assert "vtax.boot=" in caught.value.hint


def test_an_entry_that_does_not_exist_or_loads_no_kernel_is_refused(machine):
    with pytest.raises(BadInput, match="no entry 'Fedora'") as caught:
        boot_loaders.loader().find("Fedora")
    assert "'Debian GNU/Linux, with Xen hypervisor'" in caught.value.hint
    with pytest.raises(BadInput, match="names no kernel"):
        boot_loaders.loader().find("uefi-firmware")


def test_grub_is_given_the_path_of_an_entry_for_the_next_boot_alone(machine, monkeypatch):
    loader = boot_loaders.loader()
    loader.set_next(loader.find("Debian GNU/Linux, with Linux 6.1.0-50-amd64"))
    assert machine.next_entry == ADVANCED
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BadInput) as caught:
        loader.set_next(loader.find(XEN))
    assert caught.value.what == Note("not-installed", count=1, names=("grub-reboot",))


@pytest.fixture
def systemd_boot(machine: Machine) -> Machine:
    """A machine that systemd-boot booted: `listed` is what bootctl lists."""
    variables = machine.root / "sys/firmware/efi/efivars"
    variables.mkdir(parents=True)
    bootctl = machine.root / "bin/bootctl"
    bootctl.write_text(
        f'#!/bin/sh\ncd {machine.root}; case $1 in list) cat listed;; set-oneshot) echo "$2" >next;; esac\n'
    )
    bootctl.chmod(0o755)
    for name, text in (("LoaderInfo", "systemd-boot 252"), ("LoaderEntrySelected", "one.conf")):
        (variables / f"{name}-{boot_loaders._VENDOR}").write_bytes(
            b"\6\0\0\0" + text.encode("utf-16-le") + b"\0\0"
        )
    return machine


def test_systemd_boot_lists_its_entries_and_names_the_one_it_started(systemd_boot):
    listed = [
        {"type": "type1", "id": "one.conf", "title": "Debian"},
        {"type": "type2", "id": "two.efi"},
        {"type": "auto", "id": "auto-windows"},
    ]
    (systemd_boot.root / "listed").write_text(f"{json.dumps(listed)}\n")
    loader = boot_loaders.loader()
    assert isinstance(loader, SystemdBoot)
    assert loader.entries() == [Entry("one.conf", "Debian"), Entry("two.efi", "two.efi")]
    assert boot_loaders.current_entry(loader, loader.entries()) == loader.find("Debian")
    loader.set_next(loader.find("two.efi"))
    assert systemd_boot.next_entry == "two.efi"


def test_the_entries_that_bootctl_of_debian_12_lists_are_read(systemd_boot):
    """What bootctl 252.39-1~deb12u2 printed in the nested machine `systemd-boot`: one object a line, no types."""
    file = Path(__file__).parent / "fixtures/boots/bootctl-252.txt"
    (systemd_boot.root / "listed").write_text(file.read_text())
    loader = boot_loaders.loader()
    assert loader.entries() == [
        Entry("two.conf", "Debian, boot two"),
        Entry("one.conf", "Debian, boot one"),
    ]
    assert loader.is_current(loader.find("Debian, boot one"))


def test_systemd_boot_without_entries_has_none(systemd_boot):
    for listed in ("", "[]\n"):
        (systemd_boot.root / "listed").write_text(listed)
        assert boot_loaders.loader().entries() == []


# What is refused before anything


def test_a_host_whose_boot_loader_is_unknown_is_refused(machine, golden):
    (machine.root / "boot/grub/grub.cfg").unlink()
    with pytest.raises(BadInput) as caught:
        boots.current_boot(planned().study)
    golden(str(caught.value))
    assert "boot by GRUB or systemd-boot" in caught.value.hint


def test_a_boot_of_the_study_without_an_entry_is_refused(machine):
    wrong = [BOOTS[0], {**BOOTS[1], "entry": "Debian with Xen"}]
    with pytest.raises(BadInput, match="no entry 'Debian with Xen'") as caught:
        boots.current_boot(loaded_study(boot=wrong).study)
    assert caught.value.where == "[[boot]] xen, key entry"


def test_a_host_booted_otherwise_is_in_none_of_the_boots(machine):
    (machine.root / "proc/cmdline").write_text(
        "BOOT_IMAGE=/boot/vmlinuz-6.1.0-50-amd64 root=/dev/vda1 single\n"
    )
    found = look(planned())
    assert (found.name, [*found.entries]) == ("", ["plain", "xen"])
    assert boots.current_boot(loaded_study().study) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"boot": [BOOTS[0]]}, "other is in no"),
        (
            {"boot": [BOOTS[0], {**BOOTS[1], "platforms": ["native", "other"]}]},
            "native is in the boots plain and xen",
        ),
        ({"boot": [BOOTS[0], {**BOOTS[1], "name": "plain"}]}, "two boots of the name 'plain'"),
        (
            {"boot": [BOOTS[0], {**BOOTS[1], "entry": BOOTS[0]["entry"]}]},
            "two boots have the entry",
        ),
        ({"design": {"stop": "budget", "budget": 60}}, "needs stop = 'fixed'"),
        ({"design": {"sessions": 1}}, "with one session every boot is made once"),
        ({"must_match": ["kernel"]}, "must_match compares guests of one boot"),
    ],
)
def test_a_study_whose_boots_do_not_fit_is_refused(changed, why):
    with pytest.raises(BadInput) as caught:
        loaded_study(**{"boot": BOOTS, **changed})
    assert why in str(caught.value)


# The order of boots


def test_every_block_is_measured_in_boots_of_its_own_in_an_order_by_the_seed():
    of = loaded_study(boot=BOOTS, design={"blocks": 40}).study
    assert of.design.sessions == 40
    orders = [tuple(boots.boot_order(of, 5, session)) for session in range(1, 41)]
    assert set(orders) == {("plain", "xen"), ("xen", "plain")}
    assert 8 < orders.count(("plain", "xen")) < 32
    assert [visit.boot for visit in boots.planned_visits(of, 5)] == [
        boot for names in orders for boot in names
    ]
    assert boots.planned_visits(of, 6) != boots.planned_visits(of, 5)


def test_in_sequential_order_boots_are_in_the_order_of_the_study():
    of = loaded_study(boot=BOOTS[::-1], design={"blocks": 4, "order": "sequential"}).study
    assert of.design.sessions == 1
    for seed in range(8):
        assert [visit.boot for visit in boots.planned_visits(of, seed)] == ["xen", "plain"]


# Probes


def test_a_platform_is_probed_in_the_first_visit_to_its_boot(tmp_path, monkeypatch):
    install(monkeypatch)
    with Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        plan = planned("plain")
        run = begin(store, plan, vtax_version="test")
        assert {each.platform.name: each.probe.is_made for each in plan.platforms} == {
            "native": True,
            "other": False,
        }
        assert boots.unvisited_platforms(plan.study, run) == {"native", "other"}
        boots.probe_here(plan, run, "xen")
        assert [each.reason for each in run.platforms] == ["", ""]
        run.note_boot("xen", {"boot_id": "1"})
        assert boots.unvisited_platforms(plan.study, run) == {"native"}
        rebuilt = resume._rebuild(run, plan.image)
        assert {each.platform.name: each.probe.is_made for each in rebuilt.platforms} == {
            "native": False,
            "other": True,
        }
        again = replace(plan.platforms[1], probe=Probe(True, "not probed, says a driver in a note"))
        boots.probe_here(replace(plan, platforms=(plan.platforms[0], again)), run, "xen")
        assert [each.reason for each in run.platforms] == ["", ""]


# The command line


STUDY = """name = "two"
platforms = ["native", "lxc"]
[design]
blocks = 3
[[boot]]
name = "plain"
entry = "Debian GNU/Linux"
platforms = ["native"]
[[boot]]
name = "xen"
entry = "Debian GNU/Linux, with Xen hypervisor"
platforms = ["lxc"]
[[benchmark]]
name = "sysbench-cpu"
"""


@pytest.mark.usefixtures("unmade_home", "taken_for_root")
def test_a_dry_run_refuses_boots_that_the_host_does_not_have(tmp_path, monkeypatch, golden):
    monkeypatch.setattr(boot_loaders, "ROOT", tmp_path)
    (file := tmp_path / "two.toml").write_text(STUDY)
    golden(str(refusal("run", str(file), "--dry-run")))


@pytest.mark.usefixtures("unmade_home")
def test_a_plan_shows_boots_reboots_and_their_duration(tmp_path, golden, ordinary_user):
    (file := tmp_path / "two.toml").write_text(STUDY)
    golden(output_of("run", str(file), "--dry-run", "--seed", "5"))
    found = json.loads(output_of("run", str(file), "--dry-run", "--seed", "5", "--json"))[
        "host_boots"
    ]
    assert found["boots"] == {"plain": ["native"], "xen": ["lxc"]}
    assert found["max_reboots"] == len(found["order"]) == 6
    assert [each["session"] for each in found["order"]] == [1, 1, 2, 2, 3, 3]


@pytest.mark.usefixtures("unmade_home")
def test_a_plan_orders_guests_as_its_boots_do(tmp_path, ordinary_user):
    several = STUDY.replace('platforms = ["lxc"]', 'platforms = ["lxc", "podman"]')
    (file := tmp_path / "two.toml").write_text(several)
    command = ("run", str(file), "--dry-run", "--sessions", "2", "--blocks", "4")
    orders = set()
    for seed in range(4):
        found = json.loads(output_of(*command, "--seed", str(seed), "--json"))
        order = [(each["session"], each["boot"]) for each in found["order"]]
        assert list(dict.fromkeys(order)) == [
            (b["session"], b["boot"]) for b in found["host_boots"]["order"]
        ]
        assert {(each["session"], each["block"]) for each in found["order"]} == {
            (1, 1),
            (1, 2),
            (2, 3),
            (2, 4),
        }
        assert {(each["boot"], each["platform"]) for each in found["order"]} == {
            ("plain", "native"),
            ("xen", "lxc"),
        }
        session, boot = order[0]
        printed = output_of(*command, "--seed", str(seed))
        assert (
            f"\norder: session {session}, boot {boot}, block 1: {found['order'][0]['platform']}; "
            in printed
        )
        orders.add(boot)
    assert orders == {"plain", "xen"}
    assert "boot xen names podman too" in printed


@pytest.mark.usefixtures("unmade_home")
def test_a_publications_protocol_makes_one_boot_after_the_other(tmp_path, ordinary_user):
    """As four of the five papers ran: all of Linux, then all of Xen."""
    boots_of_paper = ("--boot", "xen=Debian with Xen", "--boot", "bare=Debian")
    command = ("run", "urschei2007", "--dry-run", "--protocol", "paper", *boots_of_paper)
    printed = output_of(*command)
    assert "order of boots: session 1: xen, bare\n" in printed
    assert "order: all blocks of xen-dom0, then of xen-pv, then of native" in printed
    assert "at most 2 reboots" in printed
    found = json.loads(output_of(*command, "--json"))["host_boots"]
    assert found["max_reboots"] == len(found["order"]) == 2


@pytest.mark.usefixtures("unmade_home")
def test_a_run_in_boots_that_the_host_lacks_is_refused_before_anything(
    machine, tmp_path, taken_for_root
):
    (file := tmp_path / "two.toml").write_text(STUDY.replace("Debian GNU/Linux, with Xen", "Xen"))
    assert "no entry 'Xen hypervisor'" in str(refusal("run", str(file)))
    assert not Home.from_environment().root.exists()
