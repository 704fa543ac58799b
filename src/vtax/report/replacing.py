"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtax.errors import BadInput, StoreError

_WRONG_PLACE = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EILSEQ,
}


STANDARD_OUTPUT = Path("-")


@contextmanager
def replacing(path: Path, option: str = "--output") -> Iterator[Path]:
    """Yield a new file beside the path that takes its place once it is whole; for `-` its content goes to standard
    output.

    option: that names the path, for hints.

    Raises BadInput when no file can be written there, or when what is there is no file (such as /dev/stdout, which
    nothing may take the place of), StoreError when it could not be written to its end.
    """
    if path == STANDARD_OUTPUT:
        with tempfile.TemporaryDirectory(prefix="vtax-") as directory:
            yield (new_path := Path(directory, "output"))
            _copy_to_standard_output(new_path)
        return
    with _new_file(path, option) as new_path:
        yield new_path
        with new_path.open("rb") as stream:
            os.fsync(stream.fileno())  # else a power cut may leave the name without content
        new_path.chmod(0o666 & ~_umask())
        new_path.replace(path)


def check_file(path: Path, option: str) -> None:
    """Raise BadInput where `replacing` would refuse to begin. An empty file is made beside the path, and removed."""
    if path != STANDARD_OUTPUT:
        with _new_file(path, option):
            pass


def check_directory(path: Path, option: str) -> None:
    """Raise BadInput where no file can be made in a directory, or in the nearest one above it where it is absent."""
    directory = path.absolute()
    while not os.path.lexists(directory):
        directory = directory.parent
    with _translated_errors(path, option):
        tempfile.TemporaryFile(dir=directory).close()


@contextmanager
def _new_file(path: Path, option: str) -> Iterator[Path]:
    """Yield an empty file beside the path, which is removed where it still has that name at the end."""
    with _translated_errors(path, option):
        if path.exists() and not path.is_file():
            kind = "Is a directory" if path.is_dir() else "Is not a file"
            raise BadInput(
                f"{path} cannot be written: {kind}",
                hint=f"choose another place with {option}, or - for standard output",
            )
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        new_path = Path(name)
        try:
            yield new_path
        finally:
            new_path.unlink(missing_ok=True)


@contextmanager
def _translated_errors(path: Path, option: str) -> Iterator[None]:
    """Within the block, errors of the system are BadInput for a wrong place, else StoreError."""
    try:
        yield
    except OSError as error:
        wrong = BadInput if error.errno in _WRONG_PLACE else StoreError
        raise wrong(
            f"{path} cannot be written: {error.strerror or error}",
            hint=f"choose another place with {option}",
        ) from error


def _copy_to_standard_output(path: Path) -> None:
    """Raise BrokenPipeError where its reader has gone."""
    sys.stdout.flush()
    with path.open("rb") as file:
        if (stream := getattr(sys.stdout, "buffer", None)) is not None:
            shutil.copyfileobj(file, stream)
            stream.flush()
            return
        with os.fdopen(os.dup(1), "wb") as output:
            shutil.copyfileobj(file, output)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
