"""`vtax new`: every question makes a study that parses and dry-runs; answers, refusals, what the time will see."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from a_run import begin, fill, trial
from click.testing import CliRunner, Result
from command_line import refusals

from vtax.cli.main import group
from vtax.counters.host import machine_id
from vtax.errors import BadInput
from vtax.stats.planning import smallest_overhead
from vtax.store.store import Store
from vtax.study.drafts import QUESTIONS, TABLES
from vtax.study.load import load

COMMON = ("--platforms", "podman,lxc", "--time", "2h")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, ordinary_user: None, unmade_home: None, monkeypatch) -> Iterator[Path]:
    """A directory of its own, without root, so that nothing is probed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts are answered at a terminal."""
    monkeypatch.setattr("vtax.cli.new.is_terminal", lambda: True)


def written(*arguments: str) -> Any:
    """What `vtax new mine --json` prints, in place of a file that is there."""
    Path("mine.toml").unlink(missing_ok=True)
    return json.loads(invoked(*arguments).output)


def invoked(*arguments: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(group, ["new", *arguments], input=answers)


def refused(*arguments: str) -> str:
    error = invoked(*arguments).exception
    assert isinstance(error, BadInput), error
    assert error.hint
    assert not Path("mine.toml").exists()
    return str(error)


def made(*arguments: str) -> dict[str, Any]:
    """The study that was written, after a dry run of it."""
    found = invoked("mine", *arguments)
    assert found.exit_code == 0, found.exception
    planned = CliRunner().invoke(group, ["run", "mine.toml", "--dry-run"])
    assert planned.exit_code == 0, planned.exception
    return tomllib.loads(Path("mine.toml").read_text())


@pytest.mark.parametrize(
    "question", [name for name in QUESTIONS if name not in ("difference", "program")]
)
def test_every_question_makes_a_study_that_dry_runs(question):
    study = made("--question", question, *COMMON)
    assert study["platforms"] == ["native", "podman", "lxc"]
    assert study["design"]["budget"] == "2h"
    assert study["design"]["margin"] == 0.02


@pytest.mark.parametrize("resource", list(TABLES))
@pytest.mark.parametrize("question", ["compare", "difference"])
def test_every_resource_makes_a_study_that_dry_runs(question, resource):
    more = ("--difference", "8%") if question == "difference" else ()
    study = made("--question", question, "--resource", resource, *more, *COMMON)
    assert len(study["benchmark"]) == 1


@pytest.mark.parametrize("resource", ["cpu", "memory", "disk"])
def test_density_places_guests(resource):
    study = made("--question", "density", "--resource", resource, *COMMON)
    assert study["benchmark"][0]["guests"] == [1, 2, 4]


def test_a_difference_runs_until_its_verdict():
    study = made("--question", "difference", "--difference", "3 %", *COMMON)
    assert study["question"] == "Does a platform differ from native by 3 % or more?"
    assert study["design"]["stop"] == "verdict"
    assert study["design"]["margin"] == 0.015
    assert 30 < study["design"]["max_blocks"] <= 200


def test_a_program_of_ones_own_with_its_files():
    for name in ("zip.sh", "data", "sh"):
        Path(name).write_text("#!/bin/sh\ntrue\n")
    line = "sh ./zip.sh '{9} \"x\"' data ./zip.sh"
    study = made("--question", "program", "--command", line, *COMMON)
    (program,) = study["program"]
    guest = ["sh", "{files}/zip.sh", '{{9}} "x"', "{files}/data", "{files}/zip.sh"]
    assert program["argv"] == {"guest": guest}
    assert program["files"] == ["./zip.sh", "data"]
    assert [program["name"]] == [table["name"] for table in study["benchmark"]] == ["mine"]


def test_a_program_is_not_called_as_a_benchmark_of_vtax():
    found = invoked("dd", "--question", "program", "--command", "true", *COMMON)
    assert found.exit_code == 0, found.exception
    assert tomllib.loads(Path("dd.toml").read_text())["program"][0]["name"] == "dd-program"


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (("program", "--command", "true"), "sudo vtax run mine.toml --trust"),
        (("network",), "sudo vtax run mine.toml"),
    ],
)
def test_the_command_is_the_one_that_runs(question, command):
    found = invoked("mine", "--question", *question, *COMMON)
    assert found.output.splitlines()[-1] == f"run it: {command}"


def test_a_program_of_the_image_prints_its_hash_as_version():
    study = made("--question", "program", "--command", "sha256sum /usr/bin/python3", *COMMON)
    assert study["program"][0]["version"][-1] == "sha256sum"


def test_the_answers_of_a_terminal_make_it(terminal):
    found = invoked("mine", answers="difference\ncpu, network\n10%\npodman, docker\n90min\n")
    assert found.exit_code == 0, found.exception
    study = tomllib.loads(Path("mine.toml").read_text())
    assert study["platforms"] == ["native", "podman", "docker"]
    assert [table["name"] for table in study["benchmark"]] == ["sysbench-cpu", "netperf"]
    assert study["design"]["budget"] == "90min"
    assert study["design"]["margin"] == 0.02
    assert "program: how much longer does a program of mine take?" in found.stderr


def test_a_refused_answer_is_followed_by_the_same_prompt(terminal):
    found = invoked("mine.toml", answers="density\ndisks\ncpu\ndokcer\npodman\nsoon\n3s\n90min\n")
    assert found.exit_code == 0, (found.exception, found.stderr)
    assert tomllib.loads(Path("mine.toml").read_text())["design"]["budget"] == "90min"
    for error in (
        "density measures no disks",
        "did you mean docker",
        "soon",
        "3s fits 0 blocks",
    ):
        assert error in found.stderr
    found = invoked("zip", "--question", "program", *COMMON, answers="./zip.sh 9\ntrue\n")
    assert found.exit_code == 0, (found.exception, found.stderr)
    assert "./zip.sh is no file here" in found.stderr


def test_what_a_run_of_this_host_could_not_test_is_a_note(place):
    (place / "home").mkdir()
    with Store.open(f"sqlite:///{place}/home/store.sqlite") as store:
        fill(begin(store, name="tour-1", host={"machine_id": machine_id()}))
    found = invoked(
        "mine",
        "--question",
        "compare",
        "--platforms",
        "kvm-virtio",
        "--resource",
        "cpu",
        "--time",
        "9h",
    )
    assert "not tested in tour-1: kvm-virtio: guests are started as root" in found.output
    assert "run tour-1, of docker, lxc, qemu-tcg" in " ".join(found.output.split())


def test_what_starts_here_is_offered(monkeypatch, terminal):
    here = ["native", "lxc", "nspawn", "qemu-tcg"]
    monkeypatch.setattr("vtax.cli.new.startable", lambda: (here, ""))
    found = invoked("mine", "--question", "network", "--time", "2h", answers="\n")
    assert "These start here: native, lxc, nspawn, qemu-tcg" in found.stderr
    assert tomllib.loads(Path("mine.toml").read_text())["platforms"] == ["native", "lxc", "nspawn"]


def test_without_a_terminal_those_that_start_here_are_taken(monkeypatch):
    asked = ("--question", "network", "--time", "2h")
    assert "--platforms is missing, and probing needs root" in refused("mine", *asked)
    monkeypatch.setattr("vtax.cli.new.startable", lambda: (["native", "qemu-tcg"], ""))
    assert "none of the study tour starts here" in refused("mine", *asked)
    monkeypatch.setattr("vtax.cli.new.startable", lambda: (["native", "lxc", "qemu-tcg"], ""))
    assert made(*asked)["platforms"] == ["native", "lxc"]


def test_a_service_is_measured_by_servers_as_in_the_shipped_study(monkeypatch):
    monkeypatch.setattr("vtax.cli.new.startable", lambda: (["native", "lxc"], ""))
    asked = ("--question", "service", "--platforms", "lxc", "--time", "2h")
    assert "service measures no cpu" in refused("other", *asked, "--resource", "cpu")
    invoked("some", *asked, "--resource", "nginx,redis")
    some = tomllib.loads(Path("some.toml").read_text())["benchmark"]
    assert [table["name"] for table in some] == ["nginx", "redis"]
    invoked("mine", *asked)
    tables = tomllib.loads(Path("mine.toml").read_text())["benchmark"]
    shipped = [each.model_dump(exclude_unset=True) for each in load("service").study.benchmark]
    assert [
        {**each, "trial_time": 0.2} if "trial_time" in each else each for each in tables
    ] == shipped
    assert [each["name"] for each in shipped] == ["nginx", "redis", "pgbench", "sockperf"]


def test_wrong_options_are_refused_and_nothing_is_written(capsys, golden):
    compare, program, difference = (
        f"--question {each}" for each in ("compare", "program", "difference")
    )
    wrong = (
        f"{compare} --time 8d",
        f"{program} --command './zip.sh 9'",
        f"{program} --command 'cat a | wc'",
        difference,
        program,
        f"{program} --command ' '",
        f"""{program} --command "a 'b" """.strip(),
        "--question network --resource cpu",
        "--question density --resource network",
        f"{compare} --time 3s",
        f"{compare} --time soon",
        f"{compare} --time 0s",
        f"{compare} --platforms dokcer",
        "--question network --platforms native",
        "--question network --platforms ssh:foo",
    )
    golden(refusals(capsys, f"new mine {' '.join(COMMON)}", *wrong))
    golden(refusals(capsys, "new", "mine", f"mine {compare} --platforms lxc"), "without a terminal")
    names = (
        f"{name} --question network {' '.join(COMMON)}" for name in ("Mine!", "../evil", "tour")
    )
    golden(refusals(capsys, "new", *names), "names")
    assert not list(Path().glob("*.toml"))


def test_a_file_is_not_replaced():
    Path("mine.toml").write_text("mine")
    assert "mine.toml is there already" in str(
        invoked("mine", "--question", "network", *COMMON).exception
    )
    assert Path("mine.toml").read_text() == "mine"


def test_the_noise_is_that_of_a_run_of_this_host_else_assumed(place):
    arguments = (
        "mine",
        "--json",
        "--question",
        "compare",
        "--resource",
        "cpu",
        "--resource",
        "disk",
        *COMMON,
    )
    assumed = written(*arguments)
    assert {each["noise"] for each in assumed["sees"]} == {0.05}
    (place / "home").mkdir(exist_ok=True)
    with Store.open(f"sqlite:///{place}/home/store.sqlite") as store:
        other = {"machine_id": "another"}
        fill(begin(store, name="tour-1", host={"machine_id": machine_id()}))
        fill(begin(store, name="tour-2", host=other))
    found = written(*arguments)
    cpu, disk = found["sees"]
    assert (cpu["label"], cpu["noise_from"]) == ("sysbench-cpu", "run tour-1, of lxc")
    assert 0.001 < cpu["noise"] < 0.01  # log-normal, 0.4 % on either side, of two trials
    seen = smallest_overhead(cpu["noise"], found["blocks"])
    assert cpu["difference"] == pytest.approx(seen)
    assert cpu["shows_equality"] is True
    assert disk["noise_from"].startswith("assumed")
    assert found["blocks"] == math.floor(7200 / found["block_s"])


def test_the_time_of_a_block_is_that_of_the_same_benchmarks_in_runs_of_this_host(
    place, monkeypatch
):
    """Newer runs first, of this host alone; a benchmark that they lack leaves the rough estimate."""
    arguments = (
        "mine",
        "--json",
        "--question",
        "compare",
        "--platforms",
        "docker,lxc",
        "--time",
        "2h",
    )
    one_trial, found = trial, []
    (place / "home").mkdir()
    with Store.open(f"sqlite:///{place}/home/store.sqlite") as store:
        for name, machine, seconds in (
            ("tour-1", "another", 9.0),
            ("tour-2", "", 1.0),
            ("tour-3", "", 4.0),
        ):
            lasting = partial(one_trial, outside_s=seconds)
            monkeypatch.setattr("a_run.trial", lasting)
            host = {"machine_id": machine or machine_id()}
            fill(begin(store, name=name, host=host), blocks=3)
            found.append(written(*arguments, "--resource", "cpu"))
    rough, quick, slow = found
    assert rough["block_s_from"] == "a rough estimate"
    assert [each["block_s_from"].split()[-1] for each in (quick, slow)] == ["tour-2", "tour-3"]
    of_drafted = 0.2 / 1.1  # expected of a trial of 0.1 s, over that of the stored one's second
    assert slow["block_s"] - quick["block_s"] == pytest.approx(
        3 * of_drafted * (4.0 - 1.0), rel=0.2
    )
    planned = json.loads(
        CliRunner().invoke(group, ["run", "mine.toml", "--dry-run", "--json"]).stdout
    )
    assert (planned["block_s"], planned["block_s_from"]) == (
        slow["block_s"],
        slow["block_s_from"].removeprefix("estimated from "),
    )
    disk = written(*arguments, "--resource", "cpu", "--resource", "disk")
    assert disk["block_s_from"] == "a rough estimate"


def test_a_time_in_which_no_verdict_is_possible_is_refused():
    few = refused("mine", "--question", "compare", "--platforms", "lxc", "--time", "12s")
    found = re.search(r"12s fits \d blocks? of about (\d+) s, and a verdict needs 5", few)
    assert found, few
    made("--question", "compare", "--platforms", "lxc", "--time", f"{5 * int(found[1])}s")
