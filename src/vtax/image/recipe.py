"""The recipe of the image, and the key that follows from it.

The key names everything that decides the files of an image, so a changed package list, program source or init script
gives a new image, and the same recipe is never built twice. Package versions are not part of it (they are not known
before the build): the manifest of a built image records them.

What only some studies need is a layer over the base, so that the base stays small: more packages over its files, and
data that take long to make.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib.resources import files
from typing import Any, Self

from vtax.errors import BadInput
from vtax.guest.bootstrap import TOOLBOX
from vtax.guest.bootstrap import argv as bootstrap_argv
from vtax.host.architecture import HOST
from vtax.units import about_size

FORMAT_VERSION = 2
INITRD_VERSION = 6
"""Raised when `initrd.build_initrd` or the unpacked kernel changes while the init script does not."""
TOOLBOX_VERSION = 2
"""Raised when `toolbox.install` changes what it puts beside the user's files."""

PACKAGES = (
    "bonnie++",
    "busybox-static",
    "ethtool",
    "fio",
    "iperf",
    "iperf3",
    "iproute2",
    "iptables",
    "iputils-ping",
    "kmod",
    "libgomp1",
    "netperf",
    "nftables",
    "procps",
    "python3",
    "sockperf",
    "sysbench",
    "util-linux",
)
"""Packages of every guest: Python for the agent, the benchmark tools, and what sets up and inspects a network."""

LEFT_OUT = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
"""Files of those packages that no guest reads."""

_DATA_DIRECTORY = "/var/lib/vtax"
_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")

MODULES = (
    "virtio_pci",
    "virtio_mmio",
    "virtio_console",
    "virtio_blk",
    "virtio_scsi",
    "virtio_net",
    "virtio_rng",
    "e1000",
    "e1000e",
    "8139cp",
    "ahci",
    "ata_piix",
    "sd_mod",
    "nvme",
    "xen_blkfront",
    "xen_netfront",
    "ext4",
    "9p",
    "9pnet_virtio",
    "virtiofs",
)
"""Kernel modules the initrd carries, with what they depend on; it loads only what the command line asks for."""


def data(name: str) -> bytes:
    """Return a file that ships with this package."""
    return files("vtax.image").joinpath("data", name).read_bytes()


@dataclass(frozen=True)
class CompiledProgram:
    """A program of vtax's own, compiled for any processor of this host's architecture when the base is built.

    name: of the program.
    source, headers: in `data`.
    flags: of the compiler; `--version` of the program prints them.
    directory: of the program in every guest.
    """

    name: str
    source: str
    flags: tuple[str, ...] = ("-O2",)
    headers: tuple[str, ...] = ("program.h",)
    directory: str = "/usr/bin"

    @property
    def definition(self) -> str:
        """Its name, the hash of its files, and the flags."""
        return " ".join((self.name, _hash(*map(data, (self.source, *self.headers))), *self.flags))


def is_package_name(text: str) -> bool:
    """Return whether a text can be the name of a Debian package (Debian Policy 5.6.1)."""
    return _PACKAGE_NAME.fullmatch(text) is not None


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


PROGRAMS = (
    # copy is a loop like the other kernels: the C library's memcpy chooses its instructions by what the virtual CPU
    # says of its caches
    CompiledProgram(
        "vtax-stream", "stream.c", ("-O3", "-fopenmp", "-fno-tree-loop-distribute-patterns"), ()
    ),
    CompiledProgram("vtax-linpack", "linpack.c", ("-O3",), ("program.h", "linpack_solve.h")),
    CompiledProgram("vtax-pi", "pi.c"),
    CompiledProgram("vtax-kernel-paths", "kernel_paths.c", ("-O2", "-pthread")),
    CompiledProgram("vtax-memory-latency", "memory_latency.c"),
    CompiledProgram("vtax-confine", "confine.c", ("-O2", "-static"), (), f"{TOOLBOX}/bin"),
    CompiledProgram("vtax-sandbox", "sandbox.c", ("-O2", "-static"), (), f"{TOOLBOX}/bin"),
)
"""The programs that Debian does not have. Those that use a library open it when they run: a layer brings it."""


def _initrd_hash() -> str:
    return _hash(b"%d" % INITRD_VERSION, data("init"), "\0".join(bootstrap_argv("")).encode())


@dataclass(frozen=True)
class DataSet:
    """Data that are made once, when an image is built, such as the tables of a database.

    name: of the data, their parameters included (`mariadb-1000000`); unique, since their directory has it.
    script: for `sh -eu`, which runs it as root in the layer's tree, with no network but with its packages, /proc and
        empty /run, /tmp and /dev/shm; it writes into the directory $1 and leaves no process.
    size_bytes: about how much disk they occupy.
    """

    name: str
    script: str
    size_bytes: int

    @property
    def directory(self) -> str:
        """Their directory in every guest; benchmarks copy the files that they change."""
        return f"{_DATA_DIRECTORY}/{self.name}"


@dataclass(frozen=True)
class OwnFiles:
    """The user's root file system, in the place of the base's.

    name: that the user gave it.
    digest: of its contents.
    entry: the program that the image runs by itself, with its arguments.
    environment, directory, user: of that program (OCI Image Format Specification, config.md).
    """

    name: str
    digest: str
    entry: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    directory: str = "/"
    user: str = ""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the files of an image.

    suite, variant, architecture, packages, left_out: of Debian and mmdebstrap(1).
    kernel_package, modules: the kernel, and the modules of the initrd.
    format_version: of the layout of the files.
    programs: definitions of PROGRAMS.
    initrd: hash of the init script and of the agent's bootstrap.
    layer, data: packages that are installed over the base, and data that are made with them; the base is the same
        recipe without them.
    disk_bytes: size of the disk, a multiple of 4096; 0 for a size that leaves `DISK_BYTES` of scratch space.
    own: the user's files in the place of the base's, with its kernel. Layer and data are then of the guests that serve
        the measurement, and the image of these is the base.
    """

    suite: str = "trixie"
    variant: str = "minbase"
    architecture: str = HOST.debian
    packages: tuple[str, ...] = PACKAGES
    left_out: tuple[str, ...] = LEFT_OUT
    kernel_package: str = HOST.kernel_package
    modules: tuple[str, ...] = MODULES
    format_version: int = FORMAT_VERSION
    programs: tuple[str, ...] = tuple(program.definition for program in PROGRAMS)
    initrd: str = _initrd_hash()
    layer: tuple[str, ...] = ()
    data: tuple[DataSet, ...] = ()
    disk_bytes: int = 0
    own: OwnFiles | None = None

    @property
    def is_layered(self) -> bool:
        """Whether it is a layer over a base."""
        return bool(self.layer or self.data)

    @property
    def base(self) -> Recipe:
        """The recipe without the user's files, or else without its layer, and without the size of its disk."""
        if self.own:
            return replace(self, own=None, disk_bytes=0)
        if self.is_layered or self.disk_bytes:
            return replace(self, layer=(), data=(), disk_bytes=0)
        return self

    @property
    def added(self) -> tuple[str, ...]:
        """Names of the packages and the data of its layer."""
        return (*self.layer, *(f"data {data.name}" for data in self.data))

    @property
    def summary(self) -> str:
        """The recipe in words: `the base`, `pi, redis over the base`, `the base, disk of 6 GiB`."""
        text = "the base"
        if self.own:
            text = f"your own, {self.own.name}"
        elif self.is_layered:
            text = f"{', '.join(self.added)} over the base"
        if self.disk_bytes:
            text = f"{text}, disk of {about_size(self.disk_bytes)}"
        return text

    @cached_property
    def key(self) -> str:
        """The key of the image: 12 hexadecimal digits of a SHA-256 over the recipe."""
        return self._key_without()

    @cached_property
    def tree_key(self) -> str:
        """A key without initrd and size of the disk: images that share it differ in nothing that takes long."""
        recipe = self.with_disk(0)
        if self.own:
            recipe = replace(recipe, layer=(), data=())
        return recipe._key_without("initrd")

    def with_packages(self, packages: Iterable[str]) -> Recipe:
        """Return the recipe of an image with more packages in its layer; itself when it has them all.

        Raises BadInput for what is no name of a Debian package.
        """
        new_packages = set(packages) - {*self.packages, *self.layer}
        for name in sorted(new_packages):
            if not is_package_name(name):
                raise BadInput(
                    f"{name!r} is not the name of a Debian package",
                    hint="names are as in apt-get install",
                )
        return (
            replace(self, layer=tuple(sorted((*self.layer, *new_packages))))
            if new_packages
            else self
        )

    def with_data(self, data: Iterable[DataSet]) -> Recipe:
        """Return the recipe of an image with more data in its layer; itself when it has them all."""
        by_name = {data_set.name: data_set for data_set in (*self.data, *data)}
        data_sets = tuple(by_name[name] for name in sorted(by_name))
        return replace(self, data=data_sets) if data_sets != self.data else self

    def with_disk(self, size_bytes: int) -> Recipe:
        """Return the recipe of an image with a disk of this size, 0 for the default; itself when it has it."""
        return replace(self, disk_bytes=size_bytes) if size_bytes != self.disk_bytes else self

    def like(self, record: Mapping[str, Any]) -> Recipe:
        """Return this recipe with layer, data, disk and the user's files of another recipe, in its JSON form."""
        recipe = self.with_packages(record.get("layer", ()))
        recipe = recipe.with_data(DataSet(**data) for data in record.get("data", ()))
        own_record = record.get("own")
        files = None
        if own_record:
            entry, environment = tuple(own_record["entry"]), tuple(own_record["environment"])
            files = OwnFiles(**{**own_record, "entry": entry, "environment": environment})
        return replace(recipe, own=files).with_disk(record.get("disk_bytes", 0))

    def record(self) -> dict[str, Any]:
        """Return the recipe in its JSON form, for the manifest."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the recipe of its JSON form. Raises ValueError for anything but a recipe of this version."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            value, default = record.get(field.name), field.default
            if isinstance(value, list):
                if field.name == "data":
                    value = tuple(DataSet(**_checked_data(data)) for data in value)
                elif all(isinstance(text, str) for text in value):
                    value = tuple(value)
            if type(value) is not type(default):
                raise ValueError(f"its recipe has no {field.name}")
            values[field.name] = value
        unknown_fields = sorted(set(record) - set(values))
        if unknown_fields:
            raise ValueError(f"its recipe has {unknown_fields[0]!r}, which this vtax does not know")
        return cls(**values)

    def _key_without(self, *left_out: str) -> str:
        """Return the key. left_out: names of fields of the base that do not count.

        The key of the base is a hash of its fields. Layer, user's files and size of the disk are hashed on top of it,
        where there are any, so that a recipe without them has the key of its base.
        """
        fields = asdict(self)
        for name in ("layer", "data", "disk_bytes", "own", *left_out):
            del fields[name]
        key = _hash(json.dumps(fields, sort_keys=True).encode())
        if self.is_layered:
            data_sets = [f"{data_set.name}\0{data_set.script}".encode() for data_set in self.data]
            key = _hash(key.encode(), "\0".join(self.layer).encode(), *data_sets)
        if self.own:
            own_json = json.dumps(asdict(self.own)).encode()
            key = _hash(key.encode(), own_json, b"%d" % TOOLBOX_VERSION, data("entry.py"))
        if self.disk_bytes:
            key = _hash(key.encode(), b"%d" % self.disk_bytes)
        return key


def _checked_data(data: Any) -> dict[str, Any]:
    """Return the fields of a data set. Raises ValueError for other fields, or values of other types."""
    kinds = {"name": str, "script": str, "size_bytes": int}
    if not isinstance(data, dict) or {name: type(value) for name, value in data.items()} != kinds:
        raise ValueError("its recipe has data that are none")
    return data


DEFAULT = Recipe()
BASE_BYTES = 720 * 1024**2
"""About how much disk its image occupies."""
