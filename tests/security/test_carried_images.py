"""Images in files: what arrives is what was built, to the last bit; what is forged is refused and leaves nothing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from vtax.cli.main import group
from vtax.errors import BadInput, ImageError
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.image import contents, unpacking
from vtax.image.carrying import Carried, export_image, import_image
from vtax.image.export import disk_maker, write_archive, write_disk
from vtax.image.image import Image
from vtax.image.recipe import DEFAULT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="carrying an image needs root")
DISK_BYTES = 64 << 20
CAPABILITY = bytes.fromhex("0100000200200000") + bytes(12)  # CAP_NET_RAW, revision 2


@pytest.fixture
def built(tmp_path: Path) -> Image:
    """A small image as a build leaves it: setuid, capabilities, a hard link, a device, times within a second."""
    image = Image(DEFAULT.key, Home(tmp_path / "there").ensure().images / DEFAULT.key)
    tree = image.tree
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "dev").mkdir()
    (tree / "empty").mkdir(mode=0o1777)
    os.mknod(tree / "dev/null", 0o020666, os.makedev(1, 3))
    tool = tree / "usr/bin/tool"
    tool.write_bytes(b"tool" * 70_000)
    os.chown(tool, 7, 8)
    tool.chmod(0o4755)
    os.utime(tool, ns=(1, 1_234_567_890_987_654_321))
    os.link(tool, tree / "usr/bin/other")
    capable = tree / "usr/bin/ping"
    capable.write_bytes(b"ping")
    os.setxattr(capable, "security.capability", CAPABILITY)
    (tree / "bin").symlink_to("usr/bin")
    (tree / "nowhere").symlink_to("/etc/shadow")
    (image.directory / "modules").mkdir()
    (image.directory / "modules/ext4.ko").write_bytes(b"module")
    for path in (image.kernel, image.initrd):
        path.write_bytes(path.name.encode())
    write_archive(tree, image.archive)
    write_disk(tree, image.disk, DISK_BYTES)
    record = {
        "key": DEFAULT.key,
        "tree_key": DEFAULT.tree_key,
        "recipe": DEFAULT.record(),
        "kernel": "6.12-amd64",
        "packages": {"bash": "5.2"},
        "disk_bytes": DISK_BYTES,
        "mke2fs": disk_maker(),
    }
    image.manifest.write_text(json.dumps(record))
    contents.record(image)
    return image


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "here").ensure()


def imported(home: Home, file: Path, digest: str = "") -> Carried:
    with Journal(home.journal) as journal:
        return import_image(home, file, journal, digest)


def left(home: Home) -> list[str]:
    return sorted(path.name for path in home.images.iterdir() if path.name != "build.lock")


def refused(home: Home, file: Path, error: type[Exception] = BadInput) -> str:
    with pytest.raises(error) as caught:
        imported(home, file)
    assert left(home) == []
    assert list(home.journal.iterdir()) == []
    return str(caught.value)


def test_an_image_arrives_as_it_was_built_disk_and_archive_too(built, home, tmp_path):
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    found = imported(home, file)
    there = Image(built.key, home.images / built.key)
    assert found == Carried(built.key, contents.digest(built), is_new=True)
    assert contents.digest(there) == contents.digest(built)
    contents.check(there)
    for path in (built.disk, built.archive):
        assert (there.directory / path.name).read_bytes() == path.read_bytes()
    tool, other = (there.tree / "usr/bin" / name for name in ("tool", "other"))
    seen = tool.stat()
    assert (seen.st_uid, seen.st_gid, seen.st_mode & 0o7777) == (7, 8, 0o4755)
    assert seen.st_mtime_ns == 1_234_567_890_987_654_321
    assert seen.st_ino == other.stat().st_ino
    assert os.getxattr(there.tree / "usr/bin/ping", "security.capability") == CAPABILITY
    assert imported(home, file) == Carried(built.key, found.digest, is_new=False)
    assert left(home) == [built.key]


def test_an_image_needs_room_for_its_files_not_for_those_of_machines(
    built, home, tmp_path, free_disk
):
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    free_disk(1 << 10)
    assert "1 KiB are free" in refused(home, file)
    free_disk(DISK_BYTES // 2)
    assert imported(home, file).is_new


def test_a_disk_is_the_same_whenever_and_wherever_it_is_made(built, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "--archive", built.tree, copy], check=True)
    for path in copy.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.read_bytes()
    write_disk(copy, tmp_path / "disk", DISK_BYTES)
    write_archive(copy, tmp_path / "archive")
    assert (tmp_path / "disk").read_bytes() == built.disk.read_bytes()
    assert (tmp_path / "archive").read_bytes() == built.archive.read_bytes()
    assert (
        subprocess.run(
            ["e2fsck", "-fn", tmp_path / "disk"], capture_output=True, check=False
        ).returncode
        == 0
    )


def test_another_digest_and_other_files_of_the_same_recipe_are_refused(built, home, tmp_path):
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    with pytest.raises(BadInput, match="has the digest"):
        imported(home, file, "0" * 64)
    imported(home, file, contents.digest(built))
    (built.tree / "usr/bin/more").write_text("more")
    built.archive.unlink()
    write_archive(built.tree, built.archive)
    built.disk.unlink()
    write_disk(built.tree, built.disk, DISK_BYTES)
    contents.record(built)
    export_image(built, file)
    with pytest.raises(BadInput, match="is here with other files"):
        imported(home, file)


def test_what_cannot_be_made_here_alike_is_refused_with_what_made_it(built, home, tmp_path):
    with built.disk.open("r+b") as disk:  # as of another mke2fs
        disk.seek(1080)
        disk.write(b"\7")
    contents.record(built)
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    assert '"disk.raw" cannot be made here' in refused(home, file)


def test_commands_export_and_import(built, home, tmp_path, use_home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use_home(tmp_path / "there")
    runner = CliRunner()
    said = runner.invoke(group, ["image", "export", built.key], catch_exceptions=False).output
    assert contents.digest(built) in said
    use_home(home.root)
    answer = runner.invoke(
        group, ["image", "import", f"{built.key}.tar.zst", "--json"], catch_exceptions=False
    )
    assert json.loads(answer.stdout) == {
        "schema": "vtax.image-import/1",
        "key": built.key,
        "digest": contents.digest(built),
        "is_new": True,
    }
    listed = json.loads(
        runner.invoke(group, ["image", "list", "--json"], catch_exceptions=False).stdout
    )
    assert [each["digest"] for each in listed] == [contents.digest(built)]


def forged(
    built: Image, target: Path, change: Callable[[tarfile.TarInfo], list[tarfile.TarInfo]]
) -> Path:
    """The archive of an image with members changed, left out or added; what is added holds nothing but zeros."""
    plain = target.with_suffix(".tar")
    names = [
        name
        for name in (*unpacking.FILES, *unpacking.DIRECTORIES)
        if (built.directory / name).exists()
    ]
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in names:
            for path in [built.directory / name, *sorted((built.directory / name).rglob("*"))]:
                member = archive.gettarinfo(path, str(path.relative_to(built.directory)))
                for made in change(member):
                    content = (
                        path.read_bytes() if made is member and made.isreg() else bytes(made.size)
                    )
                    archive.addfile(made, io.BytesIO(content) if made.isreg() else None)
    return packed(plain.read_bytes(), target)


def packed(content: bytes, target: Path) -> Path:
    target.write_bytes(
        subprocess.run(["zstd", "-qc", "-1"], input=content, capture_output=True, check=True).stdout
    )
    return target


def nested(member: tarfile.TarInfo) -> list[tarfile.TarInfo]:
    """1 400 directories in one another more, before the tree's last file."""
    if member.name != "tree/usr/bin/tool":
        return [member]
    made = [tarfile.TarInfo(f"tree{'/d' * levels}") for levels in range(1, 1401)]
    for each in made:
        each.type = tarfile.DIRTYPE
    return [*made, member]


def added(name: str, **changes: object) -> Callable[[tarfile.TarInfo], list[tarfile.TarInfo]]:
    """A member more, before the tree's last one."""

    def change(member: tarfile.TarInfo) -> list[tarfile.TarInfo]:
        if member.name != "tree/usr/bin/tool":
            return [member]
        more = tarfile.TarInfo(name)
        for key, value in changes.items():
            setattr(more, key, value)
        return [more, member]

    return change


FORGED: dict[str, tuple[Callable[[tarfile.TarInfo], list[tarfile.TarInfo]], str]] = {
    "a name above": (added("tree/../../escaped"), "may not be there"),
    "an absolute name": (added("/tmp/escaped"), "may not be there"),
    "a name of no image": (added("bin/escaped"), "may not be there"),
    "a second disk": (added("disk.raw"), "may not be there"),
    "a name beyond a link": (added("tree/bin/escaped"), "may not be there"),
    "a name twice": (added("tree/usr/bin"), "may not be there"),
    "a link to no file": (added("tree/x", type=tarfile.LNKTYPE, linkname="/etc/shadow"), "a link to no file"),
    "a link above": (added("tree/x", type=tarfile.LNKTYPE, linkname="tree/../../../etc/shadow"), "a link to no file"),
    "a link to a link": (added("tree/x", type=tarfile.LNKTYPE, linkname="tree/nowhere"), "a link to no file"),
    "a device of the host": (
        added("tree/dev/sda", type=tarfile.CHRTYPE, devmajor=8, devminor=0), "a device that no guest needs",
    ),
    "a device elsewhere": (
        added("tree/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "a device that no guest needs",
    ),
    "a block device": (added("tree/dev/null2", type=tarfile.BLKTYPE, devmajor=8), "neither file, directory"),
    "a pipe": (added("tree/pipe", type=tarfile.FIFOTYPE), "neither file, directory"),
    "a file more": (added("tree/more", size=9), '"tree/more" is not what its list says'),
    "a capability too long": (
        added("tree/more", pax_headers={"SCHILY.xattr.security.capability": "x" * 99}), "a capability is too long",
    ),
    "a header too long": (added("tree/more", pax_headers={"comment": "x" * (2 << 20)}), "a header is too long"),
    "an owner beyond all": (added("tree/more", uid=1 << 33), "belongs to nobody"),
    "no time": (added("tree/more", pax_headers={"mtime": "-5"}), "a time is none"),
    "directories in one another": (nested, "nested more than"),
    "no kernel": (lambda member: [member] if member.name != "vmlinuz" else [], "vmlinuz is missing"),
    "no manifest": (lambda member: [member] if member.name != "manifest.json" else [], "manifest.json is not where"),
    "a file less": (lambda member: [member] if member.name != "tree/usr/bin/ping" else [], "is not what its list"),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_archive_is_refused_and_leaves_nothing(built, home, tmp_path, what):
    change, says = FORGED[what]
    assert says in refused(home, forged(built, tmp_path / "forged.zst", change))
    assert not (tmp_path / "escaped").exists()
    assert not Path("/tmp/escaped").exists()


def test_a_file_larger_than_any_image_is_refused_before_it_is_read(built, home, tmp_path):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in unpacking.FILES[:2]:
            archive.add(built.directory / name, name)
        member = tarfile.TarInfo("vmlinuz")
        member.size = unpacking.MAX_BYTES + 1
        plain.write(member.tobuf(tarfile.GNU_FORMAT))
    assert "it holds more than" in refused(home, packed(plain.getvalue(), tmp_path / "huge.zst"))


@pytest.mark.parametrize(
    "content",
    [b"", b"text", b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + b"x" * 999, b"\x1f\x8b\x08\x00"],
)
def test_what_is_no_archive_is_refused(home, tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    refused(home, tmp_path / "x")
    refused(home, tmp_path / "missing")
    refused(home, Path("/dev/zero"))
    refused(home, packed(content * 1000, tmp_path / "y"))


def test_an_archive_that_is_cut_off_or_goes_on_is_refused(built, home, tmp_path):
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    whole = file.read_bytes()
    for share in (0.2, 0.6, 0.99):
        file.write_bytes(whole[: int(share * len(whole))])
        assert "the image is damaged" in refused(home, file)
    plain = subprocess.run(["zstd", "-dcq"], input=whole, capture_output=True, check=True).stdout
    assert "something follows its end" in refused(home, packed(plain + b"more", file))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"key": "0" * 12}, "its manifest is not"),
        ({"disk_bytes": -4096}, "its manifest is not"),
        ({"disk_bytes": 1 << 60}, "its manifest is not"),
        ({"kernel": "\x1b[31m"}, "its manifest is not"),
        ({"packages": []}, "its manifest is not"),
        ({"recipe": {**DEFAULT.record(), "layer": ["pi"]}}, "its manifest is not"),
        ({"recipe": {**DEFAULT.record(), "more": 1}}, "which this vtax does not know"),
        (
            {"recipe": {**DEFAULT.record(), "data": [{"name": 1}]}},
            "its recipe has data that are none",
        ),
        ({"recipe": []}, "the image is damaged"),
    ],
)
def test_a_manifest_that_is_none_is_refused(built, home, tmp_path, changes, says):
    built.manifest.write_text(json.dumps({**json.loads(built.manifest.read_text()), **changes}))
    contents.record(built)
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    assert says in refused(home, file)


def test_a_full_disk_is_an_error_of_its_own_and_leaves_nothing(built, home, tmp_path, monkeypatch):
    def full(self: object, member: object, path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(unpacking.Unpacking, "_copy", full)
    file = tmp_path / "image.tar.zst"
    export_image(built, file)
    assert "No space left on device" in refused(home, file, ImageError)
