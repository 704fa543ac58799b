"""The two trees of a build: the guest's root file system, and a temporary build root.

The build root holds what the guest must not: a compiler for vtax's own programs, and the kernel with all its modules.
Its packages are only unpacked, never configured, so it costs seconds and runs no maintainer script; the compiler runs
in it by chroot. mmdebstrap works in a mount namespace of its own, so a killed build leaves no mounts.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import CommandFailed, ImageError
from vtax.host.architecture import HOST
from vtax.host.process import run
from vtax.host.removal import remove_tree
from vtax.image import toolbox
from vtax.image.recipe import CompiledProgram, DataSet, Recipe, data
from vtax.image.sources import host_mirror, host_proxies, keyring

BUILD_ROOT_PACKAGES = ("base-files", "gcc", "libc6-dev")
_BUILD_TIMEOUT_S = 1800.0
_LINES_SHOWN = 5  # last ones of a script that failed
_IN_TREE = """
mkdir -p "$1/dev/shm"
mount -t proc proc "$1/proc"
for directory in dev/shm run tmp; do mount -t tmpfs tmpfs "$1/$directory"; done
exec chroot "$1" /usr/bin/env PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 sh -euc "$2" sh "$3"
"""  # arguments: tree, script, directory of the data
_MACHINE_ID = "76746178" * 4  # "vtax" four times: the same for every guest, and no host's


@dataclass(frozen=True)
class BuildRoot:
    """An unpacked tree with a compiler and a kernel."""

    directory: Path

    @property
    def modules(self) -> Path:
        """The kernel's module directory; its name is the kernel's version."""
        kernels = sorted((self.directory / "usr/lib/modules").iterdir())
        if len(kernels) != 1:
            raise ImageError(
                f"expected one kernel, found {len(kernels)}", where=str(self.directory)
            )
        return kernels[0]

    @property
    def kernel(self) -> Path:
        """The bootable kernel."""
        return self.directory / "boot" / f"vmlinuz-{self.modules.name}"

    def compile(self, program: CompiledProgram, tree: Path) -> None:
        """Compile a program in the build root and copy it into the tree."""
        for name in (program.source, *program.headers):
            (self.directory / name).write_bytes(data(name))
        flags = " ".join(program.flags)
        target = tree / program.directory.lstrip("/") / program.name
        command = [
            "gcc",
            *program.flags,
            f'-DFLAGS="{flags}"',
            "-o",
            "/program",
            f"/{program.source}",
            "-lm",
        ]
        run(["chroot", self.directory, "/usr/bin/env", "PATH=/usr/bin", *command])
        shutil.copyfile(self.directory / "program", target)
        target.chmod(0o755)


def make_tree(recipe: Recipe, target: Path, tag: str) -> None:
    """Install the guest's root file system. Raises ImageError."""
    bootstrap(
        recipe.suite,
        recipe.packages,
        target,
        tag,
        variant=recipe.variant,
        options=_exclude_options(recipe),
    )
    _normalize(target)
    toolbox.link(target)


def add_layer(recipe: Recipe, base: Path, target: Path, tag: str) -> None:
    """Make target a copy of the tree base with the packages of the recipe's layer installed. Raises ImageError.

    Files are copied, or cloned where the file system can, since maintainer scripts may write into those of the base.
    """
    run(["cp", "--archive", "--reflink=auto", base, target], timeout_s=_BUILD_TIMEOUT_S, tag=tag)
    if not recipe.layer:
        return
    # mmdebstrap makes this file and the device nodes, and stops at older ones
    (target / "etc/apt/sources.list").unlink()
    for device in (target / "dev").iterdir():
        remove_tree(device)
    options = ["--skip=check/empty", *_exclude_options(recipe)]
    bootstrap(recipe.suite, recipe.layer, target, tag, variant="custom", options=options)
    _normalize(target)


def make_data(data: DataSet, tree: Path, tag: str) -> None:
    """Make a data set in a tree. Raises ImageError with the last output of its script.

    The script runs in a PID namespace of its own: when it ends, or the build is killed, so does all it started.
    """
    directory = tree / data.directory.lstrip("/")
    directory.mkdir(parents=True)
    argv = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    argv += ["--propagation", "private", "--"]
    argv += ["sh", "-euc", _IN_TREE, "sh", str(tree), data.script, data.directory]
    try:
        result = run(argv, timeout_s=_BUILD_TIMEOUT_S, tag=tag, check=False)
    except CommandFailed as error:
        raise ImageError(
            f"the data {data.name} could not be made", where=error.what[-500:]
        ) from error
    if result.status != 0:
        lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
        raise ImageError(
            f"the data {data.name} could not be made: their script failed with status {result.status}",
            where="; ".join(line.strip() for line in lines[-_LINES_SHOWN:] if line.strip()),
            hint="run the same command again: nothing of a layer that failed is kept",
        )


def make_build_root(recipe: Recipe, target: Path, tag: str) -> None:
    """Unpack compiler and kernel. Raises ImageError."""
    bootstrap(
        recipe.suite, (*BUILD_ROOT_PACKAGES, recipe.kernel_package), target, tag, variant="extract"
    )


def bootstrap(
    suite: str,
    packages: Iterable[str],
    target: Path,
    tag: str,
    *,
    variant: str = "minbase",
    options: Iterable[str] = (),
) -> None:
    """Make a directory a tree of a Debian suite, from the mirror that this host's apt uses.

    suite, packages: of Debian.
    target: the directory.
    tag: of the processes, in the journal already (resources.TaggedProcesses).
    variant, options: of mmdebstrap(1).

    Raises ImageError.
    """
    argv = ["unshare", "--mount", "--propagation", "private", "--"]
    argv += ["mmdebstrap", "--mode=root", f"--variant={variant}", f"--architectures={HOST.debian}"]
    argv += [f"--keyring={keyring()}", '--aptopt=APT::Install-Recommends "false"']
    argv += [f"--aptopt={line}" for line in host_proxies()]
    argv += [*options, f"--include={','.join(packages)}", "--format=directory", suite, str(target)]
    mirror = host_mirror()
    if mirror:
        argv.append(f"deb {mirror} {suite} main")
    environment = {"TMPDIR": str(target.parent)}
    try:
        run(argv, timeout_s=_BUILD_TIMEOUT_S, tag=tag, environment=environment)
    except CommandFailed as error:
        raise ImageError(
            "mmdebstrap could not make the file system",
            where=_reason(error.what),
            hint="see whether `apt-get update` works here: it comes from the same mirror",
        ) from error


def _exclude_options(recipe: Recipe) -> list[str]:
    """Return the options of mmdebstrap that leave out the files of packages that no guest reads."""
    return [f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.left_out]


def _reason(output: str) -> str:
    """Return the first error line of apt or mmdebstrap, which causes the others."""
    return next((line for line in output.splitlines() if line.startswith("E: ")), output[-300:])


def _normalize(tree: Path) -> None:
    """Remove what came from this host or this build, and fix what would differ from build to build."""
    for leftover in ("etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap"):
        (tree / leftover).unlink(missing_ok=True)
    for source in (tree / "etc/apt/sources.list.d").iterdir():
        source.unlink()
    (tree / "etc/apt/sources.list").write_text("")
    (tree / "etc/hostname").write_text("vtax\n")
    (tree / "etc/hosts").write_text(
        "127.0.0.1 localhost vtax\n::1 localhost ip6-localhost ip6-loopback\n"
    )
    (tree / "etc/resolv.conf").unlink(missing_ok=True)
    (tree / "etc/resolv.conf").write_text("")
    (tree / "etc/machine-id").write_text(_MACHINE_ID + "\n")
    scratch = tree / "scratch"
    scratch.mkdir(exist_ok=True)
    scratch.chmod(0o1777)


def package_versions(tree: Path) -> dict[str, str]:
    """Return name -> version of every installed package."""
    listing = run(
        ["chroot", tree, "/usr/bin/dpkg-query", "--show", "--showformat=${Package} ${Version}\n"]
    )
    return dict(line.split(" ", 1) for line in listing.stdout.splitlines())
