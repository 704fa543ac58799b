"""The directories of vtax. `VTAX_HOME` moves all of them; the default is `/var/lib/vtax`.

All users may enter the home and read the store; only the user who runs vtax (usually root) may enter directories
with setuid programs, executed files and locks (docs/architecture.md).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import BadInput
from vtax.host.left import LEFT
from vtax.host.trust import private_directory, refuse_foreign

DEFAULT_HOME = Path("/var/lib/vtax")
_HOME_MODE = 0o755  # independent of the umask: all users may read the store


@dataclass(frozen=True)
class Home:
    """The directory tree of one installation."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home named by `VTAX_HOME`, or the default. Creates nothing."""
        return cls(Path(os.environ.get("VTAX_HOME") or DEFAULT_HOME).absolute())

    @classmethod
    def existing(cls) -> Home:
        """Return the home of `from_environment`, for commands that read what is in it.

        Raises BadInput where `VTAX_HOME` names no directory: a misspelt home would look like lost runs. The default
        may be absent, as before the first run.
        """
        home = cls.from_environment()
        if os.environ.get("VTAX_HOME") and not home.root.is_dir():
            raise BadInput(
                "there is no such directory",
                where=f"VTAX_HOME={home.root}",
                hint="correct VTAX_HOME, or unset it; a run makes a new home",
            )
        return home

    @property
    def images(self) -> Path:
        """Built images, one directory per recipe hash."""
        return self.root / "images"

    @property
    def journal(self) -> Path:
        """One journal file per vtax process with registered resources."""
        return self.root / "journal"

    @property
    def guests(self) -> Path:
        """Private working directories of running guests and private daemons."""
        return self.root / "guests"

    @property
    def left(self) -> Path:
        """Files of guests that could not be removed, which host.left puts there."""
        return self.root / LEFT

    @property
    def consents(self) -> Path:
        """Recorded consents to programs of study files."""
        return self.root / "consents.json"

    @property
    def events(self) -> Path:
        """Events of the run that measures, or measured last; runner.event_log writes them."""
        return self.root / "events.jsonl"

    @property
    def docker(self) -> Path:
        """Data of private Docker daemons that persists between runs: copies of images."""
        return self.root / "docker"

    @property
    def store_file(self) -> Path:
        """The store, where `VTAX_STORE` names no other."""
        return self.root / "store.sqlite"

    @property
    def store_url(self) -> str | Path:
        """The store: the SQLAlchemy URL in `VTAX_STORE`, or the SQLite file in the home."""
        return os.environ.get("VTAX_STORE") or self.store_file

    def ensure(self) -> Home:
        """Create the directories with their modes; returns self.

        Raises BadInput when creation fails, and for a home that other users own or can write to.
        """
        refuse_foreign(self.root)
        try:
            for path in reversed([self.root, *self.root.parents]):
                if not path.exists():
                    path.mkdir()
                    path.chmod(_HOME_MODE)
        except OSError as error:
            raise BadInput(
                f"the home of vtax cannot be created: {error.strerror}",
                where=str(path),
                hint="free some space, or name another directory in VTAX_HOME",
            ) from error
        for path in (self.images, self.journal, self.guests):
            private_directory(path)
        for path in (self.docker, self.left):
            if path.exists():
                private_directory(path)
        return self
