"""A document: what is shown, as data. Views make it, renderers show it, and neither knows the other."""

from vtax.report.document.cells import (
    UNSCALED,
    Bar,
    Count,
    Duration,
    Efficiency,
    Factor,
    Interval,
    Mean,
    Moment,
    Nothing,
    Number,
    Offset,
    Platform,
    Probability,
    PValue,
    Quantity,
    Range,
    Ratio,
    Scale,
    Share,
    Size,
    Verdict,
    scale_for,
)
from vtax.report.document.charts import Bounded, Chart, ChartEvent, ChartPanel, ChartSeries, ChartValue
from vtax.report.document.parts import (
    Bullets,
    Code,
    Column,
    Document,
    Figure,
    FigureGroup,
    FigureRow,
    Group,
    Paragraph,
    Part,
    Row,
    Section,
    Table,
    Warnings,
)
from vtax.report.document.suite import Case, Suite
from vtax.report.document.text import (
    Inline,
    Joined,
    Link,
    Message,
    Stored,
    Styled,
    Translated,
    joined,
    listed,
    msg,
    muted,
    plural,
    stored,
    styled,
)
from vtax.report.document.warnings import Place, Warning, levels_of

__all__ = [
    "UNSCALED", "Bar", "Bounded", "Bullets", "Case", "Chart", "ChartEvent", "ChartPanel", "ChartSeries", "ChartValue",
    "Code",
    "Column", "Count",
    "Document", "Duration", "Efficiency", "Factor", "Figure", "FigureGroup", "FigureRow", "Group", "Inline",
    "Interval", "Joined", "Link", "Mean", "Message", "Moment", "Nothing", "Number", "Offset", "PValue",
    "Paragraph", "Part", "Place", "Platform", "Probability", "Quantity", "Range", "Ratio", "Row", "Scale",
    "Section", "Share", "Size", "Stored", "Styled", "Suite", "Table", "Translated", "Verdict", "Warning", "Warnings",
    "joined", "levels_of", "listed", "msg", "muted", "plural", "scale_for", "stored", "styled",
]  # fmt: skip
