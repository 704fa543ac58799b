"""The Docker daemon that guests are started by: the host's own where one runs, else a private one.

A private daemon lives as long as the journal of the vtax process that started it: it is registered there before any
guest, so closing the journal ends the guests first and then the daemon. It runs in a network namespace of its own (it
cannot touch the host's network), and in a mount namespace where /run is empty and writes to /etc are kept aside, so
nothing of it is seen on the host. Only its layers stay, in VTAX_HOME/docker, as importing an image takes time.

A daemon maps the ids of all its containers or of none (`--userns-remap`), so guests with a user namespace have one of
their own. Which ids those are stands in a subuid file that only its mount namespace has.

An image that is removed leaves no copy in Docker. The data directory of a private daemon (VTAX_HOME/docker/STORAGE)
holds nothing but guest images, which are imported again when they are needed, so it goes as a whole; no daemon need
run, or even be installed, for that.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import socket
import struct
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from vtax.errors import BadInput, PlatformError, VtaxError
from vtax.host import namespaces
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, run, spawn
from vtax.host.resources import RestoreCommand, TaggedProcesses, Tree
from vtax.host.trust import private_directory
from vtax.host.user_namespace import IdRange, unused_range
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms.oci import runtime as oci_runtime

_HOST_SOCKETS = (Path("/run/docker.sock"), Path("/var/run/docker.sock"))
_PRIVATE_SOCKET = "/run/vtax/docker.sock"
_PRIVATE_DATA = Path("/run/vtax/data")
_REMAPPED = "65534"  # the user that every host has and nobody is; dockerd wants one that exists
REPOSITORY = "vtax-guest"
_GONE = ("No such", "is already in progress")  # the second: the daemon removes it by itself
_NO_DAEMON = "connect"
_CREDENTIALS = struct.Struct("=iII")  # struct ucred, unix(7)
_IMPORT_TIMEOUT_S = 900.0
_API_TIMEOUT_S = 10.0
_REMAPPED_ROOT = re.compile(r"/(\d+)\.\d+$")
"""The directory of a daemon with --userns-remap: UID.GID."""
_LATE_S = 2.0
"""Max. time for a daemon to make a container whose client was killed after the request."""


@dataclass(frozen=True)
class Daemon:
    """A running daemon.

    private: it is ours, with the cgroupfs driver.
    storage: name of its storage driver.
    userns: its containers have a user namespace.
    runtimes: name -> its program, a path or one on PATH.
    ids: the host's ids of that namespace.
    """

    socket: Path
    private: bool
    storage: str
    version: str
    userns: bool = False
    runtimes: Mapping[str, str] = field(default_factory=lambda: {"runc": "runc"})
    ids: IdRange | None = None

    def command(self, *arguments: str) -> list[str]:
        """Return a command of the docker client, without anything of the user's client configuration."""
        return ["docker", "--config=/nonexistent", f"--host=unix://{self.socket}", *arguments]

    def get(self, path: str) -> Any:
        """Ask the Engine API for a path, from JSON. Raises PlatformError."""
        try:
            return _get(self.socket, path)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise PlatformError(
                Note("docker-silent", error=error), where=str(self.socket)
            ) from error

    def pids(self) -> list[int]:
        """Return the daemon and what it started, such as its containerd; none when another program has its socket."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.connect(str(self.socket))
                credentials = stream.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
                )
            (pid, _, _) = _CREDENTIALS.unpack(credentials)
            children = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
        except OSError:
            return []
        return [pid, *map(int, " ".join(children).split())]

    def image_names(self) -> list[str]:
        """Return the names of the guest images that it holds."""
        listing = self.command("image", "ls", "--format={{.Repository}}:{{.Tag}}", REPOSITORY)
        return run(listing).stdout.split()

    def ensure_image(self, image: Image, *, keep_others: bool = False) -> str:
        """Return the image's name in this daemon, imported when it is not there yet.

        vtax's older ones go then, unless they are in use. keep_others: they stay; for an image that is soon gone.
        """
        name = f"{REPOSITORY}:{image.key}"
        present_names = self.image_names()
        if name not in present_names:
            run(self.command("import", str(image.archive), name), timeout_s=_IMPORT_TIMEOUT_S)
            if present_names and not keep_others:
                run(self.command("image", "rm", *present_names), check=False)
        return name


def host_daemon() -> Daemon | None:
    """Return the daemon that runs on this host, if one answers; a remote one (DOCKER_HOST=tcp:...) is none."""
    sockets = list(_HOST_SOCKETS)
    address = os.environ.get("DOCKER_HOST", "")
    if address.startswith("unix://"):
        sockets = [Path(address.removeprefix("unix://"))]
    for path in sockets:
        if daemon := _ask(path, private=False):
            return daemon
    return None


def _ask(path: Path, *, private: bool) -> Daemon | None:
    """Return the daemon that answers at a socket; None without one."""
    with suppress(OSError, ValueError, KeyError, http.client.HTTPException):
        info = _get(path, "/info")
        options = info.get("SecurityOptions") or ()
        userns = any("name=userns" in option.split(",") for option in options)
        runtimes = {name: runtime.get("path", name) for name, runtime in info["Runtimes"].items()}
        root = _REMAPPED_ROOT.search(info["DockerRootDir"]) if userns else None
        ids = IdRange(int(root[1])) if root else None
        return Daemon(path, private, info["Driver"], info["ServerVersion"], userns, runtimes, ids)
    return None


_private: WeakKeyDictionary[Journal, dict[str, tuple[Daemon, subprocess.Popen[bytes]]]] = (
    WeakKeyDictionary()
)


def private_daemon(
    journal: Journal, storage: str, *, userns: bool = False, is_temporary: bool = False
) -> Daemon:
    """Return the private daemon of a journal with a storage driver, started when it does not run yet.

    userns: the one whose containers have a user namespace.
    is_temporary: its layers are kept in memory only.
    Raises PlatformError with the end of the daemon's log.
    """
    daemons = _private.setdefault(journal, {})
    name = f"{storage}-userns" if userns else storage
    if name in daemons:
        daemon, process = daemons[name]
        if process.poll() is None:
            return daemon
    ids = unused_range() if userns else None
    daemon, process = _start(journal, storage, name, ids, is_temporary)
    daemons[name] = daemon, process
    return daemon


def _start(
    journal: Journal, storage: str, name: str, ids: IdRange | None, is_temporary: bool
) -> tuple[Daemon, subprocess.Popen[bytes]]:
    home = Home.from_environment().ensure()
    tag = f"vtax-dockerd-{secrets.token_hex(4)}"
    directory = home.guests / tag
    journal.register(Tree(str(directory)))
    etc, work = directory / "etc", directory / "work"
    for path in (etc, work):
        path.mkdir(parents=True)
    runtimes = {}
    for runtime in oci_runtime.PACKAGES:
        program = find_program(runtime)
        if program and runtime != "runc":
            runtimes[runtime] = {"path": program}
    (directory / "daemon.json").write_text(json.dumps({"runtimes": runtimes}))
    mounts = [
        namespaces.overlay(Path("/etc"), etc, work, Path("/etc")),
        namespaces.tmpfs(Path("/run")),
        *oci_runtime.one_hierarchy(),
    ]
    pid_file = directory / "pid" if is_temporary else pid_file_of(home, name)
    if not is_temporary:
        private_directory(home.docker)
        data = home.docker / name
        data.mkdir(parents=True, exist_ok=True)
        _refuse_second_owner(pid_file)
        mounts.append(replace(namespaces.bind(data, _PRIVATE_DATA), make=True))
    if ids:
        for name_of_file in ("subuid", "subgid"):
            (etc / name_of_file).write_text(f"{_REMAPPED}:{ids.first}:{ids.count}\n")
    log = directory / "daemon.log"
    journal.register(TaggedProcesses(tag, "the private Docker daemon"))
    with log.open("wb") as errors:
        try:
            process = spawn(
                daemon_argv(directory / "daemon.json", pid_file, storage, userns=ids is not None),
                tag=tag,
                stderr=errors.fileno(),
                before_exec=namespaces.private(mounts, network=True),
            )
        except (VtaxError, subprocess.SubprocessError) as error:
            raise PlatformError(
                Note("private-docker-not-started", error=error), where=log.read_text()
            ) from error
    ask = partial(_ask, Path(f"/proc/{process.pid}/root{_PRIVATE_SOCKET}"), private=True)
    silent = Note("private-docker-silent")
    return oci_runtime.first_answer(process, log, ask, silent), process


def daemon_argv(config: Path, pid_file: Path, storage: str, *, userns: bool = False) -> list[str]:
    """Return the command of a daemon that makes no bridge, no firewall rules and no forwarding."""
    return [
        "dockerd",
        f"--config-file={config}",
        f"--data-root={_PRIVATE_DATA}",
        "--exec-root=/run/vtax/exec",
        f"--pidfile={pid_file}",
        f"--host=unix://{_PRIVATE_SOCKET}",
        "--iptables=false",
        "--ip6tables=false",
        "--bridge=none",
        "--ip-forward=false",
        "--ip-masq=false",
        "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--storage-driver={storage}",
        "--log-level=warn",
        *([f"--userns-remap={_REMAPPED}:{_REMAPPED}"] if userns else []),
    ]


def _refuse_second_owner(pid_file: Path) -> None:
    """Raise PlatformError while another daemon has the layers, which two cannot share.

    The PID file of one that was killed is removed: dockerd refuses to start while its PID, reused or not, lives.
    """
    pid = owner_of(pid_file)
    if pid is not None:
        raise PlatformError(Note("private-docker-busy", pid=pid), hint=Note("hint-wait-or-clean"))
    pid_file.unlink(missing_ok=True)


def pid_file_of(home: Home, name: str) -> Path:
    """Return where the private daemon that keeps its layers in a directory of this name writes its PID."""
    return home.docker / f"{name}.pid"


def owner_of(pid_file: Path) -> int | None:
    """Return the PID of the daemon that a PID file names; None when it does not run."""
    with suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        if b"dockerd" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


def _get(path: Path, request: str) -> Any:
    connection = http.client.HTTPConnection("localhost", timeout=_API_TIMEOUT_S * timeout_factor())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(_API_TIMEOUT_S * timeout_factor())
        stream.connect(str(path))
        connection.sock = stream
        connection.request("GET", request)
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != 200:
        raise ValueError(f"{request} returned HTTP status {answer.status}")
    return json.loads(body)


def container_removal(daemon: Daemon, name: str) -> RestoreCommand:
    """Return the journal's entry of a container. Register it before the client, so that `clean` ends the client first.

    The host's daemon makes a container that was requested, though the client is no more: it is looked for a while.
    `docker rm --force` of one that is not there ends with 0, so `inspect` runs before.
    """
    undo = _removal(daemon, f"Docker container {name}", "rm", "--force", name)
    inspect = daemon.command("container", "inspect", "--format={{.Id}}", name)
    late_s = undo.late_s if daemon.private else _LATE_S * timeout_factor()
    return replace(undo, if_any=tuple(inspect), late_s=late_s)


def image_removal(daemon: Daemon, name: str) -> RestoreCommand:
    """Return the journal's entry of an image that must not stay."""
    return _removal(daemon, f"Docker image {name}", "image", "rm", "--force", name)


def _removal(daemon: Daemon, what: str, *arguments: str) -> RestoreCommand:
    """Return a command that removes something, and what it prints where that is gone.

    `docker` ends with 1 for what is gone as for a daemon that does not answer, and says which. The host's daemon may
    still have it then; with a private one, all is gone.
    """
    words = (*_GONE, _NO_DAEMON) if daemon.private else _GONE
    command = tuple(daemon.command(*arguments))
    return RestoreCommand(what, command, harmless_words=words, outlives_boot=not daemon.private)


def remove_copies(home: Home, key: str, journal: Journal) -> list[str]:
    """Remove every copy of an image, and return their descriptions. The journal removes the files when it is closed.

    Raises BadInput while a container of it, or a private daemon with it, runs.
    """
    return [*_remove_from_host_daemon(key), *_remove_from_private_daemons(home, key, journal)]


def _remove_from_host_daemon(key: str) -> list[str]:
    daemon = host_daemon() if find_program("docker") else None
    if daemon is None:
        return []
    name = f"{REPOSITORY}:{key}"
    if name not in daemon.image_names():
        return []
    result = run(daemon.command("image", "rm", name), check=False)
    if result.status != 0:
        raise BadInput(
            f"Docker cannot remove {name}: {result.stderr.strip()[-200:]}",
            hint=Note("hint-stop-containers"),
        )
    return [f"the copy in the host's Docker ({name})"]


def _remove_from_private_daemons(home: Home, key: str, journal: Journal) -> list[str]:
    top = home.docker
    descriptions: list[str] = []
    if not top.is_dir():
        return descriptions
    for data in sorted(filter(Path.is_dir, top.iterdir())):
        if not _holds(data, key):
            continue
        pid_file = pid_file_of(home, data.name)
        owner = owner_of(pid_file)
        if owner is not None:
            raise BadInput(
                f"image {key} is in use by a private Docker daemon (process {owner})",
                hint="wait until the run that started it ends; if that was killed, run vtax clean",
            )
        removed_image = top / f"{data.name}.{journal.token}.removed"
        journal.register(Tree(str(removed_image)))
        data.rename(removed_image)
        pid_file.unlink(missing_ok=True)
        descriptions.append(f"the copy of private Docker daemons ({data})")
    return descriptions


def _holds(data: Path, key: str) -> bool:
    """Whether a data directory holds an image; one whose list cannot be read may."""
    if data.suffix == ".removed":
        return False
    lists = [*data.glob("image/*/repositories.json")]
    lists += data.glob("*/image/*/repositories.json")  # with a user namespace
    for file in lists:
        try:
            repositories = json.loads(file.read_text()).get("Repositories", {})
        except (OSError, ValueError):
            return True
        if f"{REPOSITORY}:{key}" in repositories.get(REPOSITORY, {}):
            return True
    return not lists
