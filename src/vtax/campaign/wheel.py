"""Writes the wheel of the vtax that runs, from its installed files, whether these are a checkout's or a package's.

No build tool is needed, and the same files make the same wheel. Format: the binary distribution format 1.0 (PEP 427),
with the RECORD of PEP 376.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import vtax
from vtax.errors import BadInput
from vtax.foreign_data import parse_toml
from vtax.host.plugins import PUT_BESIDE, is_file_of_vtax

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of every member: the first that a zip file can say."""
_WHEEL = "Wheel-Version: 1.0\nGenerator: vtax\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(directory: Path) -> Path:
    """Write the wheel into a directory and return its path.

    Raises BadInput where vtax is not installed, or another version than runs.
    """
    package = _installed_vtax()
    name = f"vtax-{package.version}"
    target, records = directory / f"{name}-py3-none-any.whl", []
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for member, content, mode in sorted(_members(package, f"{name}.dist-info")):
            _add(archive, member, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            records.append(f"{member},sha256={digest.rstrip('=')},{len(content)}\n")
        record = f"{name}.dist-info/RECORD"
        _add(archive, record, "".join([*records, f"{record},,\n"]).encode(), 0o644)
    return target


def _installed_vtax() -> Distribution:
    hint = "install it: pip install vtax, or ./quickstart --install-only in a checkout"
    try:
        package = distribution("vtax")
    except PackageNotFoundError:
        raise BadInput("vtax is not installed as a package", hint=hint) from None
    if package.version != vtax.__version__:
        raise BadInput(
            f"vtax {vtax.__version__} runs, and {package.version} is installed", hint=hint
        )
    return package


def _members(installed: Distribution, info: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield (name, content, mode) of every file of the wheel but its RECORD."""
    package = Path(vtax.__file__).parent
    put_beside = []
    for path in package.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            name = f"vtax/{path.relative_to(package).as_posix()}"
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            yield name, path.read_bytes(), mode
            if path.suffix == ".py" and not is_file_of_vtax(path):
                put_beside.append(f"{name}\n")
    if put_beside:  # plug-ins, which runs on the other hosts name as well
        yield f"{info}/{PUT_BESIDE}", "".join(sorted(put_beside)).encode(), 0o644
    yield (
        f"{info}/METADATA",
        _metadata(installed, package.parents[1] / "pyproject.toml").encode(),
        0o644,
    )
    yield (
        f"{info}/entry_points.txt",
        (installed.read_text("entry_points.txt") or "").encode(),
        0o644,
    )
    for file in installed.files or ():
        _, is_license, name = file.as_posix().partition(".dist-info/licenses/")
        if is_license:
            yield f"{info}/licenses/{name}", file.read_binary(), 0o644
    yield f"{info}/WHEEL", _WHEEL.encode(), 0o644


def _metadata(package: Distribution, project: Path) -> str:
    """Return the metadata of a wheel. project: pyproject.toml of a checkout, whose installed metadata may be older."""
    text = package.read_text("METADATA") or ""
    if not project.is_file():
        return text
    head, gap, rest = text.partition("\n\n")
    lines = []
    for line in head.splitlines():
        if not line.startswith(("Requires-Dist:", "Provides-Extra:")):
            lines.append(line)
    for dependency in parse_toml(project.read_text())["project"]["dependencies"]:
        lines.append(f"Requires-Dist: {dependency}")
    return "\n".join(lines) + gap + rest


def _add(archive: ZipFile, name: str, content: bytes, mode: int) -> None:
    member = ZipInfo(name, EPOCH)
    member.external_attr = (0o100000 | mode) << 16
    member.compress_type = ZIP_DEFLATED
    archive.writestr(member, content)
