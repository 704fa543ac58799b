"""A document for programs: plain values, never rounded; texts in English, and null for a number that is not finite.

A view gives its values as `data`. Of one that does not, the tables are written: a list of rows, by column.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vtax.described import values_of
from vtax.report import document as doc
from vtax.report.renderers.format import Formatter

_SINGLE = (doc.Number, doc.Count, doc.Quantity, doc.Share, doc.PValue)
_SECONDS = (doc.Duration, doc.Offset, doc.Moment)


def as_json(document: doc.Document) -> Any:
    """Return the values of a document."""
    if document.data is not None:
        return plain(document.data() if callable(document.data) else document.data)
    return [
        plain({"table": table.key, "rows": _rows(table)})
        for table in document.tables()
        if not table.repeats
    ]


def _rows(table: doc.Table) -> list[dict[str, Any]]:
    keys = [column.key for column in table.columns]
    return [
        {
            **({"group": group.title} if group.title != "" else {}),
            **dict(zip(keys, row.cells, strict=False)),
        }
        for group in table.groups
        for row in group.rows
    ]


def plain(value: Any) -> Any:
    """Return a value of JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, doc.Message | doc.Joined):
        return Formatter().text(value)
    if isinstance(value, doc.Translated):
        return value.text
    if isinstance(value, doc.Styled | doc.Link):
        return plain(value.text)
    return _typed(value)


def _typed(value: Any) -> Any:
    """Return a typed value: the number where it is one, else its parts by name."""
    if isinstance(value, _SINGLE):
        return plain(value.value)
    if isinstance(value, _SECONDS):
        return plain(value.seconds)
    if isinstance(value, doc.Relative):
        return plain(value.estimate)
    if isinstance(value, doc.Mean):
        return plain(value.half_width if value.shows == "half-width" else value.mean)
    if isinstance(value, doc.Size):
        return plain(value.size_bytes)
    if isinstance(value, doc.VerdictCell):
        return value.kind
    if isinstance(value, doc.PlatformCell):
        return value.name
    if isinstance(value, doc.Nothing):
        return None
    if dataclasses.is_dataclass(value):
        return plain(values_of(value))
    return plain(value.tolist()) if isinstance(value, np.ndarray) else value
