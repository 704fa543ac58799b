"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtax.errors import BadInput, StoreError

_WRONG_PLACE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside the path that takes its place once it is whole.

    Raises BadInput when no file can be written there, StoreError when it could not be written to its end.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        new = Path(name)
        try:
            yield new
            new.chmod(0o666 & ~_umask())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        kind = BadInput if error.errno in _WRONG_PLACE else StoreError
        raise kind(
            f"{path} cannot be written: {error.strerror or error}", cure="choose another place with --output"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
