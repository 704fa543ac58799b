"""Every `--ab` that help and documentation show runs where quickstart installed its packages, or names what it needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from command_line import output_of, refusal
from doc_examples import ROOT, blocks, commands

from vtax.cli import two_sides
from vtax.messages import Note
from vtax.platforms.qemu import shares as qemu_shares

INSTALLED = re.compile(r"apt install ([^#\n]*)")
_NEEDS = re.compile(r"^(?:to|for) [^|\n]*\|([^|\n]+)\|", re.MULTILINE)
_DEPENDENCIES = {"conmon", "qemu-system-x86_64", "qemu-system-aarch64"}
"""Programs of packages that those of quickstart depend on, and QEMU, whose name quickstart asks the machine for."""


def of_quickstart() -> set[str]:
    """The programs that quickstart makes sure of, but those for its tests."""
    text = (ROOT / "quickstart").read_text()
    needs = text[text.index("needs() {") : text.index("for tests alone")]
    found = {program for match in _NEEDS.finditer(needs) for program in match[1].split()}
    assert {"podman", "runc", "containerd", "dockerd", "qemu-img"} <= found
    return found | _DEPENDENCIES


def examples() -> Iterator[tuple[str, list[str], str]]:
    """Place, words of the command, what its block installs."""
    inside = {place: text for language in ("sh", "bash") for place, text in blocks(language)}
    for place, words in commands():
        if "--ab" in words[:-1] and "OLD,NEW" not in words:
            packages = " ".join(INSTALLED.findall(inside.get(place, "")))
            yield place, words, packages
    for line in output_of("run", "--help").splitlines():
        if "--ab" in line and (match := re.match(r"\s+vtax (run .*)", line)):
            yield "vtax run --help", shlex.split(match[1]), ""
    yield "the hint of --ab", ["run", "tour", *shlex.split(two_sides.EXAMPLE)], ""


FOUND = list(examples())


def test_the_examples_are_found():
    places = {place.partition(":")[0] for place, _, _ in FOUND}
    pages = {"README.md", "README.pt-BR.md", "kernel-update.md", "platforms.md", "study-files.md"}
    assert places >= pages | {"vtax run --help", "the hint of --ab"}


@pytest.mark.parametrize(("place", "words", "packages"), FOUND)
@pytest.mark.usefixtures("unmade_home", "taken_for_root")
def test_an_example_is_not_refused_where_quickstart_ran(place, words, packages, monkeypatch):
    programs = of_quickstart() | set(packages.split())

    def find(name: str) -> str | None:
        return f"/usr/bin/{name}" if name in programs else None

    for module in ("probing", "oci.docker", "qemu.shares"):
        monkeypatch.setattr(f"vtax.platforms.{module}.find_program", find)
    monkeypatch.setattr(qemu_shares, "PLACES", ())
    arguments = ["tour" if word == "STUDY" else word for word in words]
    if "--junit" in arguments:
        arguments[arguments.index("--junit") + 1] = "-"
    assert "platforms were not probed" in output_of(*arguments, "--dry-run")


@pytest.mark.usefixtures("unmade_home", "taken_for_root")
def test_what_quickstart_does_not_install_is_noticed(monkeypatch):
    programs = of_quickstart()
    monkeypatch.setattr(
        "vtax.platforms.probing.find_program", lambda name: name if name in programs else None
    )
    sides = "podman:runtime=runc,podman:runtime=crun"
    refused = refusal("run", "tour", "--dry-run", "--ab", sides).what
    assert refused.endswith(Note("not-installed", count=1, names=("crun",)))
