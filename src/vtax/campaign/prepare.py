"""Prepares a host to measure a study, from a pack alone: `sudo python3 PACK`, or `vtax host prepare PACK`.

A pack is a zip file whose `__main__.py` is this module, so it imports nothing but the standard library, and a Python
that is too old for vtax can read it and say so. Every file is compared with the SHA-256 in the manifest; that of the
manifest is the pack's digest, which `--digest` demands. What is in a pack runs as root: compare its digest.

Environment and study are below `packs/DIGEST` of the home. A directory without its mark, which is written last, the
image imported, is of a call that was killed, and is made again. The mark is a link to the Python of the environment,
which leads nowhere once an upgrade of the host has removed that.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import BinaryIO

SCHEMA = "vtax.pack/1"
MANIFEST, MAIN, WHEELS, IMAGE = "manifest.json", "__main__.py", "wheels.tar.zst", "image.tar.zst"
HOME = "/var/lib/vtax"
PROGRAM = "venv/bin/vtax"
HOST_LOCK = "/run/vtax-measuring.lock"
"""As in host.lock: an installation disturbs a run."""
SHORT = 12
"""Characters of a digest that name its directory."""
MARK, _REQUIREMENTS = "prepared", "requirements.txt"
_RECORD = struct.Struct("hhqqi0q")  # as in host.lock
_CHUNK = _MAX_MANIFEST = 1 << 20
_MAX_DEPTH = 16  # of a name: what removes a directory of packs calls itself for each level
_TIMEOUT_S = 1800.0
_TAIL = 600
_TESTS = "/tests?/"  # of packages, which nobody imports
_REFUSED, _BUSY = 2, os.EX_TEMPFAIL
_COPY_HINT = "copy the pack again, or write it again: vtax pack"
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    FileNotFoundError,
    StopIteration,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
)


class Refused(Exception):
    """The host was not prepared. what: why. hint: what to do. status: 2 bad input, 75 busy, 1 a failure."""

    def __init__(self, what: str, hint: str = "", status: int = _REFUSED) -> None:
        super().__init__(what)
        self.what, self.hint, self.status = what, hint, status


@dataclass(frozen=True)
class Manifest:
    """Contents of a pack.

    study: name of its file in the pack.
    wheels: Python -> name in the archive of wheels -> SHA-256; vtax's own and pip's are among them.
    files: name -> (bytes, SHA-256), of all files but the manifest.
    """

    vtax_version: str
    machine: str
    study: str
    image_key: str
    image_digest: str
    wheels: Mapping[str, Mapping[str, str]]
    files: Mapping[str, tuple[int, str]]

    def text(self) -> bytes:
        """Return the manifest as it is in a pack; its SHA-256 is the digest of the pack."""
        text = json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)
        return f"{text}\n".encode()


@dataclass(frozen=True)
class Prepared:
    """Answer of `vtax host prepare`.

    pack: digest of the pack.
    is_new: whether anything was done.
    vtax, study: paths on this host.
    install_s, import_s: durations in s; 0 where nothing was to be done.
    """

    pack: str
    is_new: bool
    home: str
    python: str
    vtax: str
    vtax_version: str
    study: str
    image_key: str
    image_digest: str
    install_s: float
    import_s: float


def prepare(pack: Path, home: Path, digest: str = "") -> Prepared:
    """Install what a pack holds into a home; what was installed from it before stays as it is.

    pack: the file.
    home: VTAX_HOME.
    digest: that the pack must have; empty for any.

    Raises Refused, and OSError for a host without space.
    """
    if os.geteuid() != 0:
        raise Refused("preparing a host needs root", "run it again with sudo")
    os.umask(0o022)
    python = "{}.{}".format(*sys.version_info[:2])
    with _open_pack(pack) as (archive, manifest, actual):
        if digest and actual != digest.lower():
            raise Refused(
                f"the pack has the digest {actual[:SHORT]}, not {digest[:SHORT]}", _COPY_HINT
            )
        _check_host(manifest, python)
        place = home / "packs" / actual[:SHORT]
        place.parent.mkdir(parents=True, exist_ok=True)
        with _lock(place.parent / "lock", "another command prepares this host"):
            install_s = import_s = 0.0
            if not _is_installed(place):
                install_s = _install(archive, manifest, python, place, home)
            if not _has_image(manifest, place, home):
                import_s = _import_image(archive, manifest, place, home)
            with suppress(FileExistsError):
                (place / MARK).symlink_to("venv/bin/python")
    return Prepared(
        actual,
        install_s + import_s > 0,
        str(home),
        python,
        str(_program(place)),
        manifest.vtax_version,
        str(place / manifest.study),
        manifest.image_key,
        manifest.image_digest,
        round(install_s, 1),
        round(import_s, 1),
    )


def read_manifest(archive: zipfile.ZipFile) -> tuple[Manifest, str]:
    """Return (the manifest of a pack, the digest of the pack). Raises Refused, and as what is damaged raises."""
    info = archive.getinfo(MANIFEST)
    if info.compress_type != zipfile.ZIP_STORED or info.file_size > _MAX_MANIFEST:
        raise ValueError("its manifest is too long")
    content = archive.read(info)
    values = json.loads(content)
    if values.pop("schema") != SCHEMA:
        raise Refused("this is no pack of this version of vtax", "write it again: vtax pack")
    files = {}
    for name, (size, digest) in values.pop("files").items():
        files[str(name)] = (int(size), str(digest))
    wheels = {}
    for python, digests in values.pop("wheels").items():
        wheels[str(python)] = {str(name): str(digest) for name, digest in digests.items()}
    texts = {name: str(value) for name, value in values.items()}
    manifest = Manifest(files=files, wheels=wheels, **texts)
    needed_files = [manifest.study, IMAGE, WHEELS]
    names = [*files, *needed_files, f"images/{manifest.image_key}"]
    for digests in wheels.values():
        names += digests
    for name in names:
        path = PurePosixPath(name)
        is_deep = len(path.parts) > _MAX_DEPTH
        if path.is_absolute() or ".." in path.parts or str(path) != name or is_deep:
            raise ValueError(f"{name[:80]!r} is no name in a pack")
    for name in needed_files:
        if name not in files:
            raise ValueError(f"{name[:80]} is missing")
    return manifest, hashlib.sha256(content).hexdigest()


def verify(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """Compare every file of a pack with its manifest. Raises Refused."""
    names = [info.filename for info in archive.infolist()]
    with _damage():
        if sorted(names) != sorted([*manifest.files, MANIFEST]):
            raise ValueError("its files are not those of its manifest")
    for name in manifest.files:
        _read(archive, manifest, name)


def _copy(archive: zipfile.ZipFile, manifest: Manifest, name: str, target: Path) -> None:
    """Write a file of a pack; one of a study may be a program. Raises Refused as `_read` does."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        _read(archive, manifest, name, file)
    if name.startswith("study/") and archive.getinfo(name).external_attr >> 16 & 0o100:
        target.chmod(0o755)


def _read(
    archive: zipfile.ZipFile, manifest: Manifest, name: str, file: BinaryIO | None = None
) -> None:
    """Read a file of a pack, and write it to another. Raises Refused for others than the manifest says."""
    size, expected = manifest.files[name]
    with _damage():
        info, digest = archive.getinfo(name), hashlib.sha256()
        if info.file_size != size or info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name[:80]} is not what its manifest says")
        with archive.open(info) as source:
            for chunk in iter(lambda: source.read(_CHUNK), b""):
                digest.update(chunk)
                if file is not None:
                    file.write(chunk)
        if digest.hexdigest() != expected:
            raise ValueError(f"{name[:80]} is not what its manifest says")


def _check_host(manifest: Manifest, python: str) -> None:
    if python not in manifest.wheels:
        has = ", ".join(manifest.wheels)
        raise Refused(
            f"the pack is for Python {has}, and this is Python {python}",
            "start it with one of these: python3.N PACK; or write another: vtax pack --python",
        )
    if manifest.machine != platform.machine():
        raise Refused(
            f"the pack is for {manifest.machine}, and this host is {platform.machine()}",
            "write it on a host of this kind: vtax pack",
        )


def _program(place: Path) -> Path:
    return place / PROGRAM


def _is_installed(place: Path) -> bool:
    """Return whether all of a pack is installed, and its vtax starts."""
    if not (place / MARK).exists():
        return False
    with suppress(OSError):
        process = subprocess.run(
            [str(_program(place)), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
        return process.returncode == 0
    return False


def _install(
    archive: zipfile.ZipFile, manifest: Manifest, python: str, place: Path, home: Path
) -> float:
    """Make the directory of a pack anew; return the duration in s."""
    start_s = time.monotonic()
    with _host_to_itself(home):
        verify(archive, manifest)
        if place.exists():
            shutil.rmtree(place)
        for name in manifest.files:
            if name.startswith("study/"):
                _copy(archive, manifest, name, place / name)
        wheels, environment = place / "wheels", place / "venv"
        _copy(archive, manifest, WHEELS, wheels / WHEELS)
        pip = _unpack_wheels(wheels, manifest.wheels[python])
        versioned = os.path.realpath(sys.executable)  # python3 may become another one
        _run([versioned, "-I", "-m", "venv", "--without-pip", str(environment)], home)
        interpreter = [str(environment / "bin" / "python"), "-I"]
        pip_install = [f"{pip}/pip", "--isolated", "install", "--quiet", "--no-index"]
        pip_install += ["--find-links", str(wheels), "--require-hashes", "--only-binary", ":all:"]
        pip_install += ["--no-cache-dir", "--no-compile", "--disable-pip-version-check"]
        pip_install += ["-r", str(wheels / _REQUIREMENTS)]
        _run(interpreter + pip_install, home)
        shutil.rmtree(wheels)
        compile_all = ["-m", "compileall", "-q", "-j", "0", "-x", _TESTS, str(environment)]
        # some files of packages are for other Pythons and do not compile
        _run(interpreter + compile_all, home, check=False)
        os.sync()
    return time.monotonic() - start_s


def _unpack_wheels(directory: Path, wheels: Mapping[str, str]) -> Path:
    """Unpack wheels beside their archive, and write what pip is to install; return the wheel of pip. Raises Refused."""
    if shutil.which("zstd") is None:
        raise Refused("zstd is not installed", "install the package zstd")
    command = ["zstd", "-dcq", str(directory / WHEELS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, _damage():
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                if member.name in wheels and member.isfile():
                    with (directory / member.name).open("wb") as file:
                        shutil.copyfileobj(archive.extractfile(member), file)  # type: ignore[arg-type]
        for name, digest in wheels.items():
            if hashlib.sha256((directory / name).read_bytes()).hexdigest() != digest:
                raise ValueError(f"{name[:80]} is not what its manifest says")
        pip = next(directory / name for name in wheels if name.startswith("pip-"))
    requirements = ""
    for name, digest in wheels.items():
        package, version = name.split("-")[:2]
        if package != "pip":
            requirements += f"{package}=={version} --hash=sha256:{digest}\n"
    (directory / _REQUIREMENTS).write_text(requirements)
    return pip


def _has_image(manifest: Manifest, place: Path, home: Path) -> bool:
    """Return whether the image of a pack is in the home. Raises Refused for another image of the same key."""
    key = manifest.image_key
    if not (home / "images" / key).is_dir():
        return False
    images = json.loads(_run([str(_program(place)), "image", "list", "--json"], home))
    digest = next((str(image["digest"]) for image in images if image["key"] == key), "")
    if digest != manifest.image_digest:
        raise Refused(
            f"image {key} here has the digest {digest[:SHORT]}, not {manifest.image_digest[:SHORT]}",
            f"VTAX_HOME={home} {_program(place)} image remove {key}, then prepare it again",
        )
    return True


def _import_image(archive: zipfile.ZipFile, manifest: Manifest, place: Path, home: Path) -> float:
    """Add the image of a pack to the home, by the vtax that was installed; return the duration in s."""
    start_s, file = time.monotonic(), place / IMAGE
    try:
        _copy(archive, manifest, IMAGE, file)
        _run(
            [
                str(_program(place)),
                "image",
                "import",
                str(file),
                "--digest",
                manifest.image_digest,
                "--json",
            ],
            home,
        )
    finally:
        with suppress(FileNotFoundError):
            file.unlink()
    return time.monotonic() - start_s


def _run(argv: Sequence[str], home: Path, *, check: bool = True) -> bytes:
    """Run a program without this user's settings of pip and Python; return what it printed. Raises Refused."""
    environment = dict(os.environ)
    for name in os.environ:
        if name.startswith(("PYTHON", "PIP_", "VTAX_", "LC_")):
            del environment[name]
    environment.update(PIP_CONFIG_FILE=os.devnull, VTAX_HOME=str(home), LC_ALL="C.UTF-8")
    try:
        process = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise Refused(
            f"{Path(argv[0]).name} did not end within {_TIMEOUT_S:g} s", status=1
        ) from None
    if check and process.returncode != 0:
        output = process.stderr.decode(errors="replace").strip()[-_TAIL:]
        status = process.returncode if process.returncode in (_REFUSED, _BUSY) else 1
        hint = "install Python's module venv (Debian: python3-venv)" if "venv" in argv[3:4] else ""
        raise Refused(f"{Path(argv[0]).name} failed: {output}", hint, status)
    return process.stdout


@contextmanager
def _lock(path: Path, reason: str) -> Iterator[int]:
    """Hold a lock file. Raises Refused, with that reason, where another process holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(reason, "try again later", _BUSY) from None
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _host_to_itself(home: Path) -> Iterator[None]:
    """Hold the measuring lock of this host as `host.lock` does. Raises Refused while a run measures."""
    with _lock(
        Path(HOST_LOCK), "a run measures on this host, which an installation would disturb"
    ) as descriptor:
        with suppress(OSError):
            fcntl.fcntl(
                descriptor, fcntl.F_OFD_SETLK, _RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"vtax host prepare (process {os.getpid()})\n{home}\n".encode(), 0)
        yield
        os.ftruncate(descriptor, 0)


@contextmanager
def _open_pack(pack: Path) -> Iterator[tuple[zipfile.ZipFile, Manifest, str]]:
    """Yield (the archive, its manifest, the digest of the pack). Raises Refused."""
    if not pack.is_file():
        raise Refused(f"{pack} is no file", "vtax pack writes packs")
    with pack.open("rb") as file:
        with _damage():
            archive = zipfile.ZipFile(file)
            manifest, digest = read_manifest(archive)
        yield archive, manifest, digest


@contextmanager
def _damage() -> Iterator[None]:
    """Raise Refused in place of any error that a damaged pack causes."""
    try:
        yield
    except _DAMAGE as error:
        why = str(error) if type(error) is ValueError else "it cannot be read"
        raise Refused(f"the pack is damaged: {why}", _COPY_HINT) from error


def main() -> int:
    """Prepare this host from the pack that is executed; print the answer as JSON, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python3 PACK",
        description="Install vtax, a study and its image on this host, without a network.",
    )
    parser.add_argument(
        "--home", default=os.environ.get("VTAX_HOME") or HOME, help="VTAX_HOME [%(default)s]"
    )
    parser.add_argument("--digest", default="", help="refuse a pack with another digest")
    arguments = parser.parse_args()
    try:
        prepared = prepare(Path(sys.argv[0]), Path(arguments.home).absolute(), arguments.digest)
    except Refused as error:
        print(error.what, file=sys.stderr)
        if error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return error.status
    except OSError as error:
        print(f"{error.filename or arguments.home}: {error.strerror}", file=sys.stderr)
        return 1
    print(json.dumps({"schema": "vtax.host-prepare/1", **asdict(prepared)}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
