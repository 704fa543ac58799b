"""The command line: help at once, plain errors with the right exit status, JSON beside every table."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import cast

import click
import pytest
from click.testing import CliRunner
from command_line import ended, output_of

from vtax.benchmarks.registry import benchmarks
from vtax.cli.commands import COMMANDS
from vtax.cli.main import group
from vtax.cli.measure import _tuned_host, measure
from vtax.cli.output import with_program_path
from vtax.errors import BadInput, Busy, PlatformError, RunInterrupted, StoreError, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.lock import measuring_lock, measuring_process
from vtax.messages import Note
from vtax.runner.plan import Plan
from vtax.store.store import RunHandle
from vtax.study.load import load, shipped

pytestmark = pytest.mark.usefixtures("unmade_home")


def test_help_names_every_command_and_loads_none(golden):
    script = "import sys; sys.argv = ['vtax', '--help']\nfrom vtax.cli.main import main\n" + (
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'sqlalchemy', 'pydantic', 'rich', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    golden(done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_exists_and_explains_itself(name):
    command = group.get_command(click.Context(group), name)
    printed = " ".join(output_of(name, "--help").split())
    assert re.match(rf"Usage: \w+ {name} ", printed)
    options = [
        each for each in command.params if isinstance(each, click.Option) and not each.hidden
    ]
    explained = [each.help for each in options]
    explained += [
        each.get_short_help_str(300)
        for each in getattr(command, "commands", {}).values()
        if not each.hidden
    ]
    for text in (command.help, *explained):
        assert text
        assert " ".join(text.partition("\n\n")[0].split()).partition(".")[0] in printed


def test_the_help_of_a_command_is_laid_out(golden):
    golden(output_of("run", "--help"))


def test_the_help_names_every_scale_that_ships():
    scales = {scale for name in shipped() for scale in load(name).study.scale}
    words = " ".join(output_of("run", "--help").split())
    (named,) = re.findall(r"STUDY declares: (.+?) of shipped ones", words)
    assert set(re.findall(r"\w+", named)) - {"or"} == scales


def test_the_options_of_all_commands_are_few():
    """A help of a command does not list its own option, which its reader just used."""
    helps = [output_of(name, "--help") for name in COMMANDS]
    for name in COMMANDS:
        inner = getattr(group.get_command(click.Context(group), name), "commands", {})
        helps += [output_of(name, each, "--help") for each in inner]
    listed = [line for each in helps for line in each.splitlines() if re.match(r"  -", line)]
    assert len(listed) <= 197
    assert not [line for line in listed if "--help" in line]
    assert "--help" in output_of("--help")


@pytest.mark.parametrize("command", [["show"], ["report"], ["compare", "a", "b"]])
def test_looking_where_nothing_ever_ran_makes_nothing(command, capsys, monkeypatch, unmade_home):
    monkeypatch.delenv("VTAX_HOME")
    monkeypatch.setattr("vtax.host.home.DEFAULT_HOME", unmade_home)
    status, printed = ended(capsys, *command)
    assert status == 2
    assert "no run yet" in printed
    assert "sudo vtax run tour" in printed
    assert json.loads(output_of("list", "--json")) == []
    assert output_of("list") == "no runs yet; start one with: sudo vtax run tour\n"
    assert not Home.from_environment().root.exists()


def test_a_variant_of_a_platform_is_reported_by_its_options_and_not_by_the_same_words_again():
    lines = (
        CliRunner()
        .invoke(group, ["platforms", "--no-probe"], env={"COLUMNS": "140"})
        .stdout.splitlines()
    )
    notes = {line.split()[0]: line.split("?", 1)[1].strip() for line in lines if "?" in line}
    assert (
        notes["native"]
        == "the image's files on the host's kernel, same limits, nothing else isolated"
    )
    assert notes["docker"] == "Docker container: default options"
    assert notes["lxc-unprivileged"] == "userns=true, no_new_privileges=true"
    assert notes["kvm-virtio-vhost"] == "accel=kvm, vhost=on"
    assert notes["qemu-tcg"] == "default options"
    assert notes["qemu-tcg-virtio"] == "same as qemu-tcg"
    assert notes["kvm-emulated"] == "same as kvm-e1000"


@pytest.mark.parametrize("name", benchmarks())
def test_a_benchmark_says_what_it_measures_what_not_its_trap_and_its_packages(name):
    printed = " ".join(output_of("benchmarks", name).split())
    (plain,) = json.loads(output_of("benchmarks", name, "--json"))
    about = " ".join(plain["about"].split())
    assert about in printed
    assert "does not measure" in about
    assert "trap" in about
    if plain["packages"]:
        assert f"Debian packages: {', '.join(plain['packages'])}" in printed


@pytest.mark.parametrize("name", benchmarks())
def test_a_benchmark_lists_what_its_parameters_may_hold(name):
    printed = output_of("benchmarks", name)
    (plain,) = json.loads(output_of("benchmarks", name, "--json"))
    for each in plain["parameters"]:
        assert re.search(rf"^{each['name']} ", printed, re.M)
        assert each["allowed"]
        for choice in each["choices"]:
            assert str(choice) in printed


@pytest.mark.parametrize(
    ("program", "on_path", "printed"),
    [
        (".venv/bin/vtax", False, "run it: sudo .venv/bin/vtax resume tour-1"),
        (".venv/bin/vtax", True, "run it: sudo vtax resume tour-1"),
        ("/usr/lib/python3/vtax/__main__.py", False, "run it: sudo vtax resume tour-1"),
    ],
)
def test_a_command_that_is_reported_can_be_copied(monkeypatch, program, on_path, printed):
    monkeypatch.setattr("sys.argv", [program, "list"])
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/vtax" if on_path else None)
    assert with_program_path("run it: sudo vtax resume tour-1") == printed
    for sentence in ("vtax: /srv/vtax is full", "the home of vtax cannot be made"):
        assert with_program_path(sentence) == sentence


def test_a_line_that_nobody_reads_is_no_error():
    script = (
        "import os; from vtax.cli.output import notify\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 2)\n"
        "notify('one'); notify('two'); print('done')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "done\n"


def test_errors_have_the_exit_status_of_their_kind(monkeypatch, capsys):
    for error, status in (
        (BadInput("bad"), 2),
        (VtaxError("broken", where="here", hint="mend it"), 1),
        (RunInterrupted("stopped on request (SIGTERM)", signal=signal.SIGTERM), 143),
        (KeyboardInterrupt(), 130),
    ):

        def fail(*_: object, problem: BaseException = error) -> None:
            raise problem

        monkeypatch.setattr(group, "get_command", fail)
        assert ended(capsys, "list")[0] == status


def test_the_error_of_a_prompt_without_an_answer_begins_on_a_line_of_its_own(capsys, monkeypatch):
    def without_an_answer(**_: object) -> None:
        raise click.Abort

    monkeypatch.setattr(group, "main", without_an_answer)
    assert ended(capsys, "new") == (1, "\nvtax: stdin ended before the prompt was answered\n")


def test_a_second_measuring_run_is_refused_with_the_first_ones_name(tmp_path):
    lock = tmp_path / "run.lock"
    refused = pytest.raises(Busy, match=r"tour-1 \(process \d+\) has this host")
    with measuring_lock("tour-1", lock), refused as found, measuring_lock("b", lock):
        pass
    assert found.value.exit_status == os.EX_TEMPFAIL
    with measuring_lock("c", lock):
        pass


def test_a_run_that_measures_is_known_by_its_name_and_home(tmp_path, use_home):
    """Another home may have a run of that name, which `vtax abort` leaves alone."""
    lock, home = tmp_path / "run.lock", Home(tmp_path / "home")
    use_home(home.root)
    with measuring_lock("tour", lock) as rename:
        rename("tour-1")
        assert (
            measuring_process(home, lock) == measuring_process(path=lock) == ("tour-1", os.getpid())
        )
        assert measuring_process(Home(tmp_path / "other"), lock) == ("", None)
    assert measuring_process(home, lock) == ("", None)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (BadInput("the guests differ", where="key must_match"), ""),
        (PlatformError("it never starts"), "sudo vtax resume r-1, after fixing that"),
        (StoreError("the disk is full", hint="make room"), "make room"),
    ],
)
def test_an_error_that_ends_a_run_stays_what_it_is(monkeypatch, error, hint):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("vtax.cli.measure.execute", fail)
    run = cast(RunHandle, SimpleNamespace(name="r-1"))
    with pytest.raises(type(error)) as caught:
        measure(cast(Plan, None), run, Home.from_environment(), tune_host=False)
    printed = caught.value
    assert (printed.what, printed.where, printed.hint) == (
        f"r-1 failed: {error.what}",
        error.where,
        hint,
    )
    assert printed.exit_status == error.exit_status


def test_a_tuned_host_is_put_back_whatever_is_requested_meanwhile(monkeypatch):
    done = []

    @contextmanager
    def tuned(journal: Journal) -> Iterator[list[str]]:
        yield ["swappiness: 60 -> 0"]
        os.kill(os.getpid(), signal.SIGINT)
        done.append("put back")

    monkeypatch.setattr("vtax.doctor.tunables.tuned", tuned)
    run = cast(RunHandle, SimpleNamespace(add_warning=done.append))
    with suppress(KeyboardInterrupt), _tuned_host(run, Home.from_environment().ensure(), True):
        pass
    assert done == [Note("tuned", changes="swappiness: 60 -> 0"), "put back"]
