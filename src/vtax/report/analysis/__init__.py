"""From a stored run to its results: pure data, nothing about how it is shown."""

from vtax.report.analysis.result import analyse, analyse_data
from vtax.report.analysis.values import Analysis, ResultPoint, Row, Section, every_row, place_of

__all__ = [
    "Analysis",
    "ResultPoint",
    "Row",
    "Section",
    "analyse",
    "analyse_data",
    "every_row",
    "place_of",
]
