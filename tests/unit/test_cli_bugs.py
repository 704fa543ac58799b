"""A bug of vtax: no traceback, everything cleaned up, a report file without passwords, exit status 70."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import ended_by

import vtax
from vtax.cli import bugs
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree

PASSWORD = "s3cret"


def reports(home: Home) -> list[Path]:
    return list((home.root / "bugs").iterdir())


def endless() -> None:
    endless()


def fail(error: BaseException) -> None:
    raise error


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even its message")


class Panic(BaseException):
    """What an extension raises that is no Exception."""


@pytest.mark.parametrize(
    ("work", "printed"),
    [
        (
            lambda: fail(ZeroDivisionError("by\x1b[2J\nnothing")),
            "ZeroDivisionError: by�[2J nothing",
        ),
        (lambda: fail(KeyError("eth7")), "KeyError: 'eth7'"),
        (lambda: fail(MemoryError()), "MemoryError: "),
        (endless, "RecursionError: maximum recursion depth exceeded"),
        (lambda: fail(Unprintable()), "Unprintable: (it cannot be printed)"),
        (lambda: fail(Panic("of an extension")), "Panic: of an extension"),
        (
            lambda: fail(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates")),
            "UnicodeEncodeError: ",
        ),
        (lambda: fail(ImportError("no such module")), "ImportError: no such module"),
        (lambda: fail(FileNotFoundError(2, "No such file", "/x")), "FileNotFoundError: "),
        (lambda: fail(ValueError("x" * 10**7)), "ValueError: xxx"),
    ],
)
def test_a_bug_cleans_up_and_leaves_a_report(private_home, monkeypatch, capsys, work, printed):
    made = private_home.root / "made"

    def command() -> None:
        with Journal(private_home.journal) as journal:
            journal.register(Tree(str(made)))
            made.mkdir()
            work()

    assert ended_by(monkeypatch, command) == 70
    assert not made.exists()
    assert list(private_home.journal.iterdir()) == []
    (report,) = reports(private_home)
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.startswith(f"vtax: a bug in vtax: {printed}")
    assert len(first) < 400
    assert second == f"  where: {report}"
    assert "report the bug" in third
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert stat.S_IMODE(report.parent.stat().st_mode) == 0o700
    text = report.read_text(encoding="utf-8")
    assert f"vtax {vtax.__version__}, " in text
    assert "Python 3." in text
    assert "in command" in text
    assert "\x1b" not in text
    assert len(text) <= bugs.MAX_REPORT_CHARS + 100


@pytest.mark.parametrize(
    "secret",
    [
        f"postgresql://user:{PASSWORD}@host/db",
        f"postgresql+psycopg://user:{PASSWORD}/@x@host",
        f"postgresql://host/db?user=u&password={PASSWORD}&x=1",
        f"DB_PASSWORD={PASSWORD}",
        f"{{'api_key': '{PASSWORD}'}}",
    ],
)
def test_a_report_holds_no_password(private_home, monkeypatch, capsys, secret, use_store):
    use_store(secret)
    monkeypatch.setattr("sys.argv", ["vtax", "list", secret])
    assert ended_by(monkeypatch, lambda: fail(ValueError(f"cannot open {secret}"))) == 70
    (report,) = reports(private_home)
    for text in (report.read_text(encoding="utf-8"), capsys.readouterr().err):
        assert PASSWORD not in text
        assert "***" in text


def test_a_home_of_others_gets_no_report(private_home, monkeypatch, capsys, tmp_path, temporary_in):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (private_home.root / "bugs").symlink_to(elsewhere)
    temporary_in(tmp_path)
    assert ended_by(monkeypatch, lambda: fail(ValueError())) == 70
    assert list(elsewhere.iterdir()) == []
    (report,) = tmp_path.glob("vtax-bug-*.txt")
    assert f"where: {report}" in capsys.readouterr().err
    assert stat.S_IMODE(report.stat().st_mode) == 0o600


def test_no_home_is_made_for_a_report(unmade_home, monkeypatch, tmp_path, temporary_in):
    temporary_in(tmp_path)
    assert ended_by(monkeypatch, lambda: fail(ValueError())) == 70
    assert not unmade_home.exists()
    assert len(list(tmp_path.glob("vtax-bug-*.txt"))) == 1


def test_a_report_that_cannot_be_written_is_no_second_bug(monkeypatch, capsys, unmade_home):
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: fail(OSError(28, "full")))
    assert ended_by(monkeypatch, lambda: fail(ValueError("this"))) == 70
    printed = capsys.readouterr().err
    assert (
        printed
        == "vtax: a bug in vtax: ValueError: this (the bug report could not be written: OSError)\n"
    )


def test_what_fails_in_a_thread_is_a_bug_too(private_home, monkeypatch, capsys):
    def work() -> None:
        thread = threading.Thread(target=fail, args=(KeyError("in a thread"),))
        thread.start()
        thread.join()

    assert ended_by(monkeypatch, work) == 70
    assert "Traceback" not in capsys.readouterr().err
    assert "in a thread" in reports(private_home)[0].read_text(encoding="utf-8")


def test_what_fails_while_it_is_thrown_away_is_a_bug_too(private_home, monkeypatch, capsys):
    class Fragile:
        def __del__(self) -> None:
            raise KeyError("thrown away")

    assert ended_by(monkeypatch, lambda: Fragile() and None) == 70
    assert "Traceback" not in capsys.readouterr().err
    assert "thrown away" in reports(private_home)[0].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("error", "printed"),
    [
        (
            OSError(28, "No space left on device", "/srv/x"),
            "No space left on device\n  where: /srv/x\n  hint: free",
        ),
        (
            PermissionError(13, "Permission denied", "/srv/x"),
            "Permission denied\n  where: /srv/x\n  hint: run it",
        ),
        (OSError(24, "Too many open files"), "Too many open files\n  hint: stop other programs"),
    ],
)
def test_what_the_host_refuses_is_no_bug(private_home, monkeypatch, capsys, error, printed):
    assert ended_by(monkeypatch, lambda: fail(error)) == 1
    assert capsys.readouterr().err.startswith(f"vtax: {printed}")
    assert not (private_home.root / "bugs").exists()


def test_a_command_whose_module_is_broken_is_a_bug(private_home):
    """In a process of its own, as a person starts it."""
    script = (
        "import sys; sys.argv = ['vtax', 'list']; sys.modules['vtax.store.store'] = None\n"
        "from vtax.cli.main import main\nmain()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(vtax.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 70
    assert done.stdout == ""
    assert re.match(
        r"vtax: a bug in vtax: ModuleNotFoundError: .*\n  where: .*\n  hint: .*\n$", done.stderr
    )
    assert "Traceback" in reports(private_home)[0].read_text(encoding="utf-8")
