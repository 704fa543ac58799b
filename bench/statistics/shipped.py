"""The words that the runs of docs/examples get: how many comparisons are decided, and why others are withheld.

    python bench/statistics/shipped.py

Words of primary metrics against the baseline, as `vtax show` has them. No noise is simulated: it is real.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from vtax.cli.main import group
from vtax.report.analysis.next_step import withheld
from vtax.report.analysis.result import analyse
from vtax.store.store import Store

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
WORDS = ("equivalent", "undecided", "slower", "faster")


@contextmanager
def opened(name: str) -> Iterator[Store]:
    """A store with the run of an example alone."""
    with tempfile.TemporaryDirectory() as directory:
        place = f"sqlite:///{directory}/store.sqlite"
        bundle = str(EXAMPLES / f"{name}.vtax.gz")
        done = CliRunner().invoke(group, ["import", bundle], env={"VTAX_STORE": place})
        if done.exit_code:
            raise SystemExit(f"{name}: {done.output}")
        with Store.open(place, read_only=True) as store:
            yield store


def words_of(name: str) -> tuple[int, Counter[str], Counter[str]]:
    """(blocks, how often each word, how often each reason to withhold one) of a run."""
    words, reasons = Counter[str](), Counter[str]()
    with opened(name) as store:
        found = analyse(store)
    for section in found.primary:
        for row in (row for point in section.points for row in point.rows):
            if row.verdict is not None:
                words[row.verdict.kind] += 1
                reasons.update(note.code for note in withheld(row))
    return found.blocks, words, reasons


def main() -> None:
    heads = ("run", "blocks", "comparisons", *WORDS, "withheld")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    total, why = Counter[str](), Counter[str]()
    for bundle in sorted(EXAMPLES.glob("*.vtax.gz")):
        name = bundle.name.removesuffix(".vtax.gz")
        blocks, words, reasons = words_of(name)
        total, why = total + words, why + reasons
        listed = ", ".join(f"{code} {n}" for code, n in reasons.most_common())
        counts = (words.total(), *(words[word] for word in WORDS))
        print(f"| {name} | {blocks} | {' | '.join(map(str, counts))} | {listed} |")
    listed = ", ".join(f"{code} {n}" for code, n in why.most_common())
    print(
        f"| all | | {total.total()} | {' | '.join(str(total[word]) for word in WORDS)} | {listed} |"
    )


if __name__ == "__main__":
    main()
