"""The same summaries for a million measurements in hundreds of cells: sorted once, then one pass of arrays a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vtax.stats.checks import StatsError, Values, as_array
from vtax.stats.describe import Summary, describe
from vtax.stats.means import Average


def describe_groups(
    values: Values,
    cells: npt.NDArray[Any],
    *,
    blocks: npt.NDArray[Any] | None = None,
    confidence: float = 0.95,
    averages: dict[Any, Average] | None = None,
) -> dict[Any, Summary | StatsError]:
    """`describe` for every cell: label -> Summary, or the StatsError of a cell that has none.

    cells, blocks: of each value, integers for speed; values of a cell in the order they were measured.
    averages: how trials are averaged, by cell; arithmetic where absent. outliers are positions within the cell.
    """
    array = as_array(values)
    if cells.shape != array.shape or (blocks is not None and blocks.shape != array.shape):
        raise StatsError("cells and blocks must have one label for each value")
    order = np.argsort(cells, kind="stable")
    names, starts = np.unique(cells[order], return_index=True)
    result: dict[Any, Summary | StatsError] = {}
    for name, part in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
        average: Average = (averages or {}).get(name, "arithmetic")
        labels = None if blocks is None else blocks[part]
        try:
            result[name] = describe(array[part], confidence, blocks=labels, average=average)
        except StatsError as error:
            result[name] = error
    return result
