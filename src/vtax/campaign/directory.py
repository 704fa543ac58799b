"""The directory of a campaign: its settings, its pack, what is known of each host, and the bundles that came back.

Every file of a host is replaced whole, so that a controller that is killed leaves what it knew. One controller at a
time holds the lock, and a program that it started keeps it held until that has ended too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from vtax.campaign.host_record import MAX_DETAIL, CampaignHost, Reason
from vtax.campaign.settings import Settings
from vtax.errors import BadInput, Busy
from vtax.foreign_text import one_line
from vtax.host.foreign_file import read_foreign
from vtax.host.lock import holder_of
from vtax.host.removal import directories
from vtax.limits import CAMPAIGN
from vtax.report.replacing import replacing

FILE, PACK, STUDY = "campaign.toml", "pack.vtax-pack", "study"


def give_to_caller(directory: Path) -> None:
    """Give a new directory, and all in it, to the user who called sudo: further commands need no root."""
    user, group = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (user.isdecimal() and group.isdecimal()):
        return
    uid, gid = int(user), int(group)
    for at, name in directories(directory):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=at)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        os.chown(entry.name, uid, gid, dir_fd=descriptor, follow_symlinks=False)
        finally:
            os.close(descriptor)
        os.chown(name, uid, gid, dir_fd=at, follow_symlinks=False)


@dataclass(frozen=True)
class Campaign:
    """A campaign in its directory."""

    root: Path
    settings: Settings

    @classmethod
    def open(cls, directory: Path) -> Campaign:
        """Open one. Raises BadInput for what is none."""
        root = directory.absolute()
        return cls(root, Settings.read(root / FILE))

    @property
    def pack(self) -> Path:
        """The pack that hosts are prepared from."""
        return self.root / PACK

    @property
    def study(self) -> Path:
        """The file of the study, as it is in the pack."""
        return self.root / STUDY / self.settings.study

    @property
    def log(self) -> Path:
        """The file of what ansible-playbook printed."""
        return self.root / "log"

    @property
    def incoming(self) -> Path:
        """Where bundles are brought to before they are checked."""
        return self.root / "incoming"

    @property
    def is_aborted(self) -> bool:
        """Whether nothing more is to be launched."""
        return (self.root / "aborted").exists()

    def abort(self) -> None:
        """Have nothing more launched."""
        (self.root / "aborted").touch()

    def bundle(self, host: str, id_: str) -> Path:
        """Return the path of a collected bundle."""
        return self.root / "bundles" / quote(host, safe="") / f"{id_}.vtax.gz"

    def hosts(self) -> list[CampaignHost]:
        """Return what is known of every host, by name; see `host`."""
        with suppress(FileNotFoundError):
            return [self._read(path) for path in sorted((self.root / "hosts").glob("*.json"))]
        return []

    def host(self, name: str) -> CampaignHost | None:
        """Return what is known of a host; None where it is not of the campaign.

        One whose file is damaged has failed, for that reason: it hinders no other. Raises BadInput for a file that
        this user may not read.
        """
        path = self._path(name)
        return self._read(path) if path.exists() else None

    def keep(self, host: CampaignHost) -> None:
        """Write what is known of a host."""
        path = self._path(host.name)
        path.parent.mkdir(exist_ok=True)
        with replacing(path, "-o") as file:
            file.write_text(host.text())

    @contextmanager
    def lock(self) -> Iterator[int]:
        """Hold the lock of the controller; yields its descriptor, for programs that are to hold it too.

        Raises Busy, naming the other controller.
        """
        with self._hold_lock("lock", "controls") as descriptor:
            yield descriptor

    @contextmanager
    def reporting(self) -> Iterator[Campaign]:
        """Hold the lock of reports, of which two at once would merge the same sessions; yields the campaign.

        A controller may work meanwhile: what has arrived is reported. Raises Busy, naming the other report.
        """
        with self._hold_lock("report.lock", "reports"):
            yield self

    @contextmanager
    def _hold_lock(self, name: str, verb: str) -> Iterator[int]:
        """Hold a lock. verb: of what its holder does."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.root / name, flags, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(
                    f"{holder_of(descriptor)} {verb} this campaign",
                    where=str(self.root),
                    hint="wait for its end: this exit status means: try again later",
                ) from None
            yield descriptor
        finally:
            os.close(descriptor)

    @classmethod
    @contextmanager
    def locked(cls, directory: Path) -> Iterator[Campaign]:
        """Hold the lock of a campaign, and yield it as it is from then on. Raises as `open` and `lock`."""
        with cls.open(directory).lock():
            yield cls.open(directory)

    def _path(self, host: str) -> Path:
        return self.root / "hosts" / f"{quote(host, safe='')}.json"

    def _read(self, path: Path) -> CampaignHost:
        try:
            return CampaignHost.of_text(
                read_foreign(path, "a record", CAMPAIGN.size_bytes).decode()
            )
        except OSError as error:
            raise BadInput(f"it cannot be read: {error}", where=str(path)) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = Reason("damaged", one_line(f"{path.name}: {error}", MAX_DETAIL))
            return CampaignHost(unquote(path.stem), state="failed", reason=reason)
