"""Files of images from anybody: it is unpacked nowhere else, without devices, or refused and gone."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support import needs_program, needs_root, thorough

from vtax.errors import BadInput, VtaxError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image import build as images
from vtax.image import own
from vtax.image.own import FileSource, unpack
from vtax.limits import OWN_IMAGE

pytestmark = [needs_root, needs_program("skopeo", "umoci", "patchelf")]
SECRET = "of the host"
Member = tuple[str, bytes, str]  # name, type, where a link leads
FILE, LINK, HARD, BLOCK, DIRECTORY = (
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory of the host beside the tree; a test fails where anything of it differs at its end."""
    directory = tmp_path / "outside"
    directory.mkdir(mode=0o750)
    (directory / "secret").write_text(SECRET)
    (directory / "secret").chmod(0o640)
    before = [
        (path, path.lstat().st_mode, path.lstat().st_nlink)
        for path in (directory, directory / "secret")
    ]
    yield directory
    assert [(path, path.lstat().st_mode, path.lstat().st_nlink) for path, *_ in before] == before
    assert (directory / "secret").read_text() == SECRET
    assert [path.name for path in directory.iterdir()] == ["secret"]


def packed(members: list[Member]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as file:
        for name, kind, leads in [("bin/sh", FILE, ""), *members]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, leads, 0o777
            info.devmajor, info.devminor = (7, 0) if kind == BLOCK else (0, 0)
            file.addfile(info)
    return data.getvalue()


def image_of(layer: bytes, architecture: str = "amd64") -> bytes:
    """A `docker save` of one layer."""
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {},
        "history": [{}],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": ["x:1"], "Layers": ["layer.tar"]}]
    data = io.BytesIO()
    parts = {
        "config.json": json.dumps(config),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest),
    }
    with tarfile.open(fileobj=data, mode="w") as file:
        for name, part in parts.items():
            content = part if isinstance(part, bytes) else part.encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return data.getvalue()


def attack(kind: str, members: list[Member], tmp_path: Path) -> Path:
    """Unpack these members, refused or not; the directory where that happened."""
    layer = packed(members)
    file = tmp_path / "image.tar"
    file.write_bytes(layer if kind == "tar" else image_of(layer))
    directory = tmp_path / f"{kind}-unpacked"
    directory.mkdir()
    with suppress(VtaxError):
        unpack("odd", FileSource(kind, str(file)), directory, "vtax-test-own")
        kinds = {path.lstat().st_mode & 0o170000 for path in (directory / "tree").rglob("*")}
        assert kinds <= {0o100000, 0o120000, 0o040000}
        assert not (directory / "tree/.vtax").is_symlink()
    return directory


def attempts(outside: Path) -> dict[str, list[Member]]:
    secret = f"{outside}/secret"
    return {
        "above": [(f"{above}outside/new", FILE, "") for above in ("../", "../../", "../../../")],
        "absolute": [(f"{outside}/new", FILE, "")],
        "through a link": [("out", LINK, str(outside)), ("out/new", FILE, "")],
        "through a link that climbs": [
            ("out", LINK, "../" * 40 + str(outside)[1:]),
            ("out/new", FILE, ""),
        ],
        "over a file": [("out", LINK, secret), ("out", FILE, "")],
        "hard link": [("hard", HARD, secret), ("hard", FILE, "")],
        "hard link to a link": [("out", LINK, secret), ("hard", HARD, "out"), ("hard", FILE, "")],
        "mode": [("out", LINK, str(outside)), ("out/.", DIRECTORY, "")],
        "whiteout": [("out", LINK, str(outside)), ("out/.wh.secret", FILE, "")],
        "all white": [("out", LINK, str(outside)), ("out/.wh..wh..opq", FILE, "")],
        "disk": [("disk", BLOCK, "")],
        "pipe": [("pipe", tarfile.FIFOTYPE, "")],
        "needed directories": [
            (name, LINK, str(outside)) for name in ("etc", "dev", "tmp", ".vtax", "scratch")
        ],
        "needed files": [
            (f"etc/{name}", LINK, secret) for name in ("hosts", "hostname", "resolv.conf")
        ],
    }


@pytest.mark.parametrize("name", attempts(Path("/x")))
@pytest.mark.parametrize("kind", ["tar", "docker-archive"])
def test_nothing_is_written_elsewhere_and_no_device_stays(kind, name, outside, tmp_path):
    attack(kind, attempts(outside)[name], tmp_path)


def test_members_in_any_order_write_nothing_elsewhere(
    outside: Path, tmp_path: Path, attacks: Callable[[int], int], pytestconfig: pytest.Config
) -> None:
    rng = random.Random(pytestconfig.getoption("--attack-seed"))
    names = [
        "a",
        "b",
        "a/b",
        "b/a",
        "a/../b",
        "../../../outside/secret",
        "a/secret",
        "b/secret",
        "etc",
        "etc/hosts",
    ]
    leads = [
        str(outside),
        f"{outside}/secret",
        "../../../outside",
        "../../../outside/secret",
        "a",
        "b",
        ".",
        "..",
    ]
    for number in range(attacks(20)):
        members = [
            (rng.choice(names), rng.choice((FILE, LINK, HARD, DIRECTORY)), rng.choice(leads))
            for _ in range(6)
        ]
        place = tmp_path / f"{number}"
        place.mkdir()
        attack("tar" if number % 2 else "docker-archive", members, place)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (image_of(packed([]), "arm64"), "guests here run linux on amd64"),
        (image_of(packed([("hard", HARD, "/etc/shadow")])), "could not be unpacked"),
        (image_of(packed([]))[:700], "could not be unpacked"),
        (b"no archive", "could not be unpacked"),
    ],
    ids=["processor", "hard link", "cut off", "none"],
)
def test_what_is_refused_leaves_nothing(data, what, tmp_path):
    refuse("docker-archive", data, what, tmp_path)


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        ("tar", OWN_IMAGE.depth),
        ("docker-archive", OWN_IMAGE.depth),
        ("tar", 1500),
        *thorough(("docker-archive", 1500)),  # umoci takes minutes
    ],
)
def test_directories_nested_too_deep_are_refused_and_leave_nothing(kind, levels, tmp_path):
    layer = packed(
        [("/".join("d" * n), DIRECTORY, "") for n in range(1, levels + 1)]
        + [
            ("/".join("d" * levels) + "/file", FILE, ""),
        ]
    )
    refuse(kind, layer if kind == "tar" else image_of(layer), "nested more than", tmp_path)


@pytest.mark.parametrize("kind", ["tar", "docker-archive"])
def test_a_path_that_is_too_long_is_refused_and_leaves_nothing(kind, tmp_path):
    layer = packed([("/".join(["d" * 250] * n), DIRECTORY, "") for n in range(1, 31)])
    what = "the image (could not be unpacked|has files that cannot be read)"
    refuse(kind, layer if kind == "tar" else image_of(layer), what, tmp_path)


def refuse(kind: str, data: bytes, what: str, tmp_path: Path) -> None:
    """Add an image of a file, which is refused and leaves nothing."""
    file, home = tmp_path / "image.tar", Home(tmp_path / "home").ensure()
    file.write_bytes(data)
    with Journal(home.journal) as journal, pytest.raises(VtaxError, match=what):
        images.add(home, "odd", FileSource(kind, str(file)), journal)
    assert list(home.images.iterdir()) == list(home.journal.iterdir()) == []


def test_unpacking_ends_where_the_disk_of_images_would_run_full(tmp_path, monkeypatch, golden):
    """The file is a pipe that nobody writes, so only that ends it."""
    os.mkfifo(tmp_path / "endless")
    monkeypatch.setattr(own, "_SPARE_BYTES", 1 << 62)
    (tmp_path / "place").mkdir()
    with pytest.raises(BadInput) as caught:
        unpack(
            "odd",
            FileSource("tar", str(tmp_path / "endless")),
            tmp_path / "place",
            "vtax-test-full",
        )
    golden(str(caught.value))


def test_unpacking_ends_where_there_are_more_files_than_an_image_may_have(tmp_path, monkeypatch):
    """The archive is a pipe whose writer goes on until its reader is gone."""
    monkeypatch.setattr(own, "MAX_FILES", 200)
    os.mkfifo(tmp_path / "endless")
    (tmp_path / "place").mkdir()
    written = []

    def write() -> None:
        pipe = (tmp_path / "endless").open("wb")
        with suppress(BrokenPipeError), pipe, tarfile.open(fileobj=pipe, mode="w|") as file:
            while True:
                file.addfile(tarfile.TarInfo(f"file-{len(written)}"))
                written.append(1)

    threading.Thread(target=write, daemon=True).start()
    with pytest.raises(BadInput, match="more than 200 files"):
        unpack(
            "odd",
            FileSource("tar", str(tmp_path / "endless")),
            tmp_path / "place",
            "vtax-test-many",
        )
    assert len(written) > 400
