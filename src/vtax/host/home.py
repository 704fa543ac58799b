"""Where vtax keeps its files. `VTAX_HOME` moves all of them; the default is `/var/lib/vtax`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import BadInput

DEFAULT_HOME = Path("/var/lib/vtax")


@dataclass(frozen=True)
class Home:
    """The directory tree of one installation."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """The home named by `VTAX_HOME`, or the default. Creates nothing."""
        return cls(Path(os.environ.get("VTAX_HOME") or DEFAULT_HOME).absolute())

    @property
    def images(self) -> Path:
        """Built images, one directory per recipe hash."""
        return self.root / "images"

    @property
    def journal(self) -> Path:
        """One journal file per vtax process that holds resources."""
        return self.root / "journal"

    @property
    def guests(self) -> Path:
        """Private working directories of running guests and private daemons."""
        return self.root / "guests"

    @property
    def consents(self) -> Path:
        """What root agreed to run because study files name it."""
        return self.root / "consents.json"

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the store: `VTAX_STORE`, or SQLite in the home."""
        return os.environ.get("VTAX_STORE") or f"sqlite:///{self.root / 'store.sqlite'}"

    def ensure(self) -> Home:
        """Make the directories; returns self. Raises BadInput when they cannot be made."""
        for path in (self.root, self.images, self.journal, self.guests):
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadInput(
                    f"the home of vtax cannot be made: {error.strerror}",
                    where=str(path),
                    cure="free some space, or name another directory in VTAX_HOME",
                ) from error
        return self
