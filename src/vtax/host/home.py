"""Where vtax keeps its files. `VTAX_HOME` moves all of them; the default is `/var/lib/vtax`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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
    def lock(self) -> Path:
        """Locked by the one measuring run of this host; holds its name."""
        return self.root / "run.lock"

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the store: `VTAX_STORE`, or SQLite in the home."""
        return os.environ.get("VTAX_STORE") or f"sqlite:///{self.root / 'store.sqlite'}"

    def ensure(self) -> Home:
        """Make the directories; returns self."""
        for path in (self.root, self.images, self.journal, self.guests):
            path.mkdir(parents=True, exist_ok=True)
        return self
