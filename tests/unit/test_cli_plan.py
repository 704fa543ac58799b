"""`vtax run --dry-run`: what a plan shows, to people and as JSON, and what it refuses."""

from __future__ import annotations

import io
import json
import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import click
import pytest
from click.testing import CliRunner
from command_line import output_of

from vtax.benchmarks.registry import benchmarks
from vtax.cli import long_runs
from vtax.cli.main import group
from vtax.cli.run import check_budget_holds_block
from vtax.errors import BadInput, with_hint
from vtax.host.home import Home
from vtax.host.lock import measuring_lock
from vtax.image.recipe import DEFAULT
from vtax.runner.plan import Plan
from vtax.study.load import load
from vtax.study.model import DesignTable


@pytest.fixture(autouse=True)
def nobody(unmade_home, monkeypatch):
    """A home of one's own, and no root: nothing is probed."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)


def test_options_replace_what_guests_may_use_and_the_rest_stays():
    printed = output_of("run", "tour", "--plan", "--memory", "600MiB", "--disk", "3GiB")
    assert re.search("^guests of native.*: 1 vCPU and 600 MiB each$", printed, re.M)
    assert re.search("^guests of qemu-tcg-virtio.*: 1 vCPU and 600 MiB each, disk of 3 GiB$", printed, re.M)
    assert "the base, disk of 3 GiB" in printed
    with pytest.raises(BadInput, match="'huge' is not understood"):
        output_of("run", "tour", "--plan", "--memory", "huge")


def test_a_plan_needs_no_root_and_says_what_was_not_probed(monkeypatch):
    monkeypatch.setattr("vtax.cli.probing.measuring_lock", lambda name: pytest.fail("took the lock"))
    printed = output_of("run", "tour", "--plan")
    assert "cells: 35, on native, podman" in printed
    assert re.search(r"^order: block 1: [a-z, -]+; block 2: [a-z, -]+; block 3: [a-z, -]+; \.\.\.$", printed, re.M)
    assert "  iperf3, point-to-point: direction = send, receive\n" in printed
    assert "  sysbench-cpu\n" in printed
    assert "compared with native; equivalent: within ±2\N{NO-BREAK SPACE}%" in printed
    assert "were not probed: probing needs root" in printed
    assert "cells and time are those of all of them, whether they start here or not" in printed
    assert "the guest image is not built yet" in printed
    assert not Home.from_environment().root.exists()


def test_a_plan_names_the_levels_of_links_and_of_tuning(tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(
        'name = "mine"\nplatforms = ["native", "podman"]\ntuning = ["default", "pinned"]\n'
        '[[benchmark]]\nname = "iperf3"\nlabel = "tcp"\nlink_factors = { mtu = [500, 1500] }\n'
    )
    printed = output_of("run", str(study), "--plan")
    assert "  tcp (iperf3), point-to-point: link.mtu = 500, 1500\n  tuning = default, pinned\n" in printed


def test_a_plan_shows_a_parameter_and_a_link_setting_of_the_same_name(tmp_path):
    study = tmp_path / "rates.toml"
    study.write_text(
        'name = "rates"\nplatforms = ["native"]\n[[benchmark]]\nname = "iperf3"\n'
        'parameters = { protocol = "udp" }\nfactors = { rate_mbit_s = [5, 10] }\n'
        "link_factors = { rate_mbit_s = [100, 200] }\n"
    )
    printed = output_of("run", str(study), "--plan")
    assert "  iperf3, point-to-point: rate_mbit_s = 5, 10; link.rate_mbit_s = 100, 200\n" in printed


def test_a_plan_in_the_papers_order_says_which_platform_follows_which(tmp_path):
    study = tmp_path / "mine.toml"
    benchmark = '[design]\norder = "sequential"\n[[benchmark]]\nname = "sysbench-cpu"\n'
    study.write_text(f'name = "mine"\nplatforms = ["native", "podman"]\n{benchmark}')
    assert "\norder: all blocks of native, then of podman\n" in output_of("run", str(study), "--plan")


def test_a_plan_shows_what_guests_may_use_and_counts_those_that_run_at_once(monkeypatch, tmp_path):
    study = tmp_path / "mine.toml"
    tables = '[guest]\nvcpus = 2\nmemory = "384MiB"\n[[benchmark]]\nname = "iperf3"\ntopology = "guest-to-guest"\n'
    study.write_text(f'name = "mine"\nplatforms = ["native", "lxc", "ssh:far"]\n{tables}')
    monkeypatch.setattr("vtax.runner.plan.why_not", lambda *_: None)
    text = output_of("run", str(study), "--plan")
    assert "\nguests of native, lxc: 2 vCPUs and 384 MiB each; 2 at once in guest-to-guest: 768 MiB\n" in text
    assert "\nguests of ssh:far: all of the machine; vtax sets no limits there\n" in text
    plan = json.loads(output_of("run", str(study), "--plan", "--json"))
    assert [platform["guests"] for platform in plan["platforms"]] == [
        *[{"vcpus": 2, "memory_bytes": 384 * 2**20, "at_once": 2, "memory_at_once_bytes": 768 * 2**20}] * 2,
        None,
    ]
    alone = json.loads(output_of("run", "tour", "--plan", "--json"))
    assert {platform["guests"]["at_once"] for platform in alone["platforms"]} == {1}


def test_a_host_must_have_the_memory_of_all_guests_that_run_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr("vtax.runner.memory.host_memory", lambda: 1000 * 2**20)
    study = tmp_path / "mine.toml"
    alone = 'name = "mine"\nplatforms = ["native"]\n[guest]\nmemory = "600MiB"\n[[benchmark]]\nname = "iperf3"\n'
    study.write_text(alone)
    assert "guests of native: 1 vCPU and 600 MiB each\n" in output_of("run", str(study), "--plan")
    study.write_text(alone + 'topology = "guest-to-guest"\n')
    with pytest.raises(BadInput) as caught:
        output_of("run", str(study), "--plan")
    printed = (
        "2 guests of 600 MiB run at once in guest-to-guest, iperf3: 1.17 GiB of memory, and this host has 1000 MiB"
    )
    assert caught.value.what == printed
    assert caught.value.where.endswith("[guest], key memory")
    assert "less than 500 MiB per guest" in caught.value.hint


def test_a_plan_for_programs_is_one_json_document():
    plan = json.loads(output_of("run", "tour", "--plan", "--json", "--seed", "5", "--blocks", "3"))
    assert (plan["study"], plan["seed"], plan["baseline"], plan["design"]["blocks"]) == ("tour", 5, "native", 3)
    assert len(plan["cells"]) == 35
    assert {cell["platform"] for cell in plan["cells"]} == {platform["name"] for platform in plan["platforms"]}
    assert {cell["benchmark"] for cell in plan["cells"]} <= set(benchmarks())
    assert all(cell["parameters"] and bool(cell["topology"]) == bool(cell["link"]) for cell in plan["cells"])
    assert plan["block_s"] > 35
    ran = {(cell["platform"], cell["key"]) for cell in plan["cells"]}
    for block in (1, 2, 3):
        guests = [guest for guest in plan["order"] if guest["block"] == block]
        assert {(guest["platform"], key) for guest in guests for key in guest["cells"]} == ran
    assert len({str([g["platform"] for g in plan["order"] if g["block"] == block]) for block in (1, 2, 3)}) > 1
    assert "probing needs root" in plan["not_probed"]


def test_a_plan_without_its_image_says_how_to_build_it_and_probes_nothing(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("vtax.cli.run.probing_lock", lambda name: nullcontext(""))
    monkeypatch.setattr("vtax.cli.run.recipe_for", lambda loaded: DEFAULT.with_packages(["python3-os-ken"]))
    printed = output_of("run", "tour", "--plan")
    assert "the guest image with python3-os-ken is not built yet" in printed
    assert "sudo vtax image build --with python3-os-ken" in printed


def test_a_budget_that_holds_no_block_is_refused():
    plan = SimpleNamespace(
        study=SimpleNamespace(design=DesignTable(stop="budget", budget=9.0)), expected_block_s=lambda: 10.0
    )
    with pytest.raises(BadInput, match=r"the budget of 9\.0 s is too short for one block, which takes about 10 s"):
        check_budget_holds_block(cast(Plan, plan))


def test_a_plan_probes_nothing_while_something_measures(tmp_path, monkeypatch):
    lock = tmp_path / "host.lock"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("vtax.cli.probing.measuring_lock", lambda name: measuring_lock(name, lock))
    with measuring_lock("tour-1", lock):
        assert "were not probed: tour-1 (process " in output_of("run", "tour", "--plan")


def test_a_plan_shows_what_a_platform_cannot_carry_and_measures_the_rest(tmp_path):
    study = tmp_path / "mine.toml"
    router = '[[benchmark]]\nname = "iperf3"\ntopology = "router"\nlink_factors = { mtu = [500, 1500] }\n'
    study.write_text(
        f'name = "mine"\nplatforms = ["native", "gvisor-ptrace"]\n[[benchmark]]\nname = "stream"\n{router}'
    )
    text = output_of("run", str(study), "--plan")
    assert "cells: 4, on native, gvisor-ptrace;" in text
    (line,) = [line for line in text.splitlines() if line.startswith("not tested:")]
    assert line.startswith(
        "not tested: gvisor-ptrace in iperf3, router: router needs guests that route between their"
    )
    assert line.endswith("drops large packets that a router receives")
    plan = json.loads(output_of("run", str(study), "--plan", "--json"))
    assert [(each["platform"], each["label"], each["levels"]) for each in plan["not_tested"]] == [
        ("gvisor-ptrace", "iperf3", {"link.mtu": mtu}) for mtu in (500, 1500)
    ]
    assert [cell["label"] for cell in plan["cells"] if cell["platform"] == "gvisor-ptrace"] == ["stream"]
    named = output_of("run", str(study), "--plan", "--platforms", "native,gvisor-ptrace")
    assert "not tested: gvisor-ptrace in iperf3, router: router needs guests" in named
    study.write_text(f'name = "mine"\nplatforms = ["native", "gvisor-ptrace"]\n{router}')
    text = output_of("run", str(study), "--plan")
    assert "cells: 2, on native;" in text
    assert "not tested: gvisor-ptrace: router needs guests" in text
    study.write_text(f'name = "mine"\nplatforms = ["gvisor-ptrace"]\nbaseline = "gvisor-ptrace"\n{router}')
    with pytest.raises(BadInput, match="router needs guests that route"):
        output_of("run", str(study), "--plan")


def test_a_platform_that_is_not_probed_has_its_hint_on_the_same_line():
    assert with_hint("no image.", "sudo vtax image build") == "no image; hint: sudo vtax image build"
    assert with_hint("no image.", "") == "no image."


@pytest.mark.parametrize(("blocks", "expected"), [(4, "; a verdict needs 5 blocks\n"), (5, "5 blocks, randomized")])
def test_too_few_blocks_for_a_verdict_are_named(tmp_path, blocks, expected):
    study = tmp_path / "mine.toml"
    study.write_text(
        f'name = "mine"\nplatforms = ["native", "docker"]\n[design]\nblocks = {blocks}\n'
        '[[benchmark]]\nname = "sysbench-cpu"\n'
    )
    text = output_of("run", str(study), "--plan").replace("\N{NO-BREAK SPACE}", " ")
    assert expected in text
    assert ("a verdict needs" in text) == (blocks < 5)


def test_platforms_without_the_baseline_are_refused_with_the_difference():
    refused = CliRunner().invoke(group, ["run", "santos2008", "--dry-run", "-p", "docker,lxc"]).exception
    assert isinstance(refused, BadInput)
    assert refused.what.startswith("the baseline of santos2008, native, is not among docker, lxc")
    assert (refused.where, refused.hint) == ("--platforms", "--platforms native,docker,lxc")


def test_platforms_of_several_options_and_commas_are_one_list():
    arguments = ("run", "ufla2010", "--dry-run", "--scale", "quick", "-p", "native,docker", "-p", "lxc,docker")
    text = output_of(*arguments)
    assert "changed by --scale quick: duration_s ÷ 5\n" in text
    assert "cells: 3, on native, docker, lxc; 10 blocks" in text
    assert json.loads(output_of(*arguments, "--json"))["changed_by"] == ["--scale quick: duration_s ÷ 5"]


@pytest.mark.parametrize(("answer", "starts"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_run_of_more_than_an_hour_is_confirmed(answer, starts, monkeypatch):
    plan = cast(Plan, SimpleNamespace(study=load("ufla2010").study, max_blocks=10, expected_block_s=lambda: 361.0))
    monkeypatch.setattr(long_runs, "sys", SimpleNamespace(stdin=Terminal(), stderr=Terminal()))

    @click.command()
    def ask() -> None:
        long_runs.confirm(plan)

    result = CliRunner().invoke(ask, input=answer)
    assert "The run may last up to 1 h 00 min. Start it? [y/N]" in result.output
    assert (result.exit_code == 0) is starts
    assert isinstance(result.exception, BadInput) is not starts


def test_a_long_run_without_a_terminal_is_refused_and_a_short_one_is_not(monkeypatch):
    monkeypatch.setattr(long_runs, "sys", SimpleNamespace(stdin=io.StringIO(), stderr=io.StringIO()))
    study = load("ufla2010").study
    with pytest.raises(BadInput, match="up to 1 h 00 min, and there is no terminal") as refused:
        long_runs.confirm(cast(Plan, SimpleNamespace(study=study, max_blocks=10, expected_block_s=lambda: 361.0)))
    assert (refused.value.where, refused.value.hint.split()[0]) == ("--yes", "--yes")
    long_runs.confirm(cast(Plan, SimpleNamespace(study=study, max_blocks=10, expected_block_s=lambda: 360.0)))


class Terminal(io.StringIO):
    """A stream that a person reads and writes."""

    def isatty(self) -> bool:
        return True
