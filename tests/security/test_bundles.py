"""Hostile bundles: each is refused with one error, or becomes a run that every view shows."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest
from a_run import begin, fill
from attack import at_most
from click.testing import CliRunner
from forged_values import JSON_TEXTS, VALUES

from vtax.cli.main import group
from vtax.errors import BadInput, StoreError, VtaxError
from vtax.host.home import Home
from vtax.report.files import write
from vtax.store.bundle_lines import in_pieces
from vtax.store.query import outputs
from vtax.store.store import Store

VIEWS = (
    ["list"], ["list", "--json"], ["show"], ["show", "--json"], ["show", "--audit", "--all"], ["show", "--raw"],
    ["show", "--trials"], ["show", "--sessions", "--json"], ["show", "--host"], ["show", "--counters"],
    ["export", "--format", "csv"], ["export", "--format", "json"], ["export", "--format", "markdown"],
    ["export", "-o", "again.gz"], ["export", "--anonymize", "-o", "again.gz"], ["remove", "--yes", "last"],
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bundle of a run."""
    place = tmp_path_factory.mktemp("bundle")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("VTAX_STORE", f"sqlite:///{place}/store.sqlite")
        with Store.open(Home.from_environment().store_url) as store:
            run = begin(store)
            fill(run, blocks=2, trials=1)
            for file_format in ("csv", "json", "markdown"):  # what is loaded once is no growth
                write(store, "tour-1", file_format, place / f"run.{file_format}")
        made = CliRunner().invoke(
            group, ["export", "-o", str(place / "x.gz")], catch_exceptions=False
        )
    assert made.exit_code == 0
    return (place / "x.gz").read_bytes()


@pytest.fixture
def place(unmade_home: Path, tmp_path: Path, monkeypatch, temporary_in) -> Path:
    """A working directory in a home without a store."""
    unmade_home.mkdir()
    monkeypatch.chdir(unmade_home)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    temporary_in(temporary)
    return unmade_home


def packed(rows: list[Any]) -> bytes:
    """A bundle with the hash of its content."""
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return gzip.compress(
        text + json.dumps({"sha256": hashlib.sha256(text).hexdigest()}).encode() + b"\n", 1
    )


def flip(random: Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 3, 50))):
        found[random.randrange(len(found))] = random.randrange(256)
    return bytes(found)


def cut(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data))
    return random.choice((data[:at], data[at:], data[:at] + data, data + data, data + b"x" * 100))


def tear(random: Random, data: bytes) -> bytes:
    """Lines that are cut, swapped, repeated or no rows, under their right hash."""
    rows = [json.loads(line) for line in gzip.decompress(data).splitlines()[:-1]]
    at, other = random.randrange(len(rows)), random.randrange(len(rows))
    match random.randrange(5):
        case 0:
            del rows[at:other]
        case 1:
            rows[at], rows[other] = rows[other], rows[at]
        case 2:
            rows.insert(at, rows[other])
        case 3:
            rows[at] = random.choice(
                (None, [], 5, "x", {}, {"trial": 5}, {"x": {}}, {"run": {}, "trial": {}})
            )
        case _:
            random.shuffle(rows)
    return packed(rows)


def forge(random: Random, data: bytes) -> bytes:
    """Values that no vtax ever wrote, under their right hash."""
    rows = [json.loads(line) for line in gzip.decompress(data).splitlines()[:-1]]
    for _ in range(random.choice((1, 1, 2, 5))):
        table = random.choice([next(iter(row)) for row in rows[1:]])
        some = [row[table] for row in rows[1:] if table in row]
        column = random.choice([*some[0]])
        value = random.choice([value for value in VALUES if not isinstance(value, bytes)])
        if isinstance(some[0][column], dict | list) or random.random() < 0.2:
            try:
                value = json.loads(random.choice(JSON_TEXTS))
            except (ValueError, RecursionError):
                value = {}
        for row in some if random.random() < 0.3 else [random.choice(some)]:
            row[column] = value
    return packed(rows)


ATTACKS: tuple[Callable[[Random, bytes], bytes], ...] = (flip, cut, tear, forge, forge, forge)


def invoke(arguments: list[str]) -> None:
    """A command; what a person would see as a traceback is raised."""
    result = CliRunner().invoke(group, arguments)
    result.output.encode()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def test_no_bundle_ends_a_command_in_a_traceback(campaign, whole, place):
    def attack(random: Random) -> None:
        for leftover in place.iterdir():
            if leftover.is_file():
                leftover.unlink()
        (place / "x.gz").write_bytes(random.choice(ATTACKS)(random, whole))
        try:
            invoke(["import", "x.gz"])
        finally:
            assert not [*(place.parent / "temporary").iterdir()]
        for _ in range(2):
            invoke(random.choice(VIEWS))

    made = campaign(60, attack)
    assert made.outcomes["survived"]


EXAMPLE = Path(__file__).parents[2] / "docs/examples/ufla2010.vtax.gz"
HOSTILE: tuple[Any, ...] = (
    10**400,
    -(10**400),
    2**63,
    2**63 - 1,
    -(2**63),
    2**53,
    2**31,
    1e308,
    -1e308,
    5e-324,
    -1,
    0,
    1,
    2,
    7,
    1e11,
    1e10,
    0.5,
    -0.5,
    True,
    False,
    None,
    "",
    "x",
    "7",
    "1e5",
    "nan",
    "\u00b2",
    "9" * 400,
    "a\nb",
    "\x1b[2J",
    "y" * 5000,
    "native",
    "lxc",
    "send",
    "ratio",
    [],
    {},
    [1],
    ["x"],
    [[]],
    [None],
    [{}],
    {"a": 1},
    {"a": {}},
    {"a": [1]},
    {"": None},
    [10**400],
    {"a": 10**400},
    {"x": "y"},
    [1, 2],
    "1970-01-01",
    "+999999-01-01",
    "=1+1",
)
EVERY_VIEW = (
    ["show"], ["show", "--json"], ["show", "--all"], ["show", "--audit", "--all"], ["show", "--audit", "--json"],
    ["claims"], ["show", "--counters"], ["explain"], ["show", "--guests"],
    ["show", "--host"], ["show", "--method"], ["show", "--raw", "1"], ["show", "--ranking", "--json"],
    ["show", "--reproduce"], ["show", "--sessions"], ["show", "--to", "platform=native", "--value", "p99"],
    ["show", "--variance"], ["show", "--warnings"], ["show", "--trials"], ["show", "--trials", "--json"],
    ["history", "ufla2010"], ["recommend"], ["show", "--rows", "platform"], ["list"], ["list", "--json"],
    ["report"], ["export", "--format", "csv"], ["export", "--format", "parquet"],
    ["export", "--format", "json"], ["export", "--format", "markdown"], ["export", "--format", "latex"],
    ["claims", "--all", "--json"], ["compare", "--strict", "--json"], ["compare", "lxc", "native"],
    ["compare", "lxc", "native", "--json"], ["history", "ufla2010", "--value", "mean"],
    ["recommend"], ["explain", "--all"], ["figures", "-o", "drawn"],
    ["export", "-o", "again.gz"], ["export", "--format", "benchfmt", "-o", "a.txt"], ["note"],
    ["export", "--format", "bmf", "-o", "a.json"], ["export", "--format", "ro-crate", "-o", "a.zip"],
)  # fmt: skip


@pytest.fixture(scope="module")
def measured() -> list[Any]:
    """The lines of a bundle that was measured, without most of its counters."""
    rows = [json.loads(line) for line in gzip.decompress(EXAMPLE.read_bytes()).splitlines()[:-1]]
    return [row for row in rows if row.get("counter", {}).get("trial_id", 0) <= 8]


def values_in(value: Any) -> list[tuple[Any, Any]]:
    """(object or list, name or number) of everything in a value."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [pair for key, below in list(inside) for pair in ((value, key), *values_in(below))]


def mutated(random: Random, rows: list[Any]) -> list[Any]:
    """The rows with some values that no vtax stores, most of them in the row of the run."""
    tables: dict[str, list[int]] = {}
    for number, row in enumerate(rows[1:], 1):
        tables.setdefault(next(iter(row)), []).append(number)
    found = list(rows)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        table = random.choice(("run", "run", "run", *tables))
        place = random.choice(tables[table])
        whole_table = random.random() < 0.15
        holders = values_in(deepcopy(found[place][table]))
        at = random.randrange(len(holders))
        value = random.choice(HOSTILE)
        for number in tables[table] if whole_table else [place]:
            found[number] = deepcopy(found[number])
            pairs = values_in(found[number][table])
            holder, key = pairs[min(at, len(pairs) - 1)]
            if isinstance(holder, dict) and random.random() < 0.1:
                holder[random.choice(("x", "", "method", "boots", "samples", "7"))] = value
            elif isinstance(holder, dict) and key in holder and random.random() < 0.05:
                del holder[key]
            else:
                holder[key] = value
    return found


@pytest.mark.whole(500)
def test_every_view_shows_what_import_let_in(campaign, measured, place):
    def attack(random: Random) -> None:
        for leftover in place.iterdir():
            if leftover.is_file():
                leftover.unlink()
        (place / "x.gz").write_bytes(packed(mutated(random, measured)))
        invoke(["import", "x.gz"])
        for view in random.sample(EVERY_VIEW, 6):
            try:
                invoke(view)
            except StoreError as error:
                raise AssertionError(f"{view}: {error}") from error
            except VtaxError:
                pass
            except Exception as error:
                raise AssertionError(f"{view}: {error!r}") from error

    (place / "x.gz").write_bytes(packed(measured))
    invoke(["import", "x.gz"])
    for view in EVERY_VIEW:
        invoke(view)
    made = campaign(15, attack)
    assert made.outcomes["survived"]


MEMORY = 300  # MiB
MEASURED = """
import atexit, sys
from vtax.cli.main import main
def peak():
    line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    open("peak", "w").write(line.split()[1])
atexit.register(peak)
sys.argv = ["vtax", "import", "x.gz"]
main()
"""


def with_lines(rows: list[Any], table: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a bundle with others in place of the first row of a table."""
    at = next(number for number, row in enumerate(rows) if table in row)
    yield from (json.dumps(row).encode() + b"\n" for row in rows[:at])
    yield from lines
    yield from (json.dumps(row).encode() + b"\n" for row in rows[at + 1 :])


def long_output(rows: list[Any], filling: bytes, count: int) -> Iterator[bytes]:
    """An output of two long texts, in pieces."""
    yield json.dumps(next(row for row in rows if "output" in row)).encode() + b"\n"
    piece = b'{"more": {"stdout": "%b", "stderr": "%b"}}\n' % (filling, filling)
    yield from (piece for _ in range(count))


def of_objects(rows: list[Any]) -> bytes:
    """A guest whose facts are many small objects."""
    row = next(row for row in rows if "guest" in row)["guest"]
    return json.dumps({"guest": {**row, "facts": {"x": [{"": 0}] * 30_000}}}).encode() + b"\n"


def sampled(rows: list[Any], sample: str, count: int) -> Iterator[bytes]:
    """Trials with many values within each."""
    row = next(row for row in rows if "trial" in row)["trial"]
    for number in range(20):
        text = json.dumps(
            {"trial": {**row, "number": 1000 + number, "effective": {"samples": {"x": [0]}}}}
        )
        yield text.replace("[0]", f"[{','.join([sample] * count)}]").encode() + b"\n"


BOMBS: dict[str, Callable[[list[Any]], Iterator[bytes]]] = {
    "lists": lambda rows: with_lines(
        rows, "trial", (b'{"trial": {"effective": {"x": [', *([b"[]," * 100_000] * 300), b"0]}}}\n")
    ),
    "objects": lambda rows: with_lines(rows, "guest", [of_objects(rows)] * 300),
    "nulls": lambda rows: with_lines(rows, "output", long_output(rows, b"\\u0000" * 20_000, 420)),
    "pairs": lambda rows: with_lines(
        rows, "output", long_output(rows, b"\\ud83d\\ude00" * 10_007, 300)
    ),
    "quotes": lambda rows: with_lines(rows, "output", long_output(rows, b'\\"' * 60_003, 170)),
    "whole samples": lambda rows: with_lines(rows, "trial", sampled(rows, "0", 520_000)),
    "samples": lambda rows: with_lines(rows, "trial", sampled(rows, "1.5", 260_000)),
    "one output": lambda rows: with_lines(
        rows, "output", [b'{"output": {"stdout": "' + b"\\u0000" * 8_000_000]
    ),
    "one line": lambda rows: with_lines(rows, "warning", [b" " * (1 << 20)] * 500),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_bundle_needs_much_memory(bomb, measured, place):
    digest = hashlib.sha256()
    with gzip.open(place / "x.gz", "wb", 1) as file:
        for piece in BOMBS[bomb](measured):
            digest.update(piece)
            file.write(piece)
        file.write(json.dumps({"sha256": digest.hexdigest()}).encode() + b"\n")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 2), done.stderr
    assert int((place / "peak").read_text()) < MEMORY * 1024


def test_a_long_output_is_stored_as_it_was_printed(measured, place):
    filling = 'a\u20ac\U0001f600\x00"\\\n\ud800\ud800'
    rows = deepcopy(measured)
    output = next(row for row in rows if "output" in row)["output"]
    output["stdout"], output["stderr"] = filling * 40_003, "x" + filling * 30_011
    pieces = in_pieces(next(iter(row.items())) for row in rows[1:])
    (place / "x.gz").write_bytes(packed([rows[0], *({table: row} for table, row in pieces)]))
    invoke(["import", "x.gz"])
    with Store.open(Home.from_environment().store_url) as store:
        run = store.open_run("ufla2010-1")
        stored = outputs(store.engine, run)[0]
        assert (stored.stdout, stored.stderr) == (output["stdout"], output["stderr"])


CONTENTS: tuple[tuple[Callable[[dict[str, Any]], Any], str], ...] = (
    (lambda run: run["declared"]["design"].update(method=10**400), "method"),
    (lambda run: run["declared"]["design"].update(blocks="5"), "blocks"),
    (lambda run: run["declared"]["design"].update(confidence=5), "confidence"),
    (lambda run: run["declared"]["design"].update(confidence=0.9999999999999999), "confidence"),
    (lambda run: run["declared"].update(claim=[{"id": "x"}]), "claim"),
    (lambda run: run["declared"].update(benchmark=[]), "benchmark"),
    (lambda run: run["declared"].update(other=5), "other"),
    (lambda run: run["declared"]["guest"].update(vcpus="1"), "form"),
    (lambda run: run["host"].update(boots=[]), "boots"),
    (lambda run: run["host"].update(kernel={"a": {"b": 1}}), "kernel"),
    (lambda run: run.update(seed=10**400), "seed"),
)


@pytest.mark.parametrize("number", range(len(CONTENTS)))
def test_what_no_study_and_no_host_is_is_refused(number, measured, place):
    rows, (change, says) = deepcopy(measured), CONTENTS[number]
    change(rows[1]["run"])
    (place / "x.gz").write_bytes(packed(rows))
    with pytest.raises(BadInput, match=f"the bundle is damaged: .*{says}"):
        invoke(["import", "x.gz"])


@pytest.mark.parametrize("version", ["0000", "0", "", "00000", "-001", "9999", 13, None])
def test_a_schema_that_never_was_is_refused(version, measured, place):
    (place / "x.gz").write_bytes(packed([{**measured[0], "schema": version}, *measured[1:]]))
    with pytest.raises(BadInput):
        invoke(["import", "x.gz"])


NAMES = ("../../x", "/etc/x", "a/b", "..", ".x", "-x", "x\n", "\x1b[2J", "", "last", "x" * 81)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_a_bundle_becomes_a_path(name, whole, place):
    rows = [json.loads(line) for line in gzip.decompress(whole).splitlines()[:-1]]
    rows[1]["run"]["name"] = name
    (place / "x.gz").write_bytes(packed(rows))
    with pytest.raises(BadInput, match="the bundle is damaged"):
        invoke(["import", "x.gz"])


def test_nothing_that_never_ends_or_grows_without_end_is_read(whole, place):
    os.mkfifo(place / "pipe")
    with (place / "bomb.gz").open("wb") as file:
        for _ in range(150):  # members of one line without an end
            file.write(gzip.compress(b" " * (1 << 20), 1))
    with (place / "deep.gz").open("wb") as file:
        file.write(gzip.compress(b"[" * 10_000_000 + b"\n", 1))
    for name in ("pipe", "/dev/zero", "bomb.gz", "deep.gz", "."):
        with at_most(30), pytest.raises(BadInput):
            invoke(["import", name])


def test_a_hostile_text_is_shown_without_its_control_characters(whole, place):
    rows = [json.loads(line) for line in gzip.decompress(whole).splitlines()[:-1]]
    for row in rows[1:]:
        for table in ("platform", "trial"):
            if table in row:
                row[table].update(
                    {"reason": "\x1b[2J\u202ex"}
                    if table == "platform"
                    else {"error": "\x1b]0;x\x07"}
                )
    rows[1]["run"]["declared"]["title"] = "\x1b[2J\u202etitle"
    rows[1]["run"]["provenance"] = {"merged": {"runs": [{"name": "\x1b[2J"}, 5, {"name": {}}]}}
    (place / "x.gz").write_bytes(packed(rows))
    invoke(["import", "x.gz"])
    for view in (["show"], ["show", "--trials"], ["list"], ["show", "--audit"]):
        printed = CliRunner().invoke(group, view).output
        assert "\x1b" not in printed
        assert "\u202e" not in printed
