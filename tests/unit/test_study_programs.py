"""`[[program]]`: what a study may declare, and how what it may not is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vtax.cli.main import group
from vtax.errors import BadInput
from vtax.runner.consent import require_consent
from vtax.runner.plan import host_programs
from vtax.study import limits
from vtax.study.load import load, validate
from vtax.study.model import Study
from vtax.study.programs import files_beside, filled

TIME = {"name": "time", "unit": "s", "better": "lower", "pattern": "([0-9]+) s"}
PROGRAM: dict[str, Any] = {
    "name": "own",
    "argv": {"guest": ["tool", "--size={size}", "{{}}"]},
    "parameters": {"size": 3},
    "version": ["tool", "--version"],
    "metric": [TIME],
}
SERVED = {
    "argv": {"client": ["tool", "{peer_address}", "{port}"], "server": ["tool", "{port}"]},
    "parameters": {},
    "port": 7000,
}


def study(**changes: Any) -> dict[str, Any]:
    program = {key: value for key, value in {**PROGRAM, **changes}.items() if value is not None}
    return {
        "name": "s",
        "platforms": ["native"],
        "program": [program],
        "benchmark": [{"name": "own"}],
    }


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as caught:
        validate(data, "test")
    return str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        SERVED,
        {"timeout": "30s"},
        {"files": ["/x/f"], "argv": {"guest": ["{files}/f", "{size}"]}},
    ],
)
def test_a_program_is_accepted(changes):
    assert validate(study(**changes), "test").program[0].name == "own"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"argv": {"guest": ["tool", "{sise}", "{size}"]}}, "did you mean size?"),
        ({"argv": {"guest": ["tool"]}}, "no argument holds the parameter size"),
        ({"argv": {"guest": ["tool", "{size"]}}, "write {{ and }} for braces"),
        ({"argv": {"guest": ["tool", "{size!r}"]}}, "no name in braces"),
        ({"argv": {"guest": ["tool", "{size.real}"]}}, "no name in braces"),
        ({"argv": {"guest": ["{size}"]}}, "there is no parameter 'size'"),
        ({"argv": {"guest": []}}, "a list of 1 to 256 entries"),
        ({"argv": {"client": ["tool", "{size}"]}}, "guest alone, or client and server"),
        (
            {"argv": {"guest": ["tool", "{size}", "{peer_address}"]}},
            "there is no parameter 'peer_address'",
        ),
        ({**SERVED, "port": None}, "the program has no port"),
        ({"port": 7000}, "this program has none"),
        ({"version": None}, "version is needed"),
        ({"version": ["tool", "{size}"]}, "holds no braces"),
        ({"files": ["/x/f"]}, "no argument holds {files}"),
        ({"files": ["/x/f", "/y/f"]}, "is the name of another file already"),
        ({"parameters": {"size": 3, "vcpus": 1}}, "a name that is taken"),
        ({"parameters": {"size": 3, "json": 1}}, "a name that is taken"),
        ({"parameters": {"size": 3, "Big": 1}}, "lower-case letters"),
        ({"timeout": "2s"}, "before its expected duration"),
        ({"expected_duration": "700s"}, "the timeout of [design] (600 s)"),
        ({"metric": []}, "metric"),
        ({"metric": [TIME, TIME]}, "two metrics 'time'"),
        ({"metric": [{**TIME, "pattern": "(a)(b)"}]}, "2 groups; it needs one"),
        ({"metric": [{**TIME, "pattern": "(("}]}, "no regular expression"),
        ({"metric": [{**TIME, "pattern": "(" * 400 + ")" * 400}]}, "pattern"),
        (
            {"metric": [{**TIME, "pattern": "(a)" + "b" * limits.LONGEST_PATTERN}]},
            "at most 500 characters",
        ),
        ({"metric": [{**TIME, "pointer": "/a"}]}, "one of the three"),
        ({"metric": [{**TIME, "pattern": None, "pointer": "a"}]}, "begins with '/'"),
        ({"metric": [{**TIME, "better": "hi"}]}, "'higher' or 'lower'"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(changes, expected):
    printed = refusal(study(**changes))
    assert expected in printed
    assert "[[program]] number 1 (own), key" in printed


def test_problems_of_several_tables_are_shown_at_once():
    printed = refusal(study(metric=[{**TIME, "pattern": "(("}, {**TIME, "unit": ""}]))
    assert all(each in printed for each in ("metric number 1, pattern", "metric number 2, unit"))


def test_an_argument_is_one_argument_whatever_a_parameter_holds():
    assert filled("--x={a}", {"a": "b c; $(d) {a}"}) == "--x=b c; $(d) {a}"
    assert filled("{{{a}}}", {"a": True}) == "{true}"
    assert filled("{a}", {"a": 0.1}) == "0.1"


def test_the_schema_has_programs():
    properties = Study.model_json_schema()["$defs"]["ProgramTable"]["properties"]
    assert {
        "argv",
        "files",
        "version",
        "metric",
        "expected_duration",
        "timeout",
    } <= properties.keys()


def written(directory: Path, more: str = "") -> str:
    path = directory / "own.toml"
    path.write_text(
        'name = "s"\nplatforms = ["native"]\n[[program]]\nname = "own"\nargv.guest = ["{files}/f", "{size}"]\n'
        'parameters = { size = 1 }\nfiles = ["f"]\n'
        'metric = [{ name = "time", unit = "s", better = "lower", pattern = "(.+)" }]\n'
        '[[benchmark]]\nname = "own"\nfactors = { size = [1, 2] }\n' + more
    )
    return str(path)


def dry_run(path: str) -> None:
    group.main(args=["run", path, "--dry-run"], standalone_mode=False)


@pytest.mark.usefixtures("unmade_home", "ordinary_user")
def test_a_dry_run_shows_the_program_and_its_files(tmp_path, capsys):
    (tmp_path / "f").write_text("#!/bin/sh\n")
    dry_run(written(tmp_path))
    printed = capsys.readouterr().out
    assert "runs as root of this host: program own" in printed
    assert f"files: {tmp_path}/f (sha256 " in printed


ELSEWHERE = ("../secret", "/etc/shadow", "down/../../secret", "link", "out/secret", "loop")
OUTSIDE = "not in the directory of the study"


@pytest.fixture
def surrounded(tmp_path) -> Path:
    """The directory of a study, beside a secret, with links that lead to it, and one that leads to itself."""
    (tmp_path / "secret").write_text("root:*:")
    (directory := tmp_path / "study").mkdir()
    (directory / "down").mkdir()
    (directory / "link").symlink_to(tmp_path / "secret")
    (directory / "out").symlink_to(tmp_path)
    (directory / "loop").symlink_to("/proc/self/root")
    return directory


@pytest.mark.parametrize("named", ELSEWHERE)
def test_a_file_that_is_not_in_the_studys_directory_is_read_by_nothing(surrounded, named):
    path = Path(written(surrounded))
    path.write_text(path.read_text().replace('files = ["f"]', f'files = ["{named}"]'))
    with pytest.raises(BadInput, match=OUTSIDE) as refused:
        load(str(path))
    assert "[[program]] number 1, key files" in refused.value.where
    with pytest.raises(BadInput, match=OUTSIDE):
        files_beside(path)


def test_a_link_within_the_studys_directory_is_a_file_of_it(surrounded):
    (surrounded / "tool-1.2").write_text("#!/bin/sh\n")
    (surrounded / "f").symlink_to("tool-1.2")
    path = written(surrounded)
    (program,) = host_programs(load(path))
    assert f"files: {surrounded}/tool-1.2 (sha256 " in str(program)
    with pytest.raises(BadInput, match="program own"):
        require_consent([program], (), path)
    assert files_beside(Path(path)) == ("f",)


@pytest.mark.usefixtures("unmade_home", "ordinary_user")
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda file: None, "cannot be read: No such file"),
        (lambda file: file.mkdir(), "is a directory, not a file of a program"),
        (os.mkfifo, "is a named pipe, not a file of a program"),
        (
            lambda file: file.write_bytes(b"x" * (limits.MAX_FILES_BYTES + 1)),
            "at most 32 MiB",
        ),
        (lambda file: (file.write_text("x"), file.chmod(0o666)), "other users may change"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path, make, expected):
    make(tmp_path / "f")
    with pytest.raises(BadInput, match="files") as caught:
        dry_run(written(tmp_path))
    assert expected in str(caught.value)


@pytest.mark.usefixtures("unmade_home", "ordinary_user")
def test_a_program_that_is_not_used_or_has_a_taken_name_is_refused(tmp_path, golden):
    (tmp_path / "f").write_text("x")
    metric = 'metric = [{ name = "a", unit = "s", better = "lower", pointer = "/a" }]\n'
    more = f'[[program]]\nname = "stream"\nargv.guest = ["x"]\nversion = ["x"]\n{metric}'
    with pytest.raises(BadInput) as caught:
        dry_run(written(tmp_path, more))
    golden(str(caught.value))


def test_consent_is_to_commands_values_and_what_files_hold(tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    path = written(tmp_path)
    (first,) = host_programs(load(path))
    assert host_programs(load(path)) == (first,)
    file.write_text("two")
    (second,) = host_programs(load(path))
    Path(path).write_text(Path(path).read_text().replace("[1, 2]", "[1, 3]"))
    (third,) = host_programs(load(path))
    assert len({first.identity, second.identity, third.identity}) == 3


def test_benchmarks_explains_the_programs_of_a_study(tmp_path, capsys):
    (tmp_path / "f").write_text("x")
    group.main(args=["benchmarks", written(tmp_path)], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "size" in printed
    assert "time *" in printed
