"""A PostgreSQL server of the tests' own, of Debian's package, that listens on a unix socket alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD, LOCKED = "verysecret", "locked"
"""The one user who needs a password."""


class Server:
    """A cluster in a directory. place: parameters of a connection to it."""

    def __init__(self, directory: Path, binaries: Path, user: list[str]) -> None:
        self._directory, self._binaries, self._user = directory, binaries, user
        self.place = f"host={directory}"

    def url(self, user: str = "vtax", password: str = "") -> str:
        """Return the URL of the database `vtax` there."""
        return f"postgresql://{user}{f':{password}' if password else ''}@/vtax?{self.place}"

    def sql(self, *statements: str, database: str = "postgres") -> None:
        """Carry out statements as the owner, each by itself."""
        import psycopg

        with psycopg.connect(
            f"{self.place} user=vtax dbname={database}", autocommit=True
        ) as connection:
            for each in statements:
                connection.execute(each)

    def empty(self) -> str:
        """Make the database `vtax` anew; returns its URL."""
        self.sql("DROP DATABASE IF EXISTS vtax WITH (FORCE)", "CREATE DATABASE vtax")
        return self.url()

    def make(self) -> None:
        """Make the cluster."""
        data = self._directory / "data"
        self._run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=vtax",
            "--encoding=UTF8",
            "--pgdata",
            data,
        )
        (data / "pg_hba.conf").write_text(
            f"local all {LOCKED} scram-sha-256\nlocal all all trust\n"
        )

    def start(self) -> None:
        """Start it, and return once it answers."""
        settings = f"-c listen_addresses= -c unix_socket_directories={self._directory} -c fsync=off"
        self._run(
            "pg_ctl",
            "--pgdata",
            self._directory / "data",
            "--wait",
            "--log",
            self._directory / "log",
            "--options",
            settings,
            "start",
        )

    def stop(self) -> None:
        """Have it gone at once, as by a power cut."""
        self._run("pg_ctl", "--pgdata", self._directory / "data", "--mode=immediate", "stop")

    def _run(self, program: str, *argv: str | Path) -> None:
        command = [*self._user, *map(str, (self._binaries / program, *argv))]
        subprocess.run(
            command, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )


@contextmanager
def running_server() -> Iterator[Server]:
    """Yield a server; what asks for it is skipped without the package."""
    pytest.importorskip("psycopg", reason="the Python package psycopg is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed")
    user: list[str] = []
    directory = Path(tempfile.mkdtemp(prefix="vtax-postgresql-"))
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed, and PostgreSQL does not run as root")
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        shutil.chown(directory, "nobody", "nogroup")
    server = Server(directory, found[-1].parent, user)
    try:
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
