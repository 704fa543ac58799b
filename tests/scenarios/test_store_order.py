"""No output depends on the order in which a database happens to return rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from a_run import begin, fill
from command_line import output_of
from sqlalchemy import Engine, Select, event, func

OUTPUTS = (
    ("list", "--json"),
    ("show", "tour-1", "--all", "--json"),
    ("show", "tour-1", "--trials"),
    ("show", "tour-1", "--counters"),
    ("show", "tour-1", "--rows", "platform", "--benchmark", "sysbench-cpu", "--json"),
    ("explain", "tour-1", "--json"),
    ("history", "tour", "--json"),
    ("compare", "tour-1", "tour-2", "--json"),
    ("show", "tour-merged-1", "--all", "--json"),
)


@contextmanager
def _shuffled() -> Iterator[list[Any]]:
    """Shuffle rows that a query leaves in no order, or that its order does not tell apart; yield the queries."""
    queries = []

    def shuffle(
        connection: object, clause: Any, many: Any, values: Any, options: object
    ) -> tuple[Any, Any, Any]:
        if isinstance(clause, Select):
            queries.append(clause)
            clause = clause.order_by(func.random())
        return clause, many, values

    event.listen(Engine, "before_execute", shuffle, retval=True)
    try:
        yield queries
    finally:
        event.remove(Engine, "before_execute", shuffle)


@pytest.fixture
def two_runs(store):
    """Two runs and both of them merged."""
    for number, name in enumerate(("tour-1", "tour-2")):
        fill(begin(store, name), blocks=6, seed=number)
    output_of("merge", "tour-1", "tour-2")
    return store


@pytest.mark.parametrize("arguments", OUTPUTS, ids=" ".join)
def test_an_output_is_the_same_in_any_order_of_rows(two_runs, arguments):
    before = output_of(*arguments)
    with _shuffled() as queries:
        after = output_of(*arguments)
    assert queries
    assert after == before


@pytest.mark.parametrize("name", ["tour-1", "tour-merged-1"])
def test_a_report_and_a_bundle_are_the_same_in_any_order_of_rows(two_runs, name, tmp_path: Path):
    def files(directory: str) -> list[bytes]:
        there = tmp_path / directory
        there.mkdir()
        output_of("report", name, "-o", str(there / "page.html"))
        output_of("export", name, "-o", str(there / "rows.csv"))
        output_of("export", name, "-o", str(there / "run.vtax.gz"))
        return [file.read_bytes() for file in sorted(there.iterdir())]

    before = files("before")
    with _shuffled():
        assert files("after") == before
