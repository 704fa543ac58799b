"""Printed texts that tests pin whole: files of tests/golden, which `pytest --write-golden` makes again."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from vtax import __version__

GOLDEN = Path(__file__).parent / "golden"
CHECKOUT = Path(__file__).resolve().parents[1]
CHANGING = (  # what differs from run to run or from host to host, and what stands for it in a golden file
    (re.compile(re.escape(str(CHECKOUT))), "CHECKOUT"),
    (
        re.compile(r"/\S*/(?:pytest-of-[^/\s]+/pytest-\d+/(?:popen-gw\d+/)?|popen-gw\d+/)[^/\s]+"),
        "DIRECTORY",
    ),
    (re.compile(rf"\bvtax {re.escape(__version__)}\b"), "vtax VERSION"),
    (re.compile(r"\(process \d+\)"), "(process PID)"),
    (re.compile(r"\b[0-9a-f]{12}(?=[ ,;)])"), "IMAGE"),
    (re.compile(r"^about .* per block, .* in total"), "about TIME per block, TIME in total"),
    (re.compile(r"^cerca de .* por bloco, .* no total"), "cerca de TIME por bloco, TIME no total"),
    (re.compile(r"(one block, which takes) about .*"), r"\1 about TIME"),
    (re.compile(r"fits \d+ blocks? of about \d+ s"), "fits N blocks of about TIME"),
    (re.compile(r"(hint: give) .+ (or more, or fewer)"), r"\1 TIME \2"),
    (re.compile(r"(fits about|cabem cerca de) \d+"), r"\1 N"),
    (re.compile(r"(; a verdict needs 5 blocks: --budget) \d+"), r"\1 N"),
    (re.compile(r"[ \t]+$"), ""),
)


def masked(text: str, directory: Path) -> str:
    """A text without what changes from run to run. directory: of the test's own files."""
    lines = text.replace(str(directory), "DIRECTORY").splitlines()
    for pattern, instead in CHANGING:
        lines = [pattern.sub(instead, line) for line in lines]
    return "\n".join(lines).rstrip("\n") + "\n"


@dataclass(frozen=True)
class Golden:
    """The golden files of one test. place: without ending. directory: of the test's own files. writes: make them."""

    place: Path
    directory: Path
    writes: bool = False

    def __call__(self, text: str, part: str = "") -> None:
        """Compare a printed text with its file, whole. part: tells several texts of a test apart."""
        file = self.place.with_name(f"{self.place.name}{part and f'.{named(part)}'}.txt")
        found = masked(text, self.directory)
        if self.writes:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found, encoding="utf-8")
        pinned = file.read_text(encoding="utf-8") if file.exists() else ""
        lines = difflib.unified_diff(
            pinned.splitlines(), found.splitlines(), "pinned", "found", lineterm=""
        )
        assert found == pinned, "\n".join(
            (f"{file}: if this is meant, pytest --write-golden", *lines)
        )


def named(text: str) -> str:
    """A text as a part of a file's name."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-")


def golden_of(path: Path, test: str, directory: Path, *, writes: bool) -> Golden:
    """The golden files of a test of a module. test: its name with its parameters."""
    folder = path.relative_to(GOLDEN.parent).with_suffix("")
    return Golden(GOLDEN / folder / named(test), directory, writes)
