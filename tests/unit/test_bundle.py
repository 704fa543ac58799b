"""`vtax export` and `vtax import`: the same run in another store, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from a_run import begin, cells, fill, trial
from click.testing import CliRunner
from command_line import output_of, refusal
from sqlalchemy import select

from vtax.cli.main import group
from vtax.cli.row_progress import row_progress
from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.messages import Note, quoted
from vtax.runner.resume import check_host, resume_obstacle
from vtax.store import bundle, bundle_lines, schema
from vtax.store.importing import import_bundle, opened_bundle
from vtax.store.query import load
from vtax.store.records import SAMPLES, OutputRecord
from vtax.store.store import Store
from vtax.store.transfer import Row

pytestmark = pytest.mark.slow

VIEWS = (
    "--json",
    "--audit",
    "--variance",
    "--sessions",
    "--counters",
    "--trials",
    "--guests",
    "--raw",
)
SAMPLE_VALUES = [1.5, 2.5] * 6000  # more than a cleaned value may hold


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run that has everything, as one file."""
    file = tmp_path_factory.mktemp("store") / "store.sqlite"
    with Store.open(f"sqlite:///{file}") as store:
        run = begin(store, boot_id="b1")
        fill(run, blocks=2, trials=1)
        guest = run.begin_guest("native", 3, "point-to-point", 1.7e9)
        outputs = (OutputRecord("client", ("tool", "--x"), 1, "\udcff\x1b[2J\n", "é"),)
        effective = {"flows": 1, SAMPLES: {"events": SAMPLE_VALUES}}
        given = {
            "guest_id": guest,
            "block": 3,
            "position": run.next_position(),
            "effective": effective,
        }
        run.add_trial(trial(cells()[0], outputs=outputs, warnings=(quoted("odd"),), **given))
        run.add_warning(Note("resumed", place="after", block=1, later=""))
        run.finish("finished", "all blocks", 1.7e9 + 300)
    return file


@pytest.fixture
def home(whole: Path, private_home: Home, tmp_path: Path, monkeypatch) -> Home:
    """A home with that store, and a working directory."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(whole, private_home.root / "store.sqlite")
    return private_home


@pytest.fixture
def elsewhere(tmp_path: Path, use_store: Callable[[Path], None]) -> Callable[[], None]:
    """`elsewhere()` has commands use the store of another host, without a run."""
    return lambda: use_store(tmp_path / "other.sqlite")


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def rewrite(file: Path, change: Callable[[list[Any]], None]) -> None:
    """Change the lines of a bundle, and its hash with them."""
    found = lines(file)[:-1]
    change(found)
    text = b"".join(json.dumps(line).encode() + b"\n" for line in found)
    trailer = {"sha256": hashlib.sha256(text).hexdigest()}
    file.write_bytes(gzip.compress(text + json.dumps(trailer).encode() + b"\n"))


def views() -> dict[str, Any]:
    """JSON of every view, without what follows from where the run was made: an imported one cannot be resumed."""
    found = {}
    for view in VIEWS:
        text = output_of("show", "tour-1", *{view: 0, "--json": 0})
        found[view] = {
            k: v for k, v in json.loads(text).items() if k not in ("provenance", "next_step")
        }
    return found


def test_bundles_that_are_open_at_once_or_in_turn_know_nothing_of_each_other(home):
    output_of("export", "tour-1")
    file = Path("tour-1.vtax.gz")
    with opened_bundle(file) as first, opened_bundle(file) as second:
        assert first.engine is not second.engine
        assert first.id == second.id
    with opened_bundle(file) as again:
        assert again.identity == first.identity
        assert len(again.done()) == load(again.engine, again).trials.id.size


def test_every_view_of_an_imported_run_is_that_of_the_exported_one(home, elsewhere):
    before, csv = views(), output_of("export", "--format", "csv", "-o", "a.csv")
    assert csv
    output_of("export", "tour-1")
    elsewhere()
    assert "tour-1 was imported: study tour, " in output_of("import", "tour-1.vtax.gz")
    assert views() == before
    output_of("export", "--format", "csv", "-o", "b.csv")
    assert Path("a.csv").read_text() == Path("b.csv").read_text()
    with Store.open(Home.from_environment().store_url) as store:
        from vtax.store.query import samples

        assert [*samples(store.engine, store.open_run("tour-1")).values()] == [
            {"events": SAMPLE_VALUES}
        ]


def test_several_bundles_are_imported_in_their_order(home, elsewhere):
    output_of("export", "tour-1")
    shutil.copyfile("tour-1.vtax.gz", "again.vtax.gz")
    elsewhere()
    lines = output_of("import", "tour-1.vtax.gz", "again.vtax.gz").splitlines()
    assert lines[0].startswith("tour-1 was imported: ")
    assert lines[-1] == "tour-1 is this run already; nothing was imported"
    both = json.loads(output_of("import", "tour-1.vtax.gz", "again.vtax.gz", "--json"))
    assert [run["name"] for run in both["runs"]] == ["tour-1", "tour-1"]


def test_an_imported_run_is_marked_wherever_runs_are_listed_and_is_not_resumed(home, elsewhere):
    output_of("export", "tour-1")
    assert "origin" not in output_of("list")
    elsewhere()
    output_of("import", "tour-1.vtax.gz")
    origin = json.loads(output_of("list", "--json"))[0]["origin"]
    assert re.search(rf"^tour-1 .*{origin}$", output_of("list"), re.M)
    assert f"{origin}, where it is tour-1" in output_of("show")
    assert json.loads(output_of("show", "--json"))["provenance"]["imported"]["is_other_host"]
    assert "imported" in CliRunner().invoke(group, ["remove", "tour-1"]).stdout
    with Store.open(Home.from_environment().store_url) as store:
        assert resume_obstacle(store, "tour-1", home) == f"it was {origin}"
        with pytest.raises(BadInput, match="cannot be resumed"):
            check_host(store.open_run("tour-1"), {})


def test_importing_twice_is_no_second_run_and_a_taken_name_is_no_obstacle(home, elsewhere, golden):
    output_of("export", "tour-1")
    golden(output_of("import", "tour-1.vtax.gz"), "again")
    elsewhere()
    with Store.open(Home.from_environment().store_url) as store:
        begin(store, "tour-1").finish("finished", "", 2.0)
    golden(output_of("import", "tour-1.vtax.gz"), "a taken name")
    again = json.loads(output_of("import", "tour-1.vtax.gz", "--json"))
    assert (again["name"], again["is_new"]) == ("tour-1-imported", False)
    assert len(json.loads(output_of("list", "--json"))) == 2


def test_the_same_run_makes_the_same_bundle_also_from_another_store(home, elsewhere):
    first = json.loads(output_of("export", "-o", "a.gz", "--json"))
    elsewhere()
    output_of("import", "a.gz")
    second = json.loads(output_of("export", "-o", "b.gz", "--json"))
    assert first["sha256"] == second["sha256"]
    assert Path("a.gz").read_bytes() == Path("b.gz").read_bytes()
    *content, _ = gzip.decompress(Path("a.gz").read_bytes()).splitlines(keepends=True)
    assert hashlib.sha256(b"".join(content)).hexdigest() == first["sha256"]


def test_metrics_of_a_bundle_without_roles_get_theirs(home, elsewhere):
    bundle_file = Path(__file__).parents[2] / "docs" / "examples" / "runtimes.vtax.gz"
    assert b'"role": "speed"' not in gzip.decompress(bundle_file.read_bytes())
    elsewhere()
    output_of("import", str(bundle_file))
    with Store.open(Home.from_environment().store_url) as store, store.engine.connect() as database:
        stored = database.execute(select(schema.metric.c.name, schema.metric.c.role)).all()
    roles = dict(stored)
    assert "" not in roles.values()
    assert roles["events_per_s"] == "speed"


def test_a_run_that_went_on_after_it_was_exported_is_not_replaced(home):
    output_of("export")
    with Store.open(home.store_url) as store:
        store.open_run("tour-1").add_warning(quoted("once more"))
    error = refusal("import", "tour-1.vtax.gz")
    assert "tour-1, with other content" in error.what
    assert "vtax remove tour-1" in error.hint


def test_a_running_run_is_not_exported(home, measuring):
    with Store.open(home.store_url) as store:
        begin(store, "tour-9")
    assert refusal("export", "tour-9").what == "tour-9 is still running"
    assert not Path("tour-9.vtax.gz").exists()


def set_header(key: str, value: Any) -> Callable[[list[Any]], None]:
    return lambda found: found[0].update({key: value})


def of_table(found: list[Any], table: str, number: int = 0) -> dict[str, Any]:
    return [row[table] for row in found if table in row][number]


def set_value(table: str, key: str, value: Any, number: int = 0) -> Callable[[list[Any]], None]:
    return lambda found: of_table(found, table, number).update({key: value})


REFUSED: dict[str, tuple[Callable[[list[Any]], None], str]] = {
    "another schema": (set_header("schema", "0013"), "of another vtax: bundle/1, schema 0013; this one"),
    "another format": (set_header("vtax", "bundle/2"), "of another vtax: bundle/2"),
    "another file": (set_header("vtax", "x"), "this is not a bundle of vtax"),
    "a run called as no run is": (set_value("run", "name", "a b"), "name or identity"),
    "a run called as a path": (set_value("run", "name", "../../x"), "a run is called ../../x"),
    "a run called last": (set_value("run", "name", "last"), "name or identity"),
    "a run without identity": (set_value("run", "identity", "x"), "name or identity"),
    "a running run": (set_value("run", "status", "running"), "a status is none"),
    "a run of the future": (set_value("run", "started_at", 9e9), "starts in the future"),
    "no platform": (set_value("cell", "platform_id", 99), "platform 99 is not there"),
    "a reference that is no number": (set_value("cell", "platform_id", "1"), "platform 1 is not there"),
    "a status": (set_value("trial", "status", "odd"), "a status is none"),
    "a session": (set_value("trial", "session", 7), "a session that is not there"),
    "a block": (set_value("trial", "block", 1e12), "block is"),
    "a huge number": (set_value("run", "seed", 10**300), "larger than 64 bits"),
    "a long text": (set_value("platform", "name", "x" * 81), "name is longer than 80"),
    "an output": (set_value("output", "stdout", 5), "an output is no text"),
    "twice the same": (lambda found: found.insert(2, found[2]), "contradict"),
    "an unknown column": (set_value("run", "x", 1), "other columns"),
    "an unknown table": (lambda found: found.append({"sqlite_master": {"sql": ""}}), "other columns"),
    "two runs": (lambda found: found.insert(1, found[1]), "contradict"),
    "no run": (lambda found: found.clear() or found.append({"vtax": "bundle/1", "schema": "0001"}), "no run"),
    "another order": (lambda found: found.append(found[1]), "where they belong"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_vtax_exports_is_refused_and_nothing_is_stored(case, home, elsewhere):
    change, says = REFUSED[case]
    output_of("export", "-o", "x.gz")
    rewrite(Path("x.gz"), change)
    elsewhere()
    error = refusal("import", "x.gz")
    assert says in error.what
    assert error.where == "x.gz"
    assert error.hint
    assert output_of("list").startswith("no runs yet")


def test_a_damaged_or_shortened_file_is_refused(home):
    output_of("export", "-o", "x.gz")
    whole = Path("x.gz").read_bytes()
    for data, says in (
        (whole[: len(whole) // 2], "it cannot be unpacked"),
        (whole[:-4], "it cannot be unpacked"),
        (b"x" + whole, "this is not a bundle of vtax"),
        (b"", "this is not a bundle of vtax"),
        (
            gzip.compress(gzip.decompress(whole).replace(b'"seed": 1099', b'"seed": 2099')),
            "SHA-256",
        ),
        (
            gzip.compress(b"\n".join(gzip.decompress(whole).splitlines()[:-1]) + b"\n"),
            "its end is missing",
        ),
        (gzip.compress(gzip.decompress(whole)[:-1]), "its end is missing"),
    ):
        Path("x.gz").write_bytes(data)
        assert says in refusal("import", "x.gz").what


def test_a_bundle_is_read_within_bounds(home, monkeypatch):
    output_of("export", "-o", "x.gz")
    for name in ("SHORT_BYTES", "MAX_BYTES"):
        with monkeypatch.context() as patched:
            patched.setattr(bundle_lines, name, 100)
            assert "larger than" in refusal("import", "x.gz").what


SECRETS = (
    "box7",
    "lab.example",
    "10.1.2.3",
    "fe80::1234:5678",
    "de:ad:be:ef:00:01",
    "ABC12345",
    "alice",
    "0123456789abcdef0123456789abcdef",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "feedfacecafe",
    "0123feedbeef",
)


def test_an_anonymized_bundle_has_none_of_the_names_and_what_was_equal_is(home, elsewhere):
    said = (
        "Linux box7 6.1.0 from 10.1.2.3 to fe80::1234:5678 at 12:30:05; 198.18.0.2 and 127.0.0.1\n"
        "de:ad:be:ef:00:01 Serial Number: ABC12345 /home/alice/x 3f2504e0-4f89-41d3-9a0c-0305e82c3301 version 1.2.3\n"
        "0123456789abcdef0123456789abcdef box7.lab.example alice's box7 boxing\n"
    )
    facts_of_host = {
        "cpus": 2,
        "machine_id": "feedfacecafe",
        "hardware_id": "0123feedbeef",
        "image_digest": "c0ffee" * 10,
    }
    with Store.open(home.store_url) as store:
        run = begin(store, "tour-2", host=facts_of_host, started_at=1.7e9 + 1)
        outputs = (OutputRecord("client", ("ssh", "alice@box7"), 0, said, said),)
        facts = {"hostname": "box7.lab.example", "kernel_release": "6.1.0", "address": "10.1.2.3"}
        guest = run.begin_guest("native", 0, "", 1.7e9)
        run.add_trial(trial(cells()[0], guest_id=guest, outputs=outputs))
        run.end_guest(guest, ready_s=1.0, clock_offset_s=0.0, facts=facts, notes=("for alice",))
        run.finish("finished", "", 1.7e9 + 2)
    printed = output_of("export", "tour-2", "--anonymize")
    assert re.search(r"^host name +2 ", printed, re.M)
    text = gzip.decompress(Path("tour-2.vtax.gz").read_bytes()).decode()
    assert [secret for secret in SECRETS if secret in text] == []
    found = lines(Path("tour-2.vtax.gz"))
    output = of_table(found, "output")
    for kept in ("198.18.0.2", "127.0.0.1", "12:30:05", "version 1.2.3", "boxing", "6.1.0"):
        assert kept in output["stdout"]
    host = re.match(r"Linux (host-\d) 6.1.0 from (192.0.2.1) to (2001:db8::1)", output["stdout"])
    assert host
    of_host = of_table(found, "session")["host"]
    assert of_host["image_digest"] == facts_of_host["image_digest"]
    assert len(of_host["hardware_id"]) == len(of_host["machine_id"]) == 12
    assert of_table(found, "guest")["facts"] == {"kernel_release": "6.1.0"}
    assert output["argv"][1].endswith(host[1])
    elsewhere()
    output_of("import", "tour-2.vtax.gz")
    assert "anonymized" in output_of("show")


def test_an_import_leaves_no_file_however_it_ends(home, tmp_path, monkeypatch, temporary_in):
    """A killed process cannot remove a file, so while a bundle is read there is none with a name."""
    output_of("export", "tour-1", "-o", "a.gz")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    temporary_in(temporary)
    monkeypatch.setenv("SQLITE_TMPDIR", str(temporary))
    seen: list[str] = []

    def watch(done: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            yield row
            assert not [*temporary.iterdir()]
        seen.append(done)

    with Store.open(f"sqlite:///{tmp_path}/other.sqlite") as store:
        assert import_bundle(store.engine, bundle.Bundle(Path("a.gz")), "", watch).is_new
    assert seen == ["read", "stored"]


def test_a_long_copy_shows_how_many_rows_are_done(monkeypatch, capsys):
    ticks = iter(range(0, 10_000, 6))
    monkeypatch.setattr("vtax.cli.row_progress.time.monotonic", lambda: float(next(ticks)))
    rows: list[Row] = [("trial", {})] * 10_000
    assert [*row_progress("exporting tour-1")("written", rows)] == rows
    assert capsys.readouterr().err.splitlines() == [
        "exporting tour-1: 2000 rows written",
        "exporting tour-1: 6000 rows written",
    ]
