"""The options of `vtax run` as one value; `vtax anatomy` and `vtax resume` have some of them, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtax.stats.terms import Quantity

_OF_STUDY = ("image", "vcpus", "memory", "disk", "scratch", "link", "boot")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a command that measures, as they are written.

    load_of: --load.
    only_plan, only_toml: --dry-run, --toml.
    check: the margins of --check.
    ladder, largest, benchmarks: of `vtax anatomy`, the platform that is taken apart, rungs to measure in both orders in
    place of the ladder, and benchmarks.
    budget_part: the share that `budget` is of what was written; `vtax anatomy` divides its budget among two runs.
    """

    study: str | None = None
    platforms: tuple[str, ...] = ()
    ab: str | None = None
    scale: str = ""
    protocol: str = ""
    vcpus: int | None = None
    memory: str | None = None
    image: str | None = None
    load_of: str | None = None
    serve: str | None = None
    port: int | None = None
    disk: str | None = None
    scratch: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    boot: tuple[str, ...] = ()
    blocks: int | None = None
    sessions: int | None = None
    pause: str | None = None
    budget: str | None = None
    seed: int | None = None
    tags: tuple[str, ...] = ()
    yes: bool = False
    only_plan: bool = False
    only_toml: bool = False
    trust: bool = False
    tune_host: bool = False
    wait: str | None = None
    strict: bool = False
    check: Mapping[Quantity, float] | None = None
    detect: str | None = None
    junit: Path | None = None
    as_json: bool = False
    ladder: str | None = None
    largest: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    budget_part: float = 1.0

    @property
    def is_typed(self) -> bool:
        """Whether the programs of the study were typed with the command, which is consent to them."""
        return self.load_of is not None

    @property
    def of_study(self) -> dict[str, Any]:
        """The options that change guests and links of a study, by name, those that are given."""
        options = {}
        for name in _OF_STUDY:
            value = getattr(self, name)
            if value not in (None, ()):
                options[name] = value
        return options
