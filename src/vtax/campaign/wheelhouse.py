"""Downloads the wheels that vtax needs to measure, for the Pythons of other hosts, by pip as this user configured it.

They are of the versions that are installed here, so that every host computes with what the controller has.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

from vtax.errors import BadInput, VtaxError
from vtax.foreign_text import one_line

PYTHONS = ("3.11", "3.12", "3.13")
"""Pythons of hosts; of the classifiers of pyproject.toml."""
_GLIBC = range(17, 32)  # manylinux_2_N (PEP 600): glibc 2.31 is that of Debian 11
_TIMEOUT_S = 1800.0
_SHOWN = 600


def download(wheel: Path, python: str, directory: Path) -> tuple[str, ...]:
    """Download the wheels of vtax's dependencies, and pip's, for a Python; return their names, sorted.

    wheel: of vtax, which names the dependencies.
    python: such as `3.11`.
    directory: where the wheels are put; several Pythons may share it.

    Raises BadInput without pip, VtaxError where a wheel cannot be downloaded.
    """
    if python not in PYTHONS:
        raise BadInput(
            f"vtax does not run on Python {python}", hint=f"it runs on {', '.join(PYTHONS)}"
        )
    versions, downloads = directory / "versions.txt", directory / f"wheels-{python}"
    versions.write_text("".join(f"{line}\n" for line in installed_versions()))
    downloads.mkdir()
    machine = platform.machine()
    command = ["download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--dest", str(downloads), "--only-binary", ":all:"]
    command += ["--implementation", "cp", "--python-version", python]
    command += ["--platform", f"manylinux2014_{machine}"]
    for minor in _GLIBC:
        command += ["--platform", f"manylinux_2_{minor}_{machine}"]
    _pip([*command, "--constraint", str(versions), str(wheel), "pip"], python)
    names = []
    for path in sorted(downloads.iterdir()):
        path.replace(directory / path.name)
        if path.name != wheel.name:
            names.append(path.name)
    downloads.rmdir()
    versions.unlink()
    return tuple(names)


def installed_versions() -> list[str]:
    """Return `name==version` of the packages that are installed here.

    Left out are vtax and pip, and local versions, which no registry has.
    """
    versions = {}
    for package in distributions():
        if not package.name or not package.version:
            continue
        name = re.sub(r"[-_.]+", "-", package.name).lower()
        if name not in ("vtax", "pip") and "+" not in package.version:
            versions[name] = package.version
    return [f"{name}=={version}" for name, version in sorted(versions.items())]


def _pip(arguments: Sequence[str], python: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    try:
        process = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise VtaxError(
            f"the wheels for Python {python} did not arrive within {_TIMEOUT_S:g} s"
        ) from error
    if "No module named pip" in process.stderr:
        raise BadInput("pip is not installed beside vtax", hint=f"{sys.executable} -m ensurepip")
    if process.returncode != 0:
        reason = one_line(_error_of_pip(process.stderr), _SHOWN)
        hint = "see pip's configuration (pip config list), or vtax pack --python without this one"
        raise VtaxError(f"the wheels for Python {python} cannot be downloaded: {reason}", hint=hint)


def _error_of_pip(stderr: str) -> str:
    """Return the errors that pip printed, without its retries; the end of its output where it names none."""
    errors = [line[7:] for line in stderr.splitlines() if line.startswith("ERROR: ")]
    return "; ".join(errors) or stderr.strip()[-_SHOWN:]
