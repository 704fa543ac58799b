"""A pack: the wheel of the vtax that runs, what is in the file, and what a host refuses of it."""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import pytest
from command_line import refusal

import vtax
from vtax import __version__
from vtax.campaign import prepare, wheelhouse
from vtax.campaign import wheel as wheels
from vtax.campaign.pack import archive_wheels, write_members
from vtax.campaign.prepare import IMAGE, MAIN, MANIFEST, Manifest, Refused
from vtax.campaign.wheel import write_wheel
from vtax.errors import BadInput, Busy, VtaxError
from vtax.host import plugins
from vtax.host.home import DEFAULT_HOME
from vtax.host.lock import HOST_LOCK, is_measuring, measuring_lock
from vtax.study.load import shipped
from vtax.study.programs import files_beside

CHECKOUT = Path(__file__).parents[2]
PYTHON = "{}.{}".format(*sys.version_info[:2])
WHEELS = ("vtax-0.1.0-py3-none-any.whl", "pip-26.0-py3-none-any.whl")
DAMAGED = "the pack is damaged: "


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, taken_for_root) -> Path:
    """Root's home, with a measuring lock of the test's own."""
    monkeypatch.setattr(prepare, "HOST_LOCK", str(tmp_path / "measuring.lock"))
    return tmp_path / "home"


def packed(tmp_path: Path, name: str = "one.vtax-pack", **changes: str) -> tuple[Path, str]:
    """A pack whose wheels and image are a few bytes, and its digest."""
    members = {}
    for member in ("study/mine.toml", "study/tools/load.sh", IMAGE, *WHEELS):
        path = tmp_path / "members" / member
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"the content of {member}")
        members[member] = path
    members["study/tools/load.sh"].chmod(0o755)
    members[MAIN] = Path(prepare.__file__)
    archive_wheels(tmp_path / "members", WHEELS)
    members[prepare.WHEELS] = tmp_path / "members" / prepare.WHEELS
    hashes = {name: hashlib.sha256(members.pop(name).read_bytes()).hexdigest() for name in WHEELS}
    given = {
        "vtax_version": __version__,
        "machine": platform.machine(),
        "study": "study/mine.toml",
        "image_key": "4f1d0c77aa31",
        "image_digest": "ab" * 32,
    }
    python = changes.pop("python", PYTHON)
    manifest = Manifest(wheels={python: hashes}, files={}, **{**given, **changes})
    return tmp_path / name, write_members(tmp_path / name, manifest, members)


def rewritten(pack: Path, name: str, content: bytes | None, compression: int = 0) -> Path:
    """The pack with another content of a file; without it where that is None."""
    target = pack.with_name("other.vtax-pack")
    with ZipFile(pack) as old, ZipFile(target, "w") as new:
        for each in {*old.namelist(), name}:
            found = content if each == name else old.read(each)
            if found is not None:
                new.writestr(ZipInfo(each), found, compression if each == name else 0)
    return target


@pytest.mark.slow
def test_the_wheel_is_whole_and_the_same_every_time(tmp_path):
    (tmp_path / "again").mkdir()
    wheel, again = write_wheel(tmp_path), write_wheel(tmp_path / "again")
    assert wheel.read_bytes() == again.read_bytes()
    with ZipFile(wheel) as archive:
        info = f"vtax-{__version__}.dist-info"
        names = set(archive.namelist())
        assert {
            "vtax/cli/main.py",
            "vtax/study/studies/tour.toml",
            "vtax/report/languages/pt-BR.po",
        } <= names
        assert not [name for name in names if "__pycache__" in name]
        assert f"\nVersion: {__version__}\n" in archive.read(f"{info}/METADATA").decode()
        metadata = archive.read(f"{info}/METADATA").decode()
        needed = re.findall(r"^Requires-Dist: ([^\n;]+)$", metadata, re.MULTILINE)
        assert (
            needed
            == tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["dependencies"]
        )
        assert "vtax = vtax.cli.main:main" in archive.read(f"{info}/entry_points.txt").decode()
        for line in archive.read(f"{info}/RECORD").decode().splitlines():
            name, digest, size = line.rsplit(",", 2)
            names.remove(name)
            if name != f"{info}/RECORD":
                content = archive.read(name)
                hashed = (
                    base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                )
                assert (digest, size) == (f"sha256={hashed}", str(len(content)))
    assert names == set()


def test_a_plug_in_that_was_put_beside_is_none_of_vtax_on_the_other_hosts(tmp_path, monkeypatch):
    """The wheel carries its file, and the host that it is installed on tells it from those of vtax."""
    own = Path(vtax.__file__).parent / "platforms/native.py"
    monkeypatch.setattr(wheels, "is_file_of_vtax", lambda path: path != own)
    installed = tmp_path / "installed"
    with ZipFile(write_wheel(tmp_path)) as archive:
        archive.extractall(installed)
    (information,) = installed.glob("*.dist-info")
    monkeypatch.setattr(plugins, "distribution", lambda name: PathDistribution(information))
    monkeypatch.setattr("vtax.__file__", str(installed / "vtax/__init__.py"))
    beside = installed / "vtax/platforms"
    assert not plugins.is_file_of_vtax(beside / "native.py")
    assert plugins.is_file_of_vtax(beside / "oci/docker.py")


def test_another_version_than_the_installed_one_makes_no_wheel(tmp_path, monkeypatch):
    monkeypatch.setattr("vtax.__version__", "0.9.9")
    with pytest.raises(BadInput, match=r"vtax 0\.9\.9 runs, and .* is installed"):
        write_wheel(tmp_path)


def test_what_starts_a_pack_needs_nothing_but_an_old_python():
    tree = ast.parse(Path(prepare.__file__).read_text(), feature_version=(3, 8))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= sys.stdlib_module_names


def test_names_that_a_pack_repeats_are_those_of_vtax():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    classified = [
        text.rpartition(" ")[2] for text in project["classifiers"] if "Python :: 3." in text
    ]
    assert list(wheelhouse.PYTHONS) == classified
    assert (str(HOST_LOCK), str(DEFAULT_HOME)) == (prepare.HOST_LOCK, prepare.HOME)


def test_versions_of_the_wheels_are_those_that_are_installed_here():
    versions = wheelhouse.installed_versions()
    assert f"numpy=={__import__('numpy').__version__}" in versions
    assert not [version for version in versions if version.startswith(("vtax==", "pip=="))]


def test_a_python_that_vtax_does_not_run_on_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"does not run on Python 3\.9"):
        wheelhouse.download(tmp_path / "vtax.whl", "3.9", tmp_path)


def test_of_wheels_that_cannot_be_downloaded_the_error_is_said_whole_and_on_one_line(
    tmp_path, monkeypatch
):
    retries = "WARNING: Retrying after connection broken by something\n" * 20
    error = "ERROR: No matching distribution found for pip\n"
    ended = subprocess.CompletedProcess([], 1, "", f"{retries}{error}")
    monkeypatch.setattr(wheelhouse.subprocess, "run", lambda *given, **options: ended)
    with pytest.raises(VtaxError) as raised:
        wheelhouse.download(tmp_path / "vtax.whl", "3.11", tmp_path)
    said = "the wheels for Python 3.11 cannot be downloaded: No matching distribution found for pip"
    assert raised.value.what == said


def test_the_same_files_make_the_same_pack(tmp_path):
    pack, digest = packed(tmp_path)
    again, same = packed(tmp_path, "again.vtax-pack")
    assert (pack.read_bytes(), digest) == (again.read_bytes(), same)
    with ZipFile(pack) as archive:
        manifest, found = prepare.read_manifest(archive)
        mode = Path(os.devnull).stat().st_mode
        prepare.verify(archive, manifest)
        assert Path(os.devnull).stat().st_mode == mode  # of a program in the study too
        assert archive.testzip() is None
    assert found == digest
    assert manifest.files["study/mine.toml"] == (
        30,
        hashlib.sha256(b"the content of study/mine.toml").hexdigest(),
    )


@pytest.mark.parametrize("member", ["study/mine.toml", IMAGE, prepare.WHEELS, MAIN])
@pytest.mark.parametrize("content", [None, b"another content", b"the content of study/mine.tomL"])
def test_a_pack_with_a_changed_or_missing_file_installs_nothing(root, tmp_path, member, content):
    pack, _ = packed(tmp_path)
    with pytest.raises(Refused, match=DAMAGED) as refused:
        prepare.prepare(rewritten(pack, member, content), root)
    assert refused.value.status == 2
    assert not [*root.glob("packs/*/*")]


def test_a_pack_with_a_file_more_or_a_compressed_one_is_refused(root, tmp_path):
    pack, _ = packed(tmp_path)
    for changed in (
        rewritten(pack, "study/more", b"x"),
        rewritten(pack, "study/mine.toml", b"the content of study/mine.toml", ZIP_DEFLATED),
    ):
        with pytest.raises(Refused, match=DAMAGED):
            prepare.prepare(changed, root)


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "study/../../outside", "study//x"])
@pytest.mark.parametrize("place", ["files", "study", "image_key", "wheels"])
def test_no_name_in_a_manifest_leaves_its_directory(root, tmp_path, name, place):
    pack, _ = packed(tmp_path)
    with ZipFile(pack) as archive:
        values = json.loads(archive.read(MANIFEST))
    if place == "files":
        values["files"][name] = [1, "ab" * 32]
    elif place == "wheels":
        values["wheels"][PYTHON] = {name: "ab" * 32}
    else:
        values[place] = name
    with pytest.raises(Refused, match=DAMAGED):
        prepare.prepare(rewritten(pack, MANIFEST, json.dumps(values).encode()), root)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"schema": "vtax.pack/1"}', b"\xff", b"[" * 100_000]
)
def test_what_is_no_manifest_is_refused(root, tmp_path, text):
    pack, _ = packed(tmp_path)
    with pytest.raises(Refused, match=DAMAGED):
        prepare.prepare(rewritten(pack, MANIFEST, text), root)


def test_a_manifest_that_is_long_or_becomes_so_is_not_read(root, tmp_path):
    pack, _ = packed(tmp_path)
    for compression in (ZIP_STORED, ZIP_DEFLATED):
        with pytest.raises(Refused, match=f"{DAMAGED}its manifest "):
            prepare.prepare(rewritten(pack, MANIFEST, b" " * (2 << 20), compression), root)


def test_a_pack_of_another_python_machine_format_or_digest_is_refused(root, tmp_path):
    other, _ = packed(tmp_path, python="3.99")
    with pytest.raises(Refused, match=rf"Python 3\.99.*Python {PYTHON}"):
        prepare.prepare(other, root)
    other, _ = packed(tmp_path, machine="vax")
    with pytest.raises(Refused, match="pack is for vax"):
        prepare.prepare(other, root)
    pack, digest = packed(tmp_path)
    with pytest.raises(Refused, match=f"{digest[:12]}.* 000000000000"):
        prepare.prepare(pack, root, "0" * 64)
    text = pack.read_bytes()
    (tmp_path / "half").write_bytes(text[: len(text) // 2])
    with pytest.raises(Refused, match=f"{DAMAGED}it cannot "):
        prepare.prepare(tmp_path / "half", root)
    with pytest.raises(Refused, match="is no file"):
        prepare.prepare(tmp_path, root)


def test_preparing_needs_root_and_a_host_that_nothing_measures_on(tmp_path, monkeypatch, root):
    pack, _ = packed(tmp_path)
    lock = Path(prepare.HOST_LOCK)
    with (
        measuring_lock("tour-1", lock),
        pytest.raises(Refused, match="a run measures on this host") as refused,
    ):
        prepare.prepare(pack, root)
    assert refused.value.status == os.EX_TEMPFAIL
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Refused, match="needs root"):
        prepare.prepare(pack, root)


def test_while_it_installs_no_run_begins(tmp_path, root):
    lock = Path(prepare.HOST_LOCK)
    with prepare._host_to_itself(root):
        assert is_measuring(lock)
        with pytest.raises(Busy, match="vtax host prepare"), measuring_lock("tour-1", lock):
            pass
    assert not is_measuring(lock)


def with_image(root: Path, digest: str, of_image: str) -> Path:
    """Where a pack of that digest is installed, in a home whose image of the pack's key has another."""
    place = root / "packs" / digest[:12]
    (place / "venv/bin").mkdir(parents=True)
    held = json.dumps([{"key": "4f1d0c77aa31", "digest": of_image}])
    (place / "venv/bin/vtax").write_text(f"#!/bin/sh\n[ \"$1\" = --version ] || echo '{held}'\n")
    (place / "venv/bin/vtax").chmod(0o755)
    (place / "prepared").touch()
    (root / "images" / "4f1d0c77aa31").mkdir(parents=True)
    return place


def test_an_image_of_its_key_with_another_digest_is_refused(tmp_path, root):
    pack, digest = packed(tmp_path)
    with_image(root, digest, "cd" * 32)
    with pytest.raises(Refused, match=r"4f1d0c77aa31 .*cdcdcdcdcdcd") as refused:
        prepare.prepare(pack, root)
    assert "image remove 4f1d0c77aa31" in refused.value.hint


def test_what_is_there_is_left_as_it_is(tmp_path, root, monkeypatch):
    pack, digest = packed(tmp_path)
    place = with_image(root, digest, "ab" * 32)
    monkeypatch.setattr(prepare, "_install", lambda *_: pytest.fail("something was done"))
    monkeypatch.setattr(prepare, "_import_image", lambda *_: pytest.fail("something was done"))
    found = prepare.prepare(pack, root, digest.upper())
    assert (found.is_new, found.install_s, found.import_s) == (False, 0.0, 0.0)
    assert found.study == str(place / "study/mine.toml")


def test_an_installation_that_was_killed_is_made_again(tmp_path, root, monkeypatch):
    pack, digest = packed(tmp_path)
    place = root / "packs" / digest[:12]
    (place / "venv").mkdir(parents=True)
    (place / "leaked").touch()
    ran, requirements = [], []

    def ran_instead(argv: list[str], home: Path, *, check: bool = True) -> bytes:
        ran.append(argv)
        if "install" in argv:
            requirements.append(Path(argv[-1]).read_text())
        if "venv" in argv:
            (place / "venv/bin").mkdir(parents=True)
            (place / "venv/bin/python").symlink_to(argv[0])
        return b""

    monkeypatch.setattr(prepare, "_run", ran_instead)
    found = prepare.prepare(pack, root)
    assert (found.is_new, found.home) == (True, str(root))
    assert not (place / "leaked").exists()
    assert (place / "study/tools/load.sh").stat().st_mode & 0o777 == 0o755
    assert (place / "study/mine.toml").stat().st_mode & 0o777 == 0o644
    assert not (place / "wheels").exists()
    assert not (place / IMAGE).exists()
    assert requirements == [
        f"vtax==0.1.0 --hash=sha256:{hashlib.sha256(b'the content of ' + WHEELS[0].encode()).hexdigest()}\n"
    ]
    pip = next(argv for argv in ran if "install" in argv)
    assert {"--no-index", "--require-hashes"} <= set(pip)
    assert [argv[1:3] for argv in ran if argv[0].endswith("bin/vtax")] == [["image", "import"]]
    mark = place / prepare.MARK
    assert mark.resolve() == Path(sys.executable).resolve()
    assert (place / "venv/bin/python").readlink().name != "python3", "which may become another one"
    (place / "venv/bin/python").unlink()
    assert not mark.exists(), "an upgrade has removed that Python"


def test_a_bare_python_says_why_it_refuses_a_pack(tmp_path):
    pack, _ = packed(tmp_path, python="3.99")
    done = subprocess.run(
        [sys.executable, "-I", pack, "--home", tmp_path / "home"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert ("needs root" if os.geteuid() else "the pack is for Python 3.99") in done.stderr
    assert "  hint: " in done.stderr


def test_the_command_refuses_as_the_pack_does(tmp_path, root, unmade_home):
    pack, _ = packed(tmp_path, python="3.99")
    error = refusal("host", "prepare", str(pack))
    assert "pack is for Python 3.99" in str(error)
    assert error.exit_status == 2


def test_files_of_a_study_are_beside_it(tmp_path):
    study = tmp_path / "mine.toml"
    text = """
        [[program]]
        name = "own"
        files = ["bin/own.sh", "data.txt"]
    """
    study.write_text(text)
    assert files_beside(study) == ("bin/own.sh", "data.txt")
    for elsewhere in ("/usr/bin/true", "../data.txt"):
        study.write_text(text.replace("data.txt", elsewhere))
        with pytest.raises(BadInput, match=f"'{elsewhere}' is not in the directory"):
            files_beside(study)
    assert [name for name, path in shipped().items() if files_beside(path)] == []
