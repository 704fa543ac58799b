"""`vtax run --dry-run`: what a plan shows, to people and as JSON, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest
from click.testing import CliRunner
from command_line import output_of, refusal

from vtax.benchmarks import stream
from vtax.benchmarks.registry import benchmarks
from vtax.cli import plan as plan_text
from vtax.cli.run import check_budget_holds_block
from vtax.errors import BadInput, with_hint
from vtax.host.home import Home
from vtax.image.recipe import DEFAULT
from vtax.messages import Note
from vtax.runner.plan import Plan
from vtax.study.load import load
from vtax.study.model import DesignTable

pytestmark = pytest.mark.usefixtures("unmade_home", "ordinary_user")


def written(tmp_path: Path, tables: str) -> str:
    """The file of a study."""
    study = tmp_path / "mine.toml"
    study.write_text(f'name = "mine"\n{tables}')
    return str(study)


ROUTER = """[[benchmark]]
name = "iperf3"
topology = "router"
link_factors = { mtu = [500, 1500] }
"""
STUDIES = {
    "levels of links and of tuning": """
platforms = ["native", "podman"]
tuning = ["default", "pinned"]
[[benchmark]]
name = "iperf3"
label = "tcp"
link_factors = { mtu = [500, 1500] }
""",
    "a parameter and a link setting of one name": """
platforms = ["native"]
[[benchmark]]
name = "iperf3"
parameters = { protocol = "udp" }
factors = { rate_mbit_s = [5, 10] }
link_factors = { rate_mbit_s = [100, 200] }
""",
    "rounds": """
platforms = ["native", "lxc"]
[design]
order = "rounds"
trials = 5
[[benchmark]]
name = "iperf3"
""",
    "the order of papers, too few blocks": """
platforms = ["native", "docker"]
design = { order = "sequential", blocks = 4 }
[[benchmark]]
name = "sysbench-cpu"
""",
    "enough blocks, guests at once, a machine without limits": """
platforms = ["native", "lxc", "ssh:far"]
guest = { vcpus = 2, memory = "384MiB" }
design = { blocks = 5 }
[[benchmark]]
name = "stream"
[[benchmark]]
name = "iperf3"
topology = "guest-to-guest"
""",
    "what a platform cannot carry": f"""
platforms = ["native", "gvisor-ptrace"]
[[benchmark]]
name = "stream"
{ROUTER}
""",
    "a platform that can carry nothing": f"""
platforms = ["native", "gvisor-ptrace"]
{ROUTER}
""",
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_plan_is_printed(name, tmp_path, golden):
    golden(output_of("run", written(tmp_path, STUDIES[name]), "--dry-run", "--seed", "1"))


@pytest.mark.parametrize(
    "options",
    [
        "tour",
        "tour --budget 6min --memory 600MiB --disk 3GiB",
        "ufla2010 --scale quick -p native,docker -p lxc,docker",
    ],
)
def test_a_plan_needs_no_root_and_no_home(options, golden, measuring, monkeypatch):
    monkeypatch.setattr(stream, "last_level_cache_bytes", lambda: 32 << 20)
    golden(output_of("run", *options.split(), "--dry-run", "--seed", "1"))
    assert not Home.from_environment().root.exists()


def test_guests_are_counted_at_once_in_json_too(tmp_path):
    study = written(tmp_path, STUDIES["enough blocks, guests at once, a machine without limits"])
    plan = json.loads(output_of("run", study, "--dry-run", "--json"))
    assert [platform["guests"] for platform in plan["platforms"]] == [
        *[
            {
                "vcpus": 2,
                "memory_bytes": 384 * 2**20,
                "at_once": 2,
                "memory_at_once_bytes": 768 * 2**20,
                "scratch": ["volume"],
            }
        ]
        * 2,
        None,
    ]
    alone = json.loads(output_of("run", "tour", "--dry-run", "--json"))
    assert {platform["guests"]["at_once"] for platform in alone["platforms"]} == {1}


def test_a_host_must_have_the_memory_of_all_guests_that_run_at_once(tmp_path, host_memory):
    host_memory(1000 * 2**20)
    alone = 'platforms = ["native"]\n[guest]\nmemory = "600MiB"\n[[benchmark]]\nname = "iperf3"\n'
    output_of("run", written(tmp_path, alone), "--dry-run")
    study = written(tmp_path, alone + 'topology = "guest-to-guest"\n')
    with pytest.raises(BadInput) as caught:
        output_of("run", study, "--dry-run")
    printed = "2 guests of 600 MiB run at once in guest-to-guest, iperf3: 1.17 GiB of memory, and this host has 1000 MiB"
    assert caught.value.what == printed
    assert caught.value.where.endswith("[guest], key memory")
    assert "less than 500 MiB" in caught.value.hint


def test_a_plan_for_programs_is_one_json_document():
    plan = json.loads(
        output_of("run", "tour", "--dry-run", "--json", "--seed", "5", "--blocks", "3")
    )
    assert (plan["study"], plan["seed"], plan["baseline"], plan["design"]["blocks"]) == (
        "tour",
        5,
        "native",
        3,
    )
    assert len(plan["cells"]) == 42
    assert {cell["platform"] for cell in plan["cells"]} == {
        platform["name"] for platform in plan["platforms"]
    }
    assert {cell["benchmark"] for cell in plan["cells"]} <= set(benchmarks())
    assert all(
        cell["parameters"] and bool(cell["topology"]) == bool(cell["link"])
        for cell in plan["cells"]
    )
    assert plan["block_s"] > 10
    ran = {(cell["platform"], cell["key"]) for cell in plan["cells"]}
    for block in (1, 2, 3):
        guests = [guest for guest in plan["order"] if guest["block"] == block]
        assert {(guest["platform"], key) for guest in guests for key in guest["cells"]} == ran
    assert (
        len(
            {
                str([g["platform"] for g in plan["order"] if g["block"] == block])
                for block in (1, 2, 3)
            }
        )
        > 1
    )
    assert "probing needs root" in plan["not_probed"]


def test_a_plan_without_its_image_says_that_it_is_not_built(monkeypatch, taken_for_root):
    monkeypatch.setattr(
        "vtax.cli.run.recipe_for", lambda loaded: DEFAULT.with_packages(["python3-os-ken"])
    )
    assert "(python3-os-ken over the base), not built" in output_of("run", "tour", "--dry-run")


def test_a_budget_that_holds_no_block_is_refused():
    plan = SimpleNamespace(
        study=SimpleNamespace(design=DesignTable(stop="budget", budget=9.0)),
        expected_block_s=lambda: 10.0,
    )
    with pytest.raises(BadInput, match=r"budget of 9\.0 s .* about 10 s") as refused:
        check_budget_holds_block(cast(Plan, plan), 1.0)
    assert "--budget 10s holds one" in refused.value.hint
    with pytest.raises(BadInput, match=r"9\.0 s of the budget .* about 10 s") as refused:
        check_budget_holds_block(cast(Plan, plan), 0.5)
    assert "--budget 20s holds one" in refused.value.hint


@pytest.mark.parametrize("user", ["taken_for_root", "ordinary_user"])
def test_a_dry_run_starts_nothing_and_takes_no_lock(user, measuring, probe_by, request):
    """Neither while something measures, nor before something begins to."""
    request.getfixturevalue(user)
    probe_by(lambda *_: pytest.fail("started a guest"))
    plan = json.loads(output_of("run", "tour", "--dry-run", "--json"))
    assert plan["not_probed"]
    assert not Home.from_environment().root.exists()


@pytest.mark.parametrize("named", [("-p", "native,podman"), ("--ab", "podman,podman-userns")])
def test_a_dry_run_refuses_a_named_platform_that_lacks_a_program(
    named, taken_for_root, monkeypatch
):
    monkeypatch.setattr("vtax.platforms.probing.find_program", lambda name: None)
    refused = refusal("run", "tour", "--dry-run", *named)
    assert refused.exit_status == 2
    assert "podman" in refused.what
    assert "conmon" in refused.what


def test_a_platform_that_lacks_a_program_is_not_tested_where_nobody_named_it(
    taken_for_root, monkeypatch
):
    monkeypatch.setattr("vtax.platforms.probing.find_program", lambda name: None)
    plan = json.loads(output_of("run", "tour", "--dry-run", "--json"))
    available = {each["name"]: each["available"] for each in plan["platforms"]}
    assert (available["native"], available["docker"]) == (True, False)
    assert {cell["platform"] for cell in plan["cells"]} == {
        name for name, is_so in available.items() if is_so
    }


def test_what_a_platform_cannot_carry_is_data_too(tmp_path):
    study = written(tmp_path, STUDIES["what a platform cannot carry"])
    plan = json.loads(output_of("run", study, "--dry-run", "--json"))
    assert [(each["platform"], each["label"], each["levels"]) for each in plan["not_tested"]] == [
        ("gvisor-ptrace", "iperf3", {"link.mtu": mtu}) for mtu in (500, 1500)
    ]
    assert [cell["label"] for cell in plan["cells"] if cell["platform"] == "gvisor-ptrace"] == [
        "stream"
    ]
    named = output_of("run", study, "--dry-run", "--platforms", "native,gvisor-ptrace")
    assert "not tested: gvisor-ptrace in iperf3, router: router needs" in named
    study = written(
        tmp_path, f'platforms = ["gvisor-ptrace"]\nbaseline = "gvisor-ptrace"\n{ROUTER}'
    )
    with pytest.raises(BadInput) as refused:
        output_of("run", study, "--dry-run")
    assert refused.value.what == Note("no-routing", topology="router", name="gvisor-ptrace")


def test_a_platform_that_is_not_probed_has_its_hint_on_the_same_line():
    assert (
        with_hint("no image.", "sudo vtax image build") == "no image; hint: sudo vtax image build"
    )
    assert with_hint("no image.", "") == "no image."


def test_platforms_without_the_baseline_are_refused_with_the_difference():
    refused = refusal("run", "santos2008", "--dry-run", "-p", "docker,lxc")
    assert refused.what.startswith("the baseline of santos2008, native, is not among docker, lxc")
    assert (refused.where, refused.hint) == ("--platforms", "--platforms native,docker,lxc")


def test_what_changed_a_study_is_data_too():
    plan = json.loads(output_of("run", "ufla2010", "--dry-run", "--scale", "quick", "--json"))
    (changed,) = plan["changed_by"]
    assert (changed["option"], changed["parts"]) == (
        "--scale quick",
        [{"what": "duration_s ÷ 5", "label": ""}],
    )


@pytest.mark.parametrize(("answer", "starts"), [("y\n", True), ("n\n", False), ("", False)])
def test_a_run_of_more_than_an_hour_is_confirmed(answer, starts, monkeypatch):
    plan = cast(
        Plan,
        SimpleNamespace(
            study=load("ufla2010").study, max_blocks=10, expected_block_s=lambda: 361.0
        ),
    )
    monkeypatch.setattr(plan_text, "sys", SimpleNamespace(stdin=Terminal(), stderr=Terminal()))

    @click.command()
    def ask() -> None:
        plan_text.confirm(plan)

    result = CliRunner().invoke(ask, input=answer)
    assert "up to 1 h 00 min. Start it? [y/N]" in result.output
    assert (result.exit_code == 0) is starts
    assert isinstance(result.exception, BadInput) is not starts


def test_a_long_run_without_a_terminal_is_refused_and_a_short_one_is_not(monkeypatch, golden):
    monkeypatch.setattr(
        plan_text, "sys", SimpleNamespace(stdin=io.StringIO(), stderr=io.StringIO())
    )
    study = load("ufla2010").study
    with pytest.raises(BadInput) as refused:
        plan_text.confirm(
            cast(Plan, SimpleNamespace(study=study, max_blocks=10, expected_block_s=lambda: 361.0))
        )
    golden(str(refused.value))
    assert (refused.value.where, refused.value.hint.split()[0]) == ("--yes", "--yes")
    plan_text.confirm(
        cast(Plan, SimpleNamespace(study=study, max_blocks=10, expected_block_s=lambda: 360.0))
    )


class Terminal(io.StringIO):
    """A stream that a person reads and writes."""

    def isatty(self) -> bool:
        return True
