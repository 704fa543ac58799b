"""A disk with all that a machine without network installs: a part of Debian's archive, Python packages, nothing else.

The part of the archive has the signed indices of its suites whole and only those packages that are named, so that apt
in the machine verifies them as it does everywhere.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from vtax.host.process import run
from vtax.image.recipe import DEFAULT
from vtax.image.sources import host_mirror, host_proxies, keyring
from vtax.image.tree import BUILD_ROOT_PACKAGES

INDEX = "main/binary-amd64/Packages.xz"
ESSENTIAL = re.compile(r"^(Essential: yes|Priority: required)$", re.MULTILINE)
_FETCH_S = 1800.0
NEEDS = """
source <(sed '/^main /d' "$1")
needs | cut -d '|' -f 3
"""
"""What quickstart may install."""
NOT_ALWAYS = {"bookworm": ("apparmor",), "trixie": ("apparmor", "docker-cli")}
"""What it adds where the kernel has AppArmor on, and on that suite."""


@dataclass(frozen=True)
class Archive:
    """A part of Debian's archive in a directory, taken from the mirror that this host's apt uses."""

    directory: Path
    scratch: Path

    def add(
        self, suite: str, wanted: Iterable[str], status: Path | None = None, *, base: bool = False
    ) -> None:
        """Add packages and what they depend on. status: of dpkg, what is installed where they go; None: nothing.
        base: also those that every Debian system has."""
        options = self._apt(suite, status)
        if base:
            available = run(["apt-cache", *options, "dumpavail"], timeout_s=_FETCH_S).stdout
            paragraphs = [each for each in available.split("\n\n") if ESSENTIAL.search(each)]
            wanted = [
                *wanted,
                "apt",
                *(each.split("\n", 1)[0].removeprefix("Package: ") for each in paragraphs),
            ]
        install = [
            "apt-get",
            *options,
            "--quiet=2",
            "--no-install-recommends",
            "install",
            *dict.fromkeys(wanted),
        ]
        listed = run([*install, "--print-uris"], timeout_s=_FETCH_S).stdout
        run([*install, "--assume-yes", "--download-only"], timeout_s=_FETCH_S)
        mirror = str(host_mirror()).rstrip("/") + "/"
        for line in listed.splitlines():
            uri, name, *_ = line.split()
            target = self.directory / unquote(uri.strip("'").removeprefix(mirror))
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.scratch / suite / "var/cache/apt/archives" / name).replace(target)

    def _apt(self, suite: str, status: Path | None) -> list[str]:
        """The options of an apt of its own with the indices of a suite, fetched at its first use."""
        root = self.scratch / suite
        nothing = root / "status"
        options = [
            *(
                "-o",
                f"Dir={root}",
                "-o",
                f"Dir::State::status={status or nothing}",
                "-o",
                "APT::Sandbox::User=root",
            ),
            *("-o", "Acquire::Languages=none", "-o", "Debug::NoLocking=true"),
        ]
        if not root.is_dir():
            for name in (
                "etc/apt/apt.conf.d",
                "etc/apt/preferences.d",
                "var/lib/apt/lists/partial",
                "var/cache/apt/archives/partial",
                "var/lib/dpkg",
            ):
                (root / name).mkdir(parents=True)
            nothing.write_text("")
            source = f"deb [signed-by={keyring()}] {host_mirror()} {suite} main\n"
            (root / "etc/apt/sources.list").write_text(source)
            (root / "etc/apt/apt.conf.d/proxy").write_text(
                "".join(f"{line}\n" for line in host_proxies())
            )
            run(["apt-get", *options, "update"], timeout_s=_FETCH_S)
            self._copy_indices(suite)
        return options

    def _copy_indices(self, suite: str) -> None:
        place = self.directory / "dists" / suite
        (place / INDEX).parent.mkdir(parents=True)
        for name in ("InRelease", INDEX):
            uri = f"{host_mirror()}/dists/{suite}/{name}"
            run(["/usr/lib/apt/apt-helper", "download-file", uri, place / name], timeout_s=_FETCH_S)
        digest = hashlib.sha256((place / INDEX).read_bytes()).hexdigest()
        by_hash = (place / INDEX).parent / "by-hash" / "SHA256"
        by_hash.mkdir(parents=True)
        (by_hash / digest).hardlink_to(place / INDEX)


def add_what_vtax_needs(archive: Archive, suite: str, status: Path, quickstart: Path) -> None:
    """The packages that quickstart installs on a system of that suite, and those of the guest image.

    status: dpkg's, of that system.
    """
    needed = run(["bash", "-c", NEEDS, "bash", quickstart]).stdout.split()
    archive.add(suite, (*needed, *NOT_ALWAYS[suite]), status)
    archive.add(DEFAULT.suite, DEFAULT.packages, base=True)
    archive.add(DEFAULT.suite, (*BUILD_ROOT_PACKAGES, DEFAULT.kernel_package))


def add_wheels(directory: Path, lock: Path, python: str) -> None:
    """What the lock file names, for a version of Python."""
    argv: Sequence[str | Path] = [
        *(
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
            "--no-deps",
        ),
        *(
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--python-version",
            python,
            "--dest",
            directory,
            "-r",
            lock,
        ),
    ]
    subprocess.run(argv, check=True, timeout=_FETCH_S)
