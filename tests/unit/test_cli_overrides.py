"""Options of `vtax run` that change a study: links, boots, guests; what is refused, and that results say it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from command_line import refusal

from vtax.cli import overrides
from vtax.cli.main import group
from vtax.cli.run_options import RunOptions
from vtax.errors import BadInput
from vtax.study.load import design_overrides, load

pytestmark = pytest.mark.usefixtures("unmade_home", "ordinary_user")


def dry_run(*words: str) -> Result:
    return CliRunner().invoke(group, ["run", *words, "--dry-run"])


def planned(*words: str) -> dict[str, Any]:
    done = dry_run(*words, "--json")
    assert done.exception is None, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def study_of(changes: dict[str, Any], name: str = "urschei2007") -> Any:
    return load(name, changes).study


def test_a_setting_of_links_stands_beside_those_of_the_study_and_only_where_there_are_links():
    study = load("mauricio2013").study
    changed = study_of(
        overrides.link_changes(study, ["congestion=reno", "queues=1"]), "mauricio2013"
    )
    by_label = {table.label: table.link for table in changed.benchmark}
    assert by_label["router"]["congestion"] == "reno"
    assert by_label["router"]["rate_mbit_s"] == 1000
    assert by_label["CPU"] == {}
    assert [table.parameters for table in changed.benchmark] == [
        table.parameters for table in study.benchmark
    ]


def test_a_setting_of_some_topologies_is_set_on_their_links_alone():
    ends = {"peer": "ssh:a/x:y", "generator": "ssh:b/x:y", "receiver": "ssh:c/x:y"}
    given = [f"{role}={machine}" for role, machine in ends.items()]
    changed = study_of(
        overrides.link_changes(load("mauricio2013").study, given),
        "mauricio2013",
    )
    for table in changed.benchmark:
        named = {role for role in ends if role in table.link}
        if table.topology == "point-to-point":
            assert named == {"peer"}
        elif table.topology:
            assert named == {"generator", "receiver"}
        else:
            assert table.link == {}
        assert table.link.get("attachment", "bridge") == "bridge"


def test_a_link_to_another_machine_is_a_bridge_and_the_plan_says_of_which_benchmarks():
    options = RunOptions(study="mauricio2013", link=("peer=ssh:a/x:y",))
    changed = overrides.changes_of(options, load("mauricio2013").study)["changed_by"]
    assert [(part["what"], part["label"]) for part in changed[-1]["parts"]] == [
        ("peer=ssh:a/x:y", ""),
        ("attachment=bridge", "point to point, 64 B"),
        ("attachment=bridge", "point to point"),
    ]


def test_an_attachment_that_is_named_stays_beside_a_machine():
    study = load("mauricio2013").study
    given = ["peer=ssh:a/x:y", "attachment=veth"]
    changed = study_of(overrides.link_changes(study, given), "mauricio2013")
    assert {t.link["attachment"] for t in changed.benchmark if "peer" in t.link} == {"veth"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("mtu=500", 500), ("offloads=false", False), ("loss=0.5", 0.5), ("congestion=reno", "reno")],
)
def test_values_of_links_are_those_of_toml(text, value):
    changed = study_of(overrides.link_changes(load("tour").study, [text]), "tour")
    links = [table.link for table in changed.benchmark if table.name == "netperf"]
    assert [list(link.values()) for link in links] == [[value], [value]]


@pytest.mark.parametrize(
    ("study", "given", "what"),
    [
        ("tour", "mtu", "'mtu' is not of the form KEY=VALUE"),
        ("tour", "=5", "'=5' is not of the form KEY=VALUE"),
        ("urschei2007", "mtu=9000", "mtu is a factor of netperf, with levels of its own"),
    ],
)
def test_a_setting_that_no_link_takes_is_refused(study, given, what):
    with pytest.raises(BadInput, match=what):
        overrides.link_changes(load(study).study, [given])


@pytest.mark.parametrize("setting", ["mtu=1500", "packet_bytes=1500"])
def test_a_setting_that_makes_other_packets_than_the_papers_is_refused(setting):
    with pytest.raises(BadInput, match="makes the packets that point to point, 64 B is about"):
        overrides.link_changes(load("mauricio2013").study, [setting])


def test_a_study_is_printed_as_its_options_change_it_and_is_then_the_same_study(tmp_path):
    boots = ("--boot", "bare=Plain", "--boot", "xen=Other")
    words = ("urschei2007", "--scale", "tiny", "--protocol", "paper", *boots, "--vcpus", "2")
    done = CliRunner().invoke(group, ["run", *words, "--toml"])
    assert done.exit_code == 0, done.exception
    path = tmp_path / "paper.toml"
    path.write_text(done.stdout)
    study = load(str(path)).study
    assert (study.design.order, study.design.sessions, study.guest.vcpus) == ("sequential", 1, 2)
    assert [(boot.name, boot.entry) for boot in study.boot] == [("bare", "Plain"), ("xen", "Other")]
    changed = {each.option for each in study.changed_by}
    assert changed == {"--scale tiny", "--protocol paper", "--vcpus", "--boot"}
    whole, copy = planned(*words), planned(str(path))
    assert copy["cells"] == whole["cells"]


def test_a_platform_of_a_boot_that_there_is_not_is_refused_and_so_is_a_boot_without_one(golden):
    study = load("urschei2007").study
    with pytest.raises(BadInput) as caught:
        overrides.boot_changes(study, ["xen=b:xen-pv,nosuch"], None)
    golden(str(caught.value), "1")
    with pytest.raises(BadInput) as caught:
        overrides.boot_changes(study, ["xen=b"], None, ["native", "docker"])
    golden(str(caught.value), "2")


def test_a_study_without_links_has_none_to_set(tmp_path, golden):
    path = tmp_path / "alone.toml"
    path.write_text(
        'name = "alone"\nplatforms = ["native", "lxc"]\n[[benchmark]]\nname = "sysbench-cpu"\n'
    )
    error = refusal("run", str(path), "--link", "mtu=9000", "--dry-run")
    golden(str(error))


def test_an_unknown_setting_of_links_is_refused_with_those_that_there_are():
    error = refusal("run", "tour", "--link", "speed=9", "--dry-run")
    assert "speed" in str(error)
    assert error.hint


def test_boots_make_the_rule_a_number_of_blocks_with_a_session_each():
    given = ["bare=Debian: 12:native", "xen=Debian, with Xen:xen-pv, xen-dom0"]
    changes = overrides.boot_changes(load("urschei2007").study, given, None)
    changed = study_of({"platforms": ["native", "xen-pv", "xen-dom0"], **changes})
    assert [(boot.name, boot.entry, boot.platforms) for boot in changed.boot] == [
        ("bare", "Debian: 12", ["native"]),
        ("xen", "Debian, with Xen", ["xen-pv", "xen-dom0"]),
    ]
    assert (changed.design.stop, changed.design.blocks, changed.design.sessions) == (
        "fixed",
        10,
        10,
    )
    study = load("urschei2007").study
    both = overrides.merge_changes(
        overrides.boot_changes(study, given, 6), design_overrides(study, 6, None, None)
    )
    fewer = study_of({"platforms": ["native", "xen-pv", "xen-dom0"], **both})
    assert (fewer.design.blocks, fewer.design.sessions) == (6, 6)


@pytest.mark.parametrize(
    "text", ["xen", "xen=Debian", "=Debian:native", "xen=:native", "xen=Debian:"]
)
def test_a_boot_of_another_form_is_refused(text):
    with pytest.raises(BadInput, match="is not of the form NAME=ENTRY:PLATFORM"):
        overrides.boot_changes(load("tour").study, [text], None)


def test_a_platform_without_a_boot_is_named(golden):
    error = refusal("run", "tour", "-p", "native,lxc", "--boot", "bare=Debian:native", "--dry-run")
    golden(str(error))


def test_what_options_change_stands_in_the_plan_and_the_stored_study():
    words = ("tour", "-p", "native,lxc", "--vcpus", "2", "--memory", "1GiB", "--link", "mtu=9000")
    said = [line for line in dry_run(*words).output.splitlines() if line.startswith("changed by")]
    assert said == [
        "changed by --vcpus: 2",
        "changed by --memory: 1GiB",
        "changed by --link: mtu=9000",
    ]
    changed = {each["option"]: each["parts"][0]["what"] for each in planned(*words)["changed_by"]}
    assert changed == {"--vcpus": "2", "--memory": "1GiB", "--link": "mtu=9000"}
    assert "changed by" not in dry_run("tour", "-p", "native,lxc").output


@pytest.mark.parametrize("name", ["urschei2007", "ufla2010", "santos2008", "mauricio2013"])
def test_a_study_of_several_boots_knows_their_platforms(name):
    """With the precision rule too; every platform is in one boot, and native in that without Xen."""
    study = load(name).study
    assert sorted(name for platforms in study.paper.boots.values() for name in platforms) == sorted(
        study.platforms
    )
    given = ["bare=Debian: 12", "xen=Debian, with Xen"]
    changed = study_of(overrides.boot_changes(study, given, None), name)
    assert [boot.entry for boot in changed.boot] == ["Debian: 12", "Debian, with Xen"]
    assert {boot.name: boot.platforms for boot in changed.boot} == study.paper.boots
    assert "native" in changed.boot[0].platforms
    assert changed.design.stop == "fixed"


def test_boots_of_a_study_hold_the_platforms_that_are_named():
    study = load("mauricio2013").study
    changes = overrides.boot_changes(study, ["bare=Debian", "xen=Xen"], None, ["native", "xen-pv"])
    assert [boot["platforms"] for boot in changes["boot"]] == [["native"], ["xen-pv"]]
    own = overrides.boot_changes(study, ["bare=Debian:native,kvm-virtio"], None)
    assert own["boot"][0]["platforms"] == ["native", "kvm-virtio"]


def test_entries_of_a_study_that_has_boots_are_replaced_and_its_design_stays():
    study = load("mitigations").study
    changed = study_of(overrides.boot_changes(study, ["off=Debian, off"], None), "mitigations")
    assert [(boot.name, boot.entry) for boot in changed.boot] == [
        ("on", "Debian GNU/Linux"),
        ("off", "Debian, off"),
    ]
    assert [boot.platforms for boot in changed.boot] == [boot.platforms for boot in study.boot]
    assert changed.design == study.design


def test_a_boot_that_neither_the_study_nor_the_option_knows_is_refused_with_those_of_the_study(
    golden,
):
    with pytest.raises(BadInput) as caught:
        overrides.boot_changes(load("mauricio2013").study, ["zen=Debian"], None)
    golden(str(caught.value))
    assert "--boot bare=ENTRY --boot xen=ENTRY" in caught.value.hint


def test_a_number_of_blocks_takes_the_place_of_the_budget_that_a_study_has():
    study = load("shares").study
    assert study.design.budget is not None
    assert load("shares", design_overrides(study, 50, None, None)).study.design.budget is None
    assert load("shares", design_overrides(study, 50, None, "5min")).study.design.budget == 300
