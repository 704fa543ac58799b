"""Another user of the host, who may enter what is open to all: what they cannot read, change or stop."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from a_run import begin, fill
from support import needs_root

from vtax.errors import BadInput, VtaxError
from vtax.host import journal as journals
from vtax.host.home import Home
from vtax.host.journal import Journal, boot_id, clean
from vtax.host.lock import is_measuring, measuring_lock, open_lock
from vtax.host.resources import RestoreCommand, Tree, to_record
from vtax.messages import quoted
from vtax.store.store import Store

pytestmark = [needs_root]
NOBODY = 65534
SOURCES = Path(__file__).resolve().parents[2] / "src"
VTAX = [sys.executable, "-m", "vtax.cli.main"]
# Whatever a neighbour can open below the directories given, it locks; it says which, and waits for its end.
LOCK_ALL = """
import fcntl, os, sys
locked = []
def attack(path):
    try:
        descriptor = os.open(path, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked.append(path)
    except OSError:
        pass
for top in sys.argv[1:]:
    attack(top)
    for directory, names, files in os.walk(top):
        for name in names + files:
            attack(os.path.join(directory, name))
print(*locked, sep="\\n", end="\\n.\\n", flush=True)
sys.stdin.read()
"""

# The same with the record locks that SQLite uses: a shared one on every byte of a file, which reading is enough for.
LOCK_EVERY_BYTE = LOCK_ALL.replace(
    "fcntl.flock(descriptor, fcntl.LOCK_EX | ", "fcntl.lockf(descriptor, fcntl.LOCK_SH | "
)


def neighbour(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program as another user, to its end."""
    return subprocess.run(
        [str(word) for word in argv],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": str(SOURCES),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
    )


@contextmanager
def neighbour_locks(*tops: Path, program: str = LOCK_ALL) -> Iterator[list[Path]]:
    """What another user can lock of these and below; it stays locked while the block runs."""
    argv = [sys.executable, "-c", program, *map(str, tops)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        stdin=pipe,
        stdout=pipe,
        text=True,
    ) as process:
        lines = iter(process.stdout.readline, ".\n")
        try:
            yield [Path(line.strip()) for line in lines]
        finally:
            process.stdin.close()


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory of root's that everybody may enter, as /var/lib is; pytest's own are closed to others."""
    place = Path(tempfile.mkdtemp(prefix="vtax-open-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def home(open_place: Path, monkeypatch: pytest.MonkeyPatch, use_home) -> Home:
    """A home that a version made which left every directory open to others."""
    home = Home(open_place / "home")
    for directory in (home.root, home.images, home.journal, home.guests, home.docker):
        directory.mkdir()
        directory.chmod(0o755)
    use_home(home.root)
    monkeypatch.delenv("VTAX_STORE", raising=False)
    monkeypatch.delenv("SUDO_UID", raising=False)
    return home


def with_a_run(home: Home) -> None:
    with Store.open(home.ensure().store_url) as store:
        fill(begin(store, "tour-1"), blocks=2)


def test_a_setuid_file_of_a_guest_is_out_of_reach(home):
    scratch = home.guests / "vtax-1" / "scratch"
    scratch.mkdir(parents=True)
    program = scratch / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    assert neighbour(program, "-u").stdout == "0\n"
    home.ensure()
    with pytest.raises(PermissionError):
        neighbour(program, "-u")
    for directory in (home.images, home.journal, home.guests, home.docker):
        assert neighbour("ls", directory).returncode != 0


def test_a_new_home_is_closed_from_the_start_whatever_the_umask(open_place):
    for umask in (0o000, 0o022, 0o077):
        before = os.umask(umask)
        try:
            home = Home(open_place / f"{umask:o}" / "home").ensure()
        finally:
            os.umask(before)
        assert neighbour("ls", home.root).stdout.split() == ["guests", "images", "journal"]
        assert neighbour("ls", home.images).returncode != 0


@pytest.mark.parametrize(
    "command",
    [
        ["list"],
        ["show"],
        ["show", "--audit"],
        ["report", "--output", "{}"],
        ["platforms"],
        ["image", "list"],
    ],
)
def test_what_needs_no_root_works_for_another_user(home, command):
    with_a_run(home)
    (home.images / "0123456789ab").mkdir()
    output = Path(tempfile.mkdtemp(dir="/var/tmp"))
    try:
        shutil.chown(output, NOBODY)
        done = neighbour(
            *VTAX, *(word.format(output / "report") for word in command), VTAX_HOME=str(home.root)
        )
    finally:
        shutil.rmtree(output)
    assert "Traceback" not in done.stderr
    if command == ["image", "list"]:
        assert (done.returncode, "only root can see the images" in done.stderr) == (2, True)
    else:
        assert done.returncode == 0, done.stderr


def test_a_plan_without_root_says_what_it_cannot_see(home):
    home.ensure()
    done = neighbour(*VTAX, "run", "tour", "--dry-run", VTAX_HOME=str(home.root))
    assert done.returncode == 0, done.stderr
    assert "only root can see whether it is built" in done.stdout


@pytest.mark.parametrize("closed", ["home", "store.sqlite"])
def test_a_store_that_root_closed_is_an_error_and_no_traceback(home, closed):
    with_a_run(home)
    (home.root.parent / closed if closed == "home" else home.root / closed).chmod(0o600)
    done = neighbour(*VTAX, "list", VTAX_HOME=str(home.root))
    assert done.returncode == 1
    assert "the store may not be read by this user" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_that_vtax_locks_can_be_locked_by_another_user(home, open_place):
    lock = open_place / "measuring.lock"
    home.ensure()
    with measuring_lock("run", lock):
        pass
    (home.images / "build.lock").touch()
    with neighbour_locks(lock, home.root) as locked:
        assert not {lock, home.journal, home.images / "build.lock"} & set(locked)
        with measuring_lock("run", lock), Journal(home.journal):
            clean(home.journal)


def test_a_neighbour_that_locks_every_byte_it_may_of_a_store_stops_no_writer(home):
    with_a_run(home)
    with Store.open(home.store_url) as store:
        run = store.open_run("last")
        with neighbour_locks(home.root, program=LOCK_EVERY_BYTE) as locked:
            assert home.root / "store.sqlite" in locked
            assert home.root / "store.sqlite-shm" not in locked
            started_at = time.monotonic()
            run.add_warning(quoted("written while a neighbour holds locks"))
            assert time.monotonic() - started_at < 30
        with neighbour_locks(home.root, program=LOCK_EVERY_BYTE):
            shown = neighbour(*VTAX, "list", VTAX_HOME=str(home.root))
            assert (shown.returncode, shown.stderr) == (0, "")
    with neighbour_locks(home.root, program=LOCK_EVERY_BYTE), Store.open(home.store_url) as store:
        store.open_run("last").add_warning(quoted("and from a store that is opened meanwhile"))


def test_a_lock_taken_while_it_was_open_is_waited_for_a_while_and_its_holder_named(
    home, monkeypatch
):
    printed: list[str] = []
    monkeypatch.setattr(journals, "_CLEAN_S", 0.5)
    with neighbour_locks(home.journal) as locked:
        assert locked == [home.journal]
        started_at = time.monotonic()
        with pytest.raises(VtaxError, match=r"process \d+ \(.*\) cleans up in this home") as caught:
            clean(home.journal, printed.append)
        assert 0.5 <= time.monotonic() - started_at < 30
        assert "terminate that process" in caught.value.hint
    assert [line.startswith("waiting for process ") for line in printed] == [True]


def test_another_user_learns_whether_something_measures(open_place):
    lock = open_place / "measuring.lock"
    imports = "import sys; from pathlib import Path; from vtax.host.lock import is_measuring; "
    ask = f"{imports}print(is_measuring(Path(sys.argv[1])))"

    def answers() -> list[str]:
        return [str(is_measuring(lock)), neighbour(sys.executable, "-c", ask, lock).stdout.strip()]

    assert answers() == ["False", "False"]
    with measuring_lock("run", lock):
        assert lock.stat().st_mode & 0o777 == 0o600
        assert answers() == ["True", "True"]
    assert answers() == ["False", "False"]


def planted(directory: Path, proof: Path) -> Path:
    """The journal of a dead process that would have a command executed."""
    path = directory / f"1-1-abc-{boot_id()}.jsonl"
    record = {
        "register": 0,
        "at": 1,
        **to_record(RestoreCommand("a container", ("touch", str(proof)))),
    }
    path.write_text(json.dumps(record) + "\n")
    return path


def foreign(home: Home) -> Path:
    shutil.chown(home.root, NOBODY)
    return home.root


def foreign_journal(home: Home) -> Path:
    shutil.chown(home.journal, NOBODY)
    return home.root


def open_to_all(home: Home) -> Path:
    home.root.chmod(0o777)
    return home.root


def below_what_others_write(home: Home) -> Path:
    home.root.parent.chmod(0o777)
    return home.root


def by_a_link_of_others(home: Home) -> Path:
    home.root.parent.chmod(0o1777)
    link = home.root.parent / "link"
    link.symlink_to(home.root)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    return link


@pytest.mark.parametrize(
    "made", [foreign, foreign_journal, open_to_all, below_what_others_write, by_a_link_of_others]
)
def test_a_home_that_others_own_or_change_is_refused(made, home, tmp_path):
    proof = tmp_path / "executed"
    planted(home.journal, proof)
    place = made(home)
    done = subprocess.run(
        [*VTAX, "clean"],
        env={**os.environ, "VTAX_HOME": str(place), "PYTHONPATH": str(SOURCES)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "in VTAX_HOME" in done.stderr
    assert not proof.exists()
    for use in (Home(place).ensure, lambda: Journal(Home(place).journal)):
        with pytest.raises(BadInput):
            use()


def test_a_home_in_a_sticky_directory_and_one_of_whoever_called_sudo_are_used(
    home, tmp_path, monkeypatch
):
    home.root.parent.chmod(0o1777)
    proof = tmp_path / "executed"
    planted(home.journal, proof)
    shutil.chown(home.root, NOBODY)
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    clean(home.journal)
    assert proof.exists()
    shutil.chown(home.journal, NOBODY)  # a name in a directory of theirs, which they may swap
    with pytest.raises(BadInput, match="journal belongs to user"):
        clean(home.journal)


@pytest.mark.parametrize("kind", ["file", "writable", "link"])
def test_a_journal_planted_while_the_directory_was_open_is_reported_and_not_executed(
    kind, home, tmp_path
):
    proof, made = tmp_path / "executed", tmp_path / "made"
    path = planted(home.journal, proof)
    made.touch()
    (home.journal / f"1-2-abc-{boot_id()}.jsonl").write_text(
        json.dumps({"register": 0, **to_record(Tree(str(made)))}) + "\n"
    )
    if kind == "file":
        shutil.chown(path, NOBODY)
    elif kind == "writable":
        path.chmod(0o666)
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    cleaned = clean(home.journal)
    assert not proof.exists()
    assert (cleaned.removed, made.exists()) == ((f"files {made}",), False)
    assert len(cleaned.problems) == 1
    assert f"1-1-abc-{boot_id()}.jsonl is not of this user alone" in cleaned.problems[0]
    clean(home.journal, forget=True)
    assert (list(home.journal.iterdir()), proof.exists()) == ([], False)


def test_a_build_lock_that_another_user_planted_is_refused(home):
    lock = home.images / "build.lock"
    lock.touch()
    shutil.chown(lock, NOBODY)
    with pytest.raises(BadInput, match="belongs to another user"):
        open_lock(lock)
    lock.unlink()
    lock.symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match="cannot be opened"):
        open_lock(lock)
