"""Hints name the packages, and the command, of the host's own distribution; quickstart reads the same table."""

import ast
import subprocess
from pathlib import Path

import pytest

import vtax
from vtax.host import packages
from vtax.host.architecture import KNOWN
from vtax.messages import Note
from vtax.platforms import user_network
from vtax.platforms.oci import runtime as oci_runtime

CHECKOUT = Path(__file__).parents[2]
SOURCE = Path(vtax.__file__).parent
DEBIAN = "ID=debian\nVERSION_ID=12\n"
UBUNTU = "ID=ubuntu\nID_LIKE=debian\n"
MINT = "ID=linuxmint\nID_LIKE='ubuntu debian'\n"
FEDORA = 'NAME="Fedora Linux"\nID=fedora\nVARIANT_ID=server\n'
ALMA = 'ID="almalinux"\nID_LIKE="rhel centos fedora"\n'
LEAP = 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n'
SLES = 'ID="sles"\nID_LIKE="suse"\n'
ARCH = "ID=arch\n"
_TABLES = {"programs", "_PROGRAMS", "PACKAGES", "_PACKAGES", "_LOADER_PACKAGES"}


@pytest.mark.parametrize(
    ("os_release", "hint"),
    [
        (DEBIAN, "apt install qemu-system-x86 qemu-utils"),
        (UBUNTU, "apt install qemu-system-x86 qemu-utils"),
        (MINT, "apt install qemu-system-x86 qemu-utils"),
        (FEDORA, "dnf install qemu-system-x86-core qemu-img"),
        (ALMA, "dnf install qemu-system-x86-core qemu-img"),
        (LEAP, "zypper install qemu-x86 qemu-tools"),
        (SLES, "zypper install qemu-x86 qemu-tools"),
        (ARCH, Note("hint-packages-of-debian", names=("qemu-system-x86", "qemu-utils"))),
        ("", Note("hint-packages-of-debian", names=("qemu-system-x86", "qemu-utils"))),
    ],
)
def test_a_hint_is_of_the_distribution(os_release, hint):
    assert packages.hint_for(os_release, "qemu-system-x86", "qemu-utils", "qemu-utils", "") == hint


def test_what_a_distribution_has_no_package_of_is_said():
    assert packages.hint_for(FEDORA, "") == Note("hint-no-package")
    assert packages.hint_for(SLES, "runsc").code == "hint-not-packaged"
    part = packages.hint_for(SLES, "mmdebstrap", "iproute2")
    assert (part.code, part.data["install"]) == ("hint-packaged-in-part", "zypper install iproute2")
    assert list(part.data["names"]) == ["mmdebstrap"]
    assert packages.hint_for(FEDORA, "of-a-plugin") == "dnf install of-a-plugin"


def asked_for() -> set[str]:
    """Debian's names of all packages that hints and quickstart name, read from the code: none is forgotten."""
    names = {*oci_runtime.PACKAGES.values(), *user_network.PACKAGES.values()}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in ("packages_hint", "Need(", "programs", *_TABLES)):
            inside = path.parent.name in ("platforms", "image", "doctor", "network")
            for node in ast.walk(ast.parse(text)):
                names |= set(_in(node, inside=inside))
    script = (CHECKOUT / "quickstart").read_text()
    rows = [line.split("|") for line in script.splitlines() if line.startswith(("to ", "for "))]
    assert len(rows) > 20
    words = [
        word
        for row in rows
        for word in row[2].replace("$(docker_client)", " docker-cli").split()
        if "$" not in word
    ]
    of_qemu = [architecture.qemu_package for architecture in KNOWN.values()]
    return {
        name
        for name in (*names, *words, *of_qemu, "apparmor")
        if name and not isinstance(name, Note)
    }


def _in(node: ast.AST, *, inside: bool) -> list[str]:
    """Arguments of `packages_hint`, packages of a doctor's `Need`, values of a table of programs and packages."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "packages_hint":
        return _strings(node.args)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Need":
        return _strings(node.args[2].elts)  # type: ignore[attr-defined]
    if inside and isinstance(node, ast.Assign | ast.AnnAssign | ast.keyword):
        target = node.arg if isinstance(node, ast.keyword) else _target(node)
        if isinstance(node.value, ast.Dict) and target in {
            "programs",
            "_PROGRAMS",
            "PACKAGES",
            "_PACKAGES",
            "_LOADER_PACKAGES",
        }:
            return _strings(node.value.values)
        if isinstance(node.value, ast.Tuple) and target == "_INSTALLED":
            return _strings(node.value.elts)
    return []


def _target(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    return target.id if isinstance(target, ast.Name) else ""


def _strings(nodes: list[ast.expr]) -> list[str]:
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_every_package_that_is_asked_for_has_a_name_in_each_family_or_is_listed_as_not_packaged():
    table = packages.table()
    wanted = asked_for()
    assert {
        "qemu-system-x86",
        "bubblewrap",
        "skopeo",
        "openvswitch-switch",
        "ansible-core",
        "iproute2",
    } <= wanted
    assert wanted <= table.keys()
    assert all(len(row) == 3 and all(row) for row in table.values())
    assert list(table) == sorted(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("os_release", "manager"), [(UBUNTU, "apt-get"), (ALMA, "dnf"), (LEAP, "zypper")]
)
def test_quickstart_finds_the_same_names(os_release, manager, tmp_path):
    (tmp_path / "os-release").write_text(os_release)
    functions = (
        (CHECKOUT / "quickstart")
        .read_text()
        .replace("/etc/os-release", str(tmp_path / "os-release"))
    )
    script = (
        functions.removesuffix('main "$@"\n')
        + """
        command() { true; }
        find_family; echo "$manager"; for name in $WANTED; do named_here "$name" | xargs; done"""
    )
    wanted = sorted(packages.table())
    said = subprocess.run(
        ["bash", "-c", script],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "WANTED": " ".join(wanted)},
    ).stdout.splitlines()
    column = packages.family_of(os_release)[1]
    assert said == [manager, *(" ".join(packages.names_of(name, column)) for name in wanted)]
