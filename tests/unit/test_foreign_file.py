"""Files of others: no pipe is waited for, no device is opened, and nothing is read without an end."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from golden_files import Golden

from vtax.errors import BadInput
from vtax.host.foreign_file import copy_foreign, open_foreign, read_foreign

MOST = 1000


def bind(path: Path) -> None:
    """Make a socket at a path, however long that is."""
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as made:
        made.bind(f"{short}/s")
        Path(short, "s").rename(path)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a named pipe"),
        (os.mkdir, "a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (bind, "a socket"),
    ],
)
def test_what_is_no_regular_file_is_named_and_not_opened(
    tmp_path: Path, make: Callable[[Path], object], kind: str
) -> None:
    make(tmp_path / "odd")
    for read in (
        lambda: open_foreign(tmp_path / "odd", "a bundle", MOST).__enter__(),
        lambda: read_foreign(tmp_path / "odd", "a bundle", MOST),
        lambda: copy_foreign(tmp_path / "odd", "a bundle", MOST, tmp_path / "copy"),
    ):
        with pytest.raises(BadInput, match=f"is {kind}, not a bundle"):
            read()
    assert not (tmp_path / "copy").exists()


def test_a_link_is_followed_only_where_a_user_named_it(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_foreign(tmp_path / "link", "a bundle", MOST) == b"x"
    with pytest.raises(BadInput) as caught:
        read_foreign(tmp_path / "link", "a bundle", MOST, follows_links=False)
    golden(str(caught.value))


def test_a_file_holds_as_much_as_it_may_and_not_a_byte_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * MOST)
    assert len(read_foreign(tmp_path / "file", "a bundle", MOST)) == MOST
    for read in (read_foreign, lambda *given: copy_foreign(*given, None)):
        with pytest.raises(BadInput, match="holds at most 999 bytes"):
            read(tmp_path / "file", "a bundle", MOST - 1)


def test_a_file_that_says_that_it_is_empty_is_bounded_as_it_is_read() -> None:
    for read in (read_foreign, lambda *given: copy_foreign(*given, None)):
        with pytest.raises(BadInput, match="holds at most"):
            read(Path("/proc/self/environ"), "a bundle", 1)
