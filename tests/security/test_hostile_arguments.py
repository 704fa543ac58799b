"""Every command with hostile arguments and to hostile streams ends with an exit status of its own, never as a bug."""

from __future__ import annotations

import io
import shutil
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import TextIO

import click
import pytest
from a_run import begin, fill
from click.testing import CliRunner

from vtax.cli import streams
from vtax.cli.commands import COMMANDS
from vtax.cli.main import group, main
from vtax.doctor import examine
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.platforms.base import Probe
from vtax.report.files import write
from vtax.store.store import Store

WORDS = (
    "",
    " ",
    "-",
    "--",
    "---",
    "-x",
    "--nothing",
    "=",
    "\x1b[2J\x1b]0;x\x07",
    "\x01\x7f\x9b",
    "\u202egnp.exe",
    "\u2028",
    "\udcff\udc80",
    "\udcff.toml",
    "é",
    "日本" * 30,
    "𝕏" * 50,
    "a" * 5000,
    "a" * 200_000,
    "%s%n{0}{x}",
    "$(id)",
    "';--",
    "1" * 5000,
    "-1",
    "0",
    "1e308",
    "nan",
    "inf",
    "0x10",
    "²",
    "٣",
    "1_0",
    "12h",
    "1e999s",
    "-5s",
    "999999999999h",
    ".",
    "..",
    "/",
    "../..",
    "/nothing/there",
    "/etc/passwd",
    "/proc/self/mem",
    "/dev/null",
    "/dev/full",
    "directory",
    "empty.toml",
    "binary.toml",
    "bom.toml",
    "loop.toml",
    "unreadable.toml",
    "last",
    "tour",
    "tour-1",
    "tour-1\n",
    "last:native",
    "tour-1:native@a=b",
    "native@",
    "@=,",
    ":",
    "native",
    "docker",
    "all",
    "x" * 255 + ".toml",
    "[red]",
    "iperf3",
    "podman",
    "sockperf",
    "{}",
    "[]",
    "null",
)
FILES: dict[str, bytes] = {
    "empty.toml": b"",
    "binary.toml": bytes(range(256)),
    "bom.toml": b"\xef\xbb\xbfname = 'x'\n",
    "unreadable.toml": b"name = '\xff'\n",
}
OUTPUTS = ("out.html", "directory", "nothing/there", "a" * 300, "\udcff", "\x1b[2J", "", ".", "é")
STATUSES = (0, 1, 2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run in it, as one file."""
    file = tmp_path_factory.mktemp("store") / "store.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        fill(begin(store), blocks=2, trials=1, warmup=0)
        for file_format in ("html", "parquet", "csv", "json"):  # what is loaded once is no growth
            write(store, "tour-1", file_format, file.with_name(f"run.{file_format}"))
    return file


@pytest.fixture
def place(
    whole: Path,
    private_home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ordinary_user: None,
    temporary_in,
    probe_by,
) -> Path:
    """A working directory with hostile files, on a host where nothing may be started."""
    shutil.copy(whole, private_home.root / "store.sqlite")
    place = tmp_path / "place"
    (place / "directory").mkdir(parents=True)
    (place / "loop.toml").symlink_to("loop.toml")
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    monkeypatch.chdir(place)
    temporary_in(tmp_path)
    monkeypatch.setattr(examine, "sample_load", partial(examine.sample_load, 0.01))
    monkeypatch.setattr(
        "uvicorn.Server.run", lambda *_, **__: None
    )  # it would serve until it is stopped
    probe_by(lambda *_: Probe(False, "nothing is started here"))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    return place


def arguments(random: Random) -> list[str]:
    """A command, often with options of its own, and words."""
    if random.random() < 0.05:
        return random.sample(WORDS, random.randint(0, 3))
    name = random.choice([*COMMANDS])
    command = group.get_command(click.Context(group), name)
    found = [name]
    if isinstance(command, click.Group):
        name = random.choice([*command.commands])
        command = command.commands[name]
        found.append(name)
    for parameter in command.get_params(click.Context(command)):
        if isinstance(parameter, click.Option) and random.random() < 0.4:
            found.append(random.choice(parameter.opts))
            if parameter.name == "output":
                found.append(random.choice(OUTPUTS))
            elif not parameter.is_flag:
                found.append(random.choice(WORDS))
        elif isinstance(parameter, click.Argument) and random.random() < 0.8:
            found.append(random.choice(WORDS))
    if random.random() < 0.2:
        found.insert(random.randint(1, len(found)), random.choice(WORDS))
    return found


def stream(random: Random, directory: Path, name: str) -> TextIO:
    """A standard stream: a file in some encoding, a full disk, a pipe that nobody reads any more."""
    kind = random.choice(("utf-8", "ascii", "latin-1", "full"))
    path = Path("/dev/full") if kind == "full" else directory / name
    return path.open("w", encoding="utf-8" if kind == "full" else kind)


def test_whatever_is_typed_is_answered(place, monkeypatch, campaign):
    def attack(random: Random) -> None:
        given = arguments(random)
        with (
            stream(random, place.parent, "out") as out,
            stream(random, place.parent, "err") as err,
            monkeypatch.context() as patch,
        ):
            patch.setattr(sys, "argv", ["vtax", *given])
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as caught:
                main(given)
            assert caught.value.code in STATUSES, _shown(given, err)
            streams.drain(10)
        if (place.parent / "err").exists():
            assert b"Traceback" not in (place.parent / "err").read_bytes(), _shown(given, err)

    made = campaign(200, attack)
    assert made.outcomes["survived"] == made.count
    assert not list(place.parent.glob("vtax-bug-*"))


def _shown(given: list[str], err: TextIO) -> str:
    printed = (
        Path(err.name).read_text(errors="replace")
        if err.name != "/dev/full"
        else "(on a full disk)"
    )
    reports = [
        *Path(err.name).parent.glob("home/bugs/*"),
        *Path(err.name).parent.glob("vtax-bug-*"),
    ]
    return f"{ascii(given)[:300]}\n{printed[:1000]}\n" + "".join(
        report.read_text()[-1500:] for report in reports[-1:]
    )


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "\udcff", "日本" * 30])
def test_a_name_that_cannot_be_an_address_is_refused_by_serve(host, place):
    with pytest.raises(BadInput, match="is no address"):
        CliRunner().invoke(group, ["serve", "--host", host, "--port", "0"], catch_exceptions=False)
