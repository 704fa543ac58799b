"""What every command says passes two streams: they clean it, bound it, and never wait on standard error."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest
from a_run import begin, cells, fill, put_store, trial
from rich.text import Text

import vtax
from vtax.cli import streams
from vtax.cli.main import main
from vtax.cli.output import print_json, print_table
from vtax.cli.progress import BarProgress
from vtax.cli.streams import StandardError, StandardOutput, standard_streams
from vtax.errors import VtaxError
from vtax.foreign_text import MAX_TEXT_CHARS
from vtax.host.home import Home
from vtax.messages import quoted
from vtax.report.renderers.unbroken import prepared
from vtax.runner.events import EndedTrial, Progress
from vtax.store.store import Store

EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[8m\x9b31m\u202egnp.exe\r"
SHOWN = "�]0;owned��[2J�[8m�31m�gnp.exe�"


def started(*arguments: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    """vtax as a person starts it."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(vtax.__file__).parent.parent),
        **more.pop("env", {}),
    }  # type: ignore[dict-item]
    script = (
        f"import sys; sys.argv = ['vtax', *{arguments!r}]\nfrom vtax.cli.main import main\nmain()"
    )
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run([sys.executable, "-c", script], env=environment, check=False, **given)  # type: ignore[call-overload]


def status_of(*arguments: str) -> object:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return caught.value.code


@pytest.fixture
def evil_run(unmade_home: Path) -> str:
    """A run in the store of this home all texts of which are hostile."""
    put_store(Home.from_environment().ensure().store_file, be_evil)
    return "tour-1"


def be_evil(store: Store) -> None:
    run = begin(
        store, declared={"name": "tour", "title": EVIL, "baseline": "native", "question": EVIL}
    )
    fill(run, blocks=2, trials=1, warmup=0)
    run.add_warning(quoted(EVIL), "c-native")
    run.add_trial(trial(cells()[0], block=2, status="failed", error=EVIL, values={}))
    guest = run.begin_guest("native", 3, "", 1.0)
    run.end_guest(
        guest, ready_s=1.0, clock_offset_s=0.0, facts={"kernel": EVIL}, notes=[EVIL], error=EVIL
    )
    run.finish("failed", EVIL, 2.0)


Redirect = Callable[[str], tuple[Path, Path]]


@pytest.fixture
def redirected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redirect]:
    """Standard output and error in files, in an encoding."""
    opened: list[TextIO] = []

    def redirect(encoding: str) -> tuple[Path, Path]:
        paths = tmp_path / "out", tmp_path / "err"
        for path, name in zip(paths, ("stdout", "stderr"), strict=True):
            opened.append(path.open("w", encoding=encoding))
            monkeypatch.setattr(sys, name, opened[-1])
        return paths

    yield redirect
    for file in opened:
        file.close()


VIEWS = (
    ["show"],
    ["show", "--all"],
    ["show", "--audit", "--all"],
    ["show", "--variance"],
    ["show", "--counters"],
    ["list"],
    ["compare", "native", "docker"],
    ["show", EVIL],
    [EVIL],
    ["run", EVIL],
    ["report", EVIL],
)


@pytest.mark.parametrize("command", VIEWS, ids=lambda command: ascii(" ".join(command)))
@pytest.mark.usefixtures("evil_run")
def test_no_escape_sequence_of_others_reaches_the_terminal(command, capsys):
    assert status_of(*command) in (0, 1, 2)
    printed = "".join(capsys.readouterr())
    assert printed.strip()
    assert not set(printed) & set(EVIL) - set(SHOWN)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
@pytest.mark.usefixtures("evil_run")
def test_json_says_all_of_it_and_no_control_character(encoding, redirected):
    out, _ = redirected(encoding)
    assert status_of("show", "--json") == 0
    printed = out.read_text(encoding)
    assert not set(printed) & set(EVIL) - set(SHOWN)
    assert json.loads(printed)["declared"]["title"] in (EVIL, SHOWN)


def test_json_of_others_keeps_every_character(capsys):
    value = {EVIL + "\ud800": ["\u2028", "\x7f\x00", "°"]}
    print_json(value)
    printed = capsys.readouterr().out
    assert json.loads(printed) == value
    assert "°" in printed
    assert not set(printed) & {"\x7f", "\u2028", "\x9b", "\u202e", "\ud800"}


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-16"])
@pytest.mark.parametrize(
    "command", [("--help",), ("studies",), ("topologies",), ("show",), ("list",), ("show", "°")]
)
@pytest.mark.usefixtures("evil_run")
def test_every_encoding_of_a_terminal_will_do(encoding, command, redirected):
    out, err = redirected(encoding)
    assert status_of(*command) in (0, 2)
    streams.drain(10)
    assert out.read_bytes() or err.read_bytes()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_byte_order_mark_is_written_once(encoding, redirected):
    out, err = redirected(encoding)
    with standard_streams():
        for stream in (sys.stdout, sys.stderr):
            stream.write("one\n")
            stream.write("two\n")
        streams.drain(10)
    assert out.read_bytes() == err.read_bytes() == "one\ntwo\n".encode(encoding)


@pytest.mark.slow
@pytest.mark.usefixtures("evil_run")
def test_a_locale_without_characters_of_ours_will_do():
    done = started("show", env={"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"tour-1: failed: 3 blocks" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("--help",), ("studies",), ("show",), ("show", "--json"), ("list",), ("schema",)]
)
@pytest.mark.usefixtures("evil_run")
def test_an_output_that_is_full_is_an_error_in_words(command, redirected, monkeypatch):
    _, err = redirected("utf-8")
    with Path("/dev/full").open("w") as full:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            assert status_of(*command) == 1
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", full)
            assert status_of(*command) == 0
            assert status_of("show", "nothing-1") == 2
    assert "No space" in err.read_text()
    assert "bug" not in err.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
@pytest.mark.usefixtures("evil_run")
def test_closed_streams_are_no_error(closed):
    redirections = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    script = "import sys; sys.argv = ['vtax', 'show']\nfrom vtax.cli.main import main\nmain()"
    environment = {**os.environ, "PYTHONPATH": str(Path(vtax.__file__).parent.parent)}
    argv = ["/bin/sh", "-c", f'exec "$0" -c "$1" {redirections}', sys.executable, script]
    done = subprocess.run(argv, env=environment, check=False, capture_output=True)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.usefixtures("unmade_home")
def test_a_text_that_fills_screens_is_cut_and_the_rest_counted(capsys):
    long = "x y" * 1_000_000
    with Store.open(Home.from_environment().ensure().store_url) as store:
        run = begin(store)
        fill(run, blocks=2, trials=1, warmup=0)
        run.add_trial(trial(cells()[0], block=2, status="failed", error=long, values={}))
        run.add_warning(quoted(long), "c-native")
        run.finish("failed", long, 2.0)
    for command in (["show", "--all"], ["list"], ["show", "--audit"]):
        assert status_of(*command) == 0
        printed = capsys.readouterr().out
        assert len(printed) < 60_000
    assert status_of("show") == 0
    assert re.search(r"… \(\d+ characters more", " ".join(capsys.readouterr().out.split()))
    assert prepared("y" * (MAX_TEXT_CHARS + 5)).endswith("y… (5 characters more: --json has them)")


def test_what_lays_text_out_keeps_its_colours_and_nothing_else(capsys):
    with standard_streams():
        streams.document_stream().write("\x1b[1;31mred\x1b[0m \x1b[2J\x1b]8;;http://a.example\x07")
    assert capsys.readouterr().out == "\x1b[1;31mred\x1b[0m �[2J�]8;;http://a.example�"
    print_table((EVIL, "b"), [(Text(EVIL, style="red"), "x" * 5000)])
    printed = capsys.readouterr().out
    assert not set(printed) & set(EVIL) - set(SHOWN)
    assert "(1000 characters more" in " ".join(printed.split())


@pytest.fixture
def stalled() -> Iterator[tuple[int, StandardError]]:
    """(reading end, stream) of a pipe that is full, and of which the first line waits already."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"\0" * 4096)
    except BlockingIOError:
        os.set_blocking(writing, True)
    with os.fdopen(writing, "w", encoding="utf-8") as under:
        stream = StandardError(under)
        stream.write("first\n")
        while not stream._queue.empty():
            time.sleep(0.01)
        yield reading, stream
        os.close(reading)
        assert stream.drain(10)
        stream.end()


def read_all(reading: int, stream: StandardError) -> str:
    """What has been written meanwhile, and what waits."""
    os.set_blocking(reading, False)
    found, is_written = b"", False
    while not is_written:
        is_written = stream.drain(0.05)
        with suppress(BlockingIOError):
            while True:
                found += os.read(reading, 65536)
    return found.lstrip(b"\0").decode()


def test_lines_that_nobody_reads_are_dropped_and_counted(stalled, monkeypatch):
    reading, stream = stalled
    monkeypatch.setattr(streams, "MAX_QUEUED", 3)
    started_at = time.monotonic()
    for number in range(10_000):
        stream.write(f"{number}\n")
    assert not stream.drain(0.1)
    assert time.monotonic() - started_at < 5
    assert (
        read_all(reading, stream)
        == "first\n0\n1\n2\n(9997 lines dropped: the reader was too slow)\n"
    )
    stream.write("after\n")
    assert read_all(reading, stream) == "after\n"


def test_a_bar_is_drawn_as_it_is_last_and_never_queues(stalled, monkeypatch):
    reading, stream = stalled
    monkeypatch.setattr(sys, "stderr", stream)
    with BarProgress(stream) as bar:
        for number in range(500):
            bar.trial_starting("native", EVIL, f"size={number}")
        bar.trial_ended(
            EndedTrial(
                "native", "dd", "size=499", None, f"{EVIL}\nmore", Progress(0, 2, 1, 4, 1.0, 3.0)
            )
        )
        assert stream._queue.qsize() < 10
        printed = read_all(reading, stream)
    assert "size=499 failed: �]0;owned" in printed
    assert "block 1/2" in printed
    assert "size=498" not in printed
    assert not set(printed.replace("\r\x1b[K", "")) & {"\x07", "\x9b", "\r"}


def test_a_thread_and_a_signal_handler_may_write_at_any_moment(tmp_path):
    with (tmp_path / "err").open("w", encoding="utf-8") as under:
        stream = StandardError(under)
        threads = [
            threading.Thread(target=lambda: [stream.write("line\n") for _ in range(200)])
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stream.drain(10)
    assert (tmp_path / "err").read_text() == "line\n" * 800


def test_one_thread_writes_whichever_thread_was_first(tmp_path, monkeypatch):
    started: list[threading.Thread] = []

    class SlowToStart(threading.Thread):
        def start(self) -> None:
            started.append(self)
            time.sleep(0.1)
            super().start()

    monkeypatch.setattr(streams, "Thread", SlowToStart)
    with (tmp_path / "err").open("w", encoding="utf-8") as under:
        stream = StandardError(under)
        threads = [threading.Thread(target=stream.write, args=("line\n",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert stream.drain(10)
        assert len(started) == 1
        assert (tmp_path / "err").read_text() == "line\n" * 4


def test_a_thread_that_cannot_start_is_tried_again(tmp_path, monkeypatch):
    with (tmp_path / "err").open("w", encoding="utf-8") as under:
        stream = StandardError(under)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", _no_thread)
            with pytest.raises(RuntimeError):
                stream.write("lost\n")
        assert stream.drain(1)
        stream.write("kept\n")
        assert stream.drain(10)
    assert (tmp_path / "err").read_text() == "kept\n"


def _no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_no_thread_stays_behind(tmp_path, monkeypatch):
    with (tmp_path / "err").open("w", encoding="utf-8") as under:
        monkeypatch.setattr(sys, "stderr", under)
        before = {*threading.enumerate()}
        with standard_streams():
            print("a line", file=sys.stderr)
            (thread,) = {*threading.enumerate()} - before
            assert streams.drain(10)
        thread.join(10)
        assert not thread.is_alive()


class Failing(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_stream_that_fails_costs_a_message_and_ends_a_result(golden):
    under: TextIO = Failing()
    StandardError(under).write("a message\n")
    with pytest.raises(VtaxError) as caught:
        StandardOutput(under).write("a result\n")
    golden(str(caught.value))


def test_whatever_is_printed_is_cleaned(capsys):
    with standard_streams():
        print(f"{EVIL}\ta\r\nb")
        print(EVIL, file=sys.stderr)
    assert capsys.readouterr() == (f"{SHOWN}\ta\nb\n", f"{SHOWN}\n")


def test_an_endless_line_is_cut(capsys):
    with standard_streams():
        print("x" * 5000 + "\nshort")
        print("y" * 5000 + "\nshort", file=sys.stderr)
    for printed in capsys.readouterr():
        first, second = printed.splitlines()
        assert first.endswith("… (1000 characters more)")
        assert second == "short"
