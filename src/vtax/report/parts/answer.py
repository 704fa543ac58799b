"""The sentence that answers a run: which platforms equal the baseline, which are slower, what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.document import Count, Inline, Number, Share, joined, listed, msg, plural, styled
from vtax.report.parts import shared
from vtax.store.records import PlatformRecord

_MOST_NAMED = 6  # platforms, benchmarks
_FAR = 2.0  # times, from which "times slower" is clearer than a percentage
_Judged = list[tuple[Section, Row]]


def sentence_of(analysis: Analysis) -> Inline:
    """`podman, docker: no difference shown; cost at most 3.1 % on cpu. qemu (emulated): 2.1 to 22 times slower.`

    Empty where nothing is judged.
    """
    groups: dict[str, list[tuple[PlatformRecord, _Judged]]] = {}
    for platform in analysis.platforms:
        if platform.is_baseline or not platform.available:
            continue
        judged = [
            (section, row)
            for section, _, row in every_row(analysis.primary)
            if row.platform.name == platform.name and row.verdict is not None
        ]  # fmt: skip
        groups.setdefault(_kind(judged), []).append((platform, judged))
    found = [text for kind in _WORDS for text in _texts(kind, groups.get(kind, []), analysis)]
    return styled(joined(found, " "), "strong") if found else ""


_WORDS = ("equivalent", "open", "undecided", "slower", "mixed")


def _kind(judged: _Judged) -> str:
    """What all comparisons of a platform say together."""
    kinds = {row.verdict.kind for _, row in judged if row.verdict is not None}
    if not kinds:
        return ""
    if kinds == {"equivalent"} or kinds == {"slower"}:
        return kinds.pop()
    if not kinds <= {"equivalent", "undecided"}:
        return "mixed"
    is_open = all(row.ratio is None or row.ratio.low <= 1 <= row.ratio.high for _, row in _undecided(judged))
    return "open" if is_open else "undecided"


def _undecided(judged: _Judged) -> _Judged:
    return [(section, row) for section, row in judged if row.verdict and row.verdict.kind == "undecided"]


def _texts(kind: str, found: Sequence[tuple[PlatformRecord, _Judged]], analysis: Analysis) -> Iterator[Inline]:
    if not found:
        return
    names = _names([platform for platform, _ in found])
    every = [each for _, judged in found for each in judged]
    if kind == "equivalent":
        yield msg(
            "{platforms}: equivalent to {baseline}, within ±{margin}.", platforms=names, baseline=analysis.baseline,
            margin=Share(analysis.rule.margin, "declared"),
        )  # fmt: skip
    elif kind == "slower":
        yield msg("{platforms}: {factor} slower.", platforms=names, factor=_factor(every))
    elif kind == "mixed":
        for platform, judged in found:
            yield _mixed(platform, judged)
    else:
        bounds = _bounds(_undecided(every))
        template = (
            msg("{platforms}: no difference shown; cost {bounds}.", platforms=names, bounds=bounds) if kind == "open"
            else msg("{platforms}: undecided; cost {bounds}.", platforms=names, bounds=bounds)
        )  # fmt: skip
        yield template


def _names(platforms: Sequence[PlatformRecord]) -> Inline:
    if len(platforms) > _MOST_NAMED:
        return plural("{count} platform", "{count} platforms", len(platforms))
    return joined([shared.platform_of(platform) for platform in platforms])


def _mixed(platform: PlatformRecord, judged: _Judged) -> Inline:
    """`docker: slower in 3 of 5 comparisons (up to 12 %), faster in 1.`"""
    slower, faster = (
        [each for each in judged if each[1].verdict and each[1].verdict.kind == kind] for kind in ("slower", "faster")
    )
    data: dict[str, Inline] = {"platform": shared.platform_of(platform), "total": Count(len(judged))}
    parts: list[Inline] = []
    if slower:
        count, factor = Count(len(slower)), _factor(slower)
        parts.append(msg("slower in {count} of {total} ({factor})", count=count, factor=factor, total=data["total"]))
    if faster:
        parts.append(msg("faster in {count} of {total}", count=Count(len(faster)), total=data["total"]))
    return msg("{platform}: {parts}.", platform=data["platform"], parts=joined(parts))


def _factor(judged: _Judged) -> Inline:
    """`2.1 to 22 times`, or in per cent where the slowest is less than twice as slow."""
    shares = [row.ratio.efficiency(section.better).estimate for section, row in judged if row.ratio is not None]
    low, high = min(shares), max(shares)
    if low > 1 / _FAR:
        ends = [Share(1 - high, "overhead"), Share(1 - low, "overhead")]
        return ends[1] if len(shares) == 1 else msg("{low} to {high}", low=ends[0], high=ends[1])
    times = [Number(1 / share if share else math.inf, 2) for share in (high, low)]  # 0: below the smallest number
    if len(shares) == 1:
        return msg("{high} times", high=times[1])
    return msg("{low} to {high} times", low=times[0], high=times[1])


def _bounds(undecided: _Judged) -> Inline:
    """`at most 4.2 % on sysbench-cpu and 35.0 % on dd`: the largest bound of every benchmark, where there is one."""
    largest: dict[str, float | None] = {}
    for section, row in undecided:
        bound = row.verdict.costs_at_most if row.verdict else None
        known = largest.get(section.label, 0.0)
        largest[section.label] = None if bound is None or known is None else max(known, bound)
    bounded = {label: bound for label, bound in largest.items() if bound is not None}
    order = sorted(bounded, key=lambda label: bounded[label])
    shown = order if len(order) <= _MOST_NAMED else [order[0], order[-1]]
    parts: list[Inline] = []
    if shown:
        named = listed([msg("{share} on {name}", share=Share(bounded[n], "overhead"), name=n) for n in shown])
        parts.append(msg("at most {bounds}", bounds=named))
    if unknown := [label for label, bound in largest.items() if bound is None]:
        if len(unknown) > _MOST_NAMED:
            parts.append(plural("not known on {count} benchmark", "not known on {count} benchmarks", len(unknown)))
        else:
            parts.append(msg("not known on {names}", names=joined(list(unknown))))
    return joined(parts, "; ")
