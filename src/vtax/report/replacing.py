"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtax.errors import StoreError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside the path that takes its place once it is whole. Raises StoreError when that cannot be."""
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
        raise StoreError(
            f"{path} cannot be written: {error.strerror or error}", cure="choose another place with --output"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
