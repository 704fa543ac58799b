"""`vtax anatomy BENCHMARK`: a study with some of its benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtax.errors import BadInput, nearest_of
from vtax.study.changes import ChangedPart, changed_by

_OF_ALL_BENCHMARKS = ("claim", "published", "figure", "scale", "protocol")


def with_benchmarks(data: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """Return the values of a valid study with these of its benchmarks, and the programs that they need.

    Claims, published numbers, figures, scales and protocols are left out, since they may be about the others. Raises
    BadInput for a label that the study does not have.
    """
    tables = {str(table.get("label") or table["name"]): table for table in data["benchmark"]}
    for label in labels:
        if label not in tables:
            raise BadInput(
                f"{data['name']} has no benchmark {label!r}{nearest_of(label, tables)}",
                where="BENCHMARK",
                hint=f"known: {', '.join(tables)}",
            )
    chosen_tables = [table for label, table in tables.items() if label in labels]
    names = {table["name"] for table in chosen_tables}
    values = {key: value for key, value in data.items() if key not in _OF_ALL_BENCHMARKS}
    if "program" in values:
        values["program"] = [table for table in values["program"] if table["name"] in names]
    parts = [ChangedPart(what="no other benchmark")]
    return {
        **values,
        "benchmark": chosen_tables,
        "changed_by": [
            *data.get("changed_by", ()),
            changed_by(" ".join(labels), parts),
        ],
    }
