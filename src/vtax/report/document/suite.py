"""What a check found, one case a comparison: for renderers of test reports such as JUnit's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vtax.report.document.text import Inline


@dataclass(frozen=True)
class Case:
    """One thing that was checked. group: what it belongs to, such as a platform with its marks. kind: the finding as
    a word for programs. text: why it is not `passed`. seconds: of its trials."""

    group: Inline
    name: Inline
    outcome: Literal["passed", "failed", "error", "skipped"]
    kind: str
    text: Inline = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Suite:
    """All cases of a check. started_at: Unix time. properties: name -> value, of what all cases share."""

    name: str
    started_at: float
    cases: tuple[Case, ...]
    properties: Mapping[str, Inline] = field(default_factory=dict)
