"""The Tab key: what a shell offers for a command line, found at once and without loading or starting much."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from a_run import begin, put_store
from click.shell_completion import ShellComplete

from vtax.cli.commands import COMMANDS
from vtax.cli.completion import COMPLETE_VARIABLE
from vtax.cli.main import group
from vtax.host.home import Home
from vtax.platforms.registry import drivers, names
from vtax.store.annotations import Annotations, annotate
from vtax.store.glance import Glance
from vtax.store.store import Store
from vtax.study.load import shipped

PROGRAM = Path(sys.executable).with_name("vtax")


@pytest.fixture(autouse=True)
def home(unmade_home: Path) -> Home:
    """tour-1 finished, tour-2 interrupted, and the store closed."""
    made = Home.from_environment().ensure()
    put_store(made.store_file, measure)
    return made


def measure(store: Store) -> None:
    begin(store, "tour-1", started_at=1.0).finish("finished", "", 2.0)
    begin(store, "tour-2", started_at=2.0).finish("interrupted", "", 3.0)


def offered(*words: str) -> list[str]:
    """What is offered for the last word."""
    found = ShellComplete(group, {}, "vtax", COMPLETE_VARIABLE).get_completions(
        list(words[:-1]), words[-1]
    )
    return [item.value for item in found if item.type == "plain"]


def completion_process(line: str, shell: str = "bash") -> subprocess.CompletedProcess[str]:
    environment = {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        COMPLETE_VARIABLE: f"{shell}_complete",
    }
    return subprocess.run(
        [PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_factors_and_metrics_of_the_run_are_offered():
    factors = offered("show", "tour-1", "--cols", "")
    assert factors == [
        "platform",
        "benchmark",
        "metric",
        "topology",
        "direction",
        "duration_s",
        "block",
        "session",
        "host",
    ]
    assert offered("show", "tour-1", "--rows", "d") == ["direction", "duration_s"]
    assert offered("show", "--metric", "") == ["events", "throughput", "latency"]


def test_tags_of_runs_are_offered(home):
    with Store.open(home.store_url) as store:
        annotate(
            store.engine,
            store.open_run("tour-1").id,
            lambda before: Annotations(("paper", "draft"), ()),
        )
    assert offered("note", "tour-1", "--tag", "") == ["draft", "paper"]
    assert offered("run", "tour", "--tag", "pa") == ["paper"]
    assert offered("list", "--where", "tag=") == ["tag=draft", "tag=paper"]


def test_commands_are_offered_without_loading_them():
    assert offered("") == list(COMMANDS)
    assert offered("sh") == ["show", "shell"]
    assert "--version" in offered("--v")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("show", ""), ["last", "tour-2", "tour-1"]),
        (("report", "tour-1"), ["tour-1"]),
        (("remove", "tour-2", "t"), ["tour-2", "tour-1"]),
        (("resume", ""), ["tour-2"]),
        (("compare", "tour-1", "tour"), ["tour-2", "tour-1"]),
        (("compare", "do"), ["docker"]),
        (("history", "t"), ["tour"]),
        (("show", "tour-1", "--platform", "l"), ["lxc"]),
        (("explain", "--platform", "qemu"), ["qemu-tcg"]),
        (("show", "--tri"), ["--trials"]),
    ],
)
def test_names_of_the_store_are_offered(words, expected):
    assert offered(*words) == expected


def test_names_that_ship_are_offered():
    assert offered("shell", "") == offered("run", "tour", "-p", "") == names()
    assert offered("platforms", "qe") == [
        *(name for name in names() if name.startswith("qe")),
        "qemu",
    ]
    assert set(drivers()) <= set(offered("platforms", ""))
    assert offered("run", "") == list(shipped())


def test_the_scales_and_protocols_of_the_study_are_offered():
    assert offered("run", "urschei2007", "--scale", "") == ["short", "quick", "tiny"]
    assert offered("run", "urschei2007", "--protocol", "") == ["paper"]
    assert offered("run", "tour", "--scale", "") == offered("run", "--scale", "") == []


def test_files_are_offered_where_no_study_begins_so():
    found = ShellComplete(group, {}, "vtax", COMPLETE_VARIABLE).get_completions(["run"], "./my")
    assert [(item.type, item.value) for item in found] == [("file", "./my")]


@pytest.mark.slow
def test_a_real_bash_completes_with_the_script_it_is_given():
    script = (
        'eval "$(_VTAX_COMPLETE=bash_source "$1")"; COMP_WORDS=("$1" show tour-1 --platform d); COMP_CWORD=4; '
        '_vtax_completion "$1"; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("docker\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell):
    environment = {**os.environ, COMPLETE_VARIABLE: f"{shell}_source"}
    done = subprocess.run(
        [PROGRAM], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "_VTAX_COMPLETE" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["gone", "garbage", "server"])
def test_a_store_that_cannot_be_read_offers_nothing_and_says_nothing(damage, home, use_store):
    file = home.root / "store.sqlite"
    if damage == "gone":
        file.unlink()
    elif damage == "garbage":
        file.write_bytes(b"no database" * 999)
    else:
        use_store("postgresql://nobody@nowhere/x")
    done = completion_process("vtax resume ")
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_an_unknown_shell_is_no_bug(home):
    done = completion_process("vtax ", "tcsh")
    assert "bug" not in done.stderr
    assert not (home.root / "bugs").exists()


def test_a_glance_leaves_no_file_and_reads_a_url_as_well(home, tmp_path):
    before = sorted(home.root.iterdir())
    odd = tmp_path / "a b?#%.sqlite"
    odd.write_bytes((home.root / "store.sqlite").read_bytes())
    assert (
        Glance(odd).run_names()
        == Glance(f"sqlite:///{home.root}/store.sqlite").run_names()
        == ["tour-2", "tour-1"]
    )
    assert Glance(odd).platform_names("nothing-1") == []
    assert sorted(home.root.iterdir()) == before
