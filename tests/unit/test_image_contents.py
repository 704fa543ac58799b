"""An image that is not as it was built is refused; one whose files merely got other change times is not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from vtax.errors import ImageError
from vtax.image import contents
from vtax.image.image import Image


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """Something like an image, recorded: a program, a link, and the directories that all may write."""
    image = Image("0123456789ab", tmp_path / "0123456789ab")
    (image.tree / "usr/bin").mkdir(parents=True)
    for name in ("tmp", "scratch"):
        (image.tree / name).mkdir()
        (image.tree / name).chmod(0o1777)
    (image.tree / "usr/bin/tool").write_bytes(b"tool")
    (image.tree / "bin").symlink_to("usr/bin")
    with image.disk.open("wb") as disk:
        disk.truncate(8 << 20)
        disk.seek(5 << 20)
        disk.write(b"data")
    contents.record(image)
    return image


def test_the_digest_is_of_what_guests_get_and_of_no_time(image, tmp_path):
    found = contents.digest(image)
    assert len(found) == 64
    assert contents.facts(image) == {"image_digest": found}
    other = Image(image.key, tmp_path / "other")
    shutil.copytree(image.directory, other.directory, symlinks=True)
    os.utime(other.tree / "usr/bin/tool", (1, 1))
    other.disk.write_bytes(b"made again")
    other.manifest.write_text("{}")
    contents.record(other)
    assert contents.digest(other) == found
    for path in (
        other.tree / "usr/bin/tool",
        other.kernel,
        other.initrd,
        other.directory / "modules",
    ):
        path.write_bytes(b"another")
        contents.record(other)
        assert contents.digest(other) != found
        found = contents.digest(other)
    (other.directory / contents.LIST).unlink()
    assert contents.facts(other) == {}


def test_an_untouched_image_passes(image):
    contents.check(image)


def with_the_same_size_and_time(image: Image) -> None:
    path = image.tree / "usr/bin/tool"
    before = path.stat()
    path.write_bytes(b"evil")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def with_a_byte_in_a_hole(image: Image) -> None:
    with image.disk.open("r+b") as disk:
        disk.seek(1 << 20)
        disk.write(b"\1")


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        (lambda image: (image.tree / "scratch/x").write_text("x"), '"tree/scratch/x" was added'),
        (
            lambda image: (image.tree / "tmp/\n\x1b[31m").mkdir(),
            '"tree/tmp/\\n\\u001b[31m" was added',
        ),
        (with_the_same_size_and_time, '"tree/usr/bin/tool" was changed'),
        (
            lambda image: (image.tree / "usr/bin/tool").chmod(0o4755),
            '"tree/usr/bin/tool" was changed',
        ),
        (lambda image: (image.tree / "usr/bin/tool").unlink(), '"tree/usr/bin/tool" is missing'),
        (
            lambda image: ((image.tree / "bin").unlink(), (image.tree / "bin").symlink_to("/bin")),
            '"tree/bin" was ch',
        ),
        (lambda image: shutil.rmtree(image.tree), '"tree" is missing'),
        (with_a_byte_in_a_hole, '"disk.raw" was changed'),
        (lambda image: (image.directory / contents.LIST).unlink(), '"contents" is missing'),
    ],
)
def test_a_changed_image_is_refused_with_what_changed(image, change, printed):
    change(image)
    for _ in range(2):
        with pytest.raises(ImageError) as caught:
            contents.check(image)
        assert printed in caught.value.what
        assert f"vtax image remove {image.key}" in caught.value.hint


def test_other_links_to_its_files_and_a_copy_are_no_changes(image, tmp_path):
    os.link(image.tree / "usr/bin/tool", tmp_path / "link")
    contents.check(image)
    copy = Image(image.key, tmp_path / "copy")
    shutil.copytree(image.directory, copy.directory, symlinks=True)
    assert copy.disk.read_bytes() == image.disk.read_bytes()
    contents.check(copy)


def test_what_was_read_once_is_not_read_again(image, monkeypatch):
    (image.tree / "usr/bin/tool").chmod(0o600)
    (image.tree / "usr/bin/tool").chmod(0o644)
    contents.check(image)
    monkeypatch.setattr(contents, "_hash", lambda *_: pytest.fail("read a file"))
    contents.check(image)


def test_an_image_whose_stamp_cannot_be_written_is_read_each_time(image):
    stamp = image.directory / contents.STAMP
    stamp.unlink()
    stamp.symlink_to("missing/stamp")  # to be written as little as on a read-only mount
    contents.check(image)
    (image.tree / "usr/bin/tool").write_bytes(b"tool of others")
    with pytest.raises(ImageError, match='tool" was changed'):
        contents.check(image)
