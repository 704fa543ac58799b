"""The one table of limits: docs/security.md shows it, and programs that run alone have the same numbers."""

import re
from pathlib import Path

from vtax.campaign import prepare
from vtax.limits import HEADER, PACK, PAYLOAD, TABLE, Limit
from vtax.units import about_size

ROOT = Path(__file__).parents[2]


def row(limit: Limit) -> str:
    """A line of the table."""
    cells = (
        limit.what,
        str(limit.depth or ""),
        f"{limit.count:,} {limit.counted}".replace(",", " ") if limit.count else "",
        about_size(limit.size_bytes) if limit.size_bytes else "",
    )
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def test_the_documentation_shows_every_limit():
    text = (ROOT / "docs/security.md").read_text()
    section = text.partition("\n## Limits\n")[2].partition("\n## ")[0]
    shown = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert shown == [row(each) for each in TABLE]


def test_every_limit_limits_something():
    assert len(TABLE) > 10
    assert all(each.depth or each.count or each.size_bytes for each in TABLE)
    assert all(bool(each.count) == bool(each.counted) for each in TABLE)


def test_programs_that_run_alone_have_the_same_limits():
    agent = (ROOT / "src/vtax/guest/agent.py").read_text()
    found = dict(re.findall(r"^(MAX_HEADER|MAX_PAYLOAD) = 1 << (\d+)$", agent, re.MULTILINE))
    assert {name: 1 << int(bits) for name, bits in found.items()} == {
        "MAX_HEADER": HEADER.size_bytes,
        "MAX_PAYLOAD": PAYLOAD.size_bytes,
    }
    assert (PACK.depth, PACK.size_bytes) == (prepare._MAX_DEPTH, prepare._MAX_MANIFEST)
