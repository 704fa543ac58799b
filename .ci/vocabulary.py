"""Finds words that have two meanings in this field, where the exact term exists.

Run `python .ci/vocabulary.py`; it prints one line per finding and exits 1 when there is any. It reads every Python,
Markdown and TOML file: names in code as well as sentences.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hygiene import files, report

WORDS = {
    "knob": "tunable (of the host) or option (of vtax)",
    "remark": "note (information) or warning (a result is affected)",
    "card": "network interface, or NIC model",
    "cable": "veth pair, or link",
}
"""Word -> what to write instead."""

ACCEPTED = {
    ".ci/vocabulary.py": "this list",
    "tests/unit/fixtures/": "outputs of tools, verbatim",
}
"""Beginning of a path -> why such words may stand there."""

TITLE = "Tuning 10Gb network cards on Linux"
"""The title of a paper that is cited."""

_WORD = re.compile(rf"(?<![A-Za-z-])({'|'.join(WORDS)})s?(?![a-z])", re.IGNORECASE)


def findings(root: Path) -> Iterator[str]:
    """Yield a line for every such word in the files of a checkout."""
    for path in files(root, tuple(ACCEPTED)):
        if path.endswith((".py", ".md", ".toml")):
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if match := _WORD.search(line.replace(TITLE, "")):
                    yield f"{path}:{number}: {match[0]!r}: write {WORDS[match[1].lower()]}"


if __name__ == "__main__":
    sys.exit(report(findings(Path(__file__).resolve().parents[1])))
