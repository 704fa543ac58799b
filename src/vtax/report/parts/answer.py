"""The sentence that answers a run: which platforms equal the baseline, which are slower, what is not known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from vtax.report.analysis import Analysis, Row, Section, every_row
from vtax.report.document import Count, Inline, Number, Relative, Share, joined, listed, msg, plural, styled
from vtax.report.parts import shared
from vtax.store.records import PlatformRecord

_MOST_NAMED = 6  # platforms, benchmarks
_MOST_GROUPS = 3  # of platforms without a difference shown
_TOGETHER = 0.15  # of the baseline, by which bounds of a group differ at most; doubled until groups are few
_FAR = 2.0  # times, from which "times slower" is clearer than a percentage
_Judged = list[tuple[Section, Row]]
_Found = tuple[PlatformRecord, _Judged]


def sentence_of(analysis: Analysis) -> Inline:
    """`podman, docker: no difference shown; at least 96.9 % of native on cpu. qemu: 2.1 to 22 times slower.`

    Empty where nothing is judged.
    """
    groups: dict[str, list[_Found]] = {}
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
    if any(row.verdict and row.verdict.costs_at_most is not None and row.verdict.family > 1
           for kind in ("open", "undecided") for _, judged in groups.get(kind, ()) for _, row in judged):  # fmt: skip
        found.append(
            msg(
                "Bounds hold for all comparisons of a metric together ({level}), so they lie below single intervals.",
                level=analysis.level,
            )
        )
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


def _texts(kind: str, found: Sequence[_Found], analysis: Analysis) -> Iterator[Inline]:
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
        share = _range(every, analysis.baseline)
        shares = [row.ratio.efficiency(section.better).estimate for section, row in every if row.ratio]
        is_said = min(shares) < 1 / _FAR
        yield (
            msg("{platforms}: {share}.", platforms=names, share=share) if is_said
            else msg("{platforms}: slower, {share}.", platforms=names, share=share)
        )  # fmt: skip
    elif kind == "mixed":
        for platform, judged in found:
            yield _mixed(platform, judged, analysis.baseline)
    else:
        for group in _alike(found):
            names = _names([platform for platform, _ in group])
            bounds = _bounds(_undecided([each for _, judged in group for each in judged]), analysis.baseline)
            yield (
                msg("{platforms}: no difference shown; {bounds}.", platforms=names, bounds=bounds) if kind == "open"
                else msg("{platforms}: undecided; {bounds}.", platforms=names, bounds=bounds)
            )  # fmt: skip


def _alike(found: Sequence[_Found]) -> list[list[_Found]]:
    """Groups of platforms with the same marks whose bounds lie together, so that one bound speaks for each."""
    apart = _TOGETHER
    while True:
        groups: list[list[_Found]] = []
        for each in found:
            of = next((g for g in groups if all(_lie_together(each, other, apart) for other in g)), None)
            if of is None:
                groups.append([each])
            else:
                of.append(each)
        if len(groups) <= _MOST_GROUPS or apart > 1:
            return groups
        apart *= 2


def _lie_together(one: _Found, other: _Found, apart: float) -> bool:
    """Whether the bounds of two platforms differ by no more than this on every benchmark that both have."""
    if one[0].marks != other[0].marks:
        return False
    first, second = (_largest(_undecided(judged)) for _, judged in (one, other))
    costs = (
        [1.0 if of[label] is None else of[label] or 0.0 for of in (first, second)] for label in first.keys() & second
    )
    return all(abs(mine - its) <= apart for mine, its in costs)


def _largest(undecided: _Judged) -> dict[str, float | None]:
    """Benchmark -> the largest bound of its overhead, None where one has none."""
    largest: dict[str, float | None] = {}
    for section, row in undecided:
        bound = row.verdict.costs_at_most if row.verdict else None
        known = largest.get(section.label, 0.0)
        largest[section.label] = None if bound is None or known is None else max(known, bound)
    return largest


def _names(platforms: Sequence[PlatformRecord]) -> Inline:
    if len(platforms) > _MOST_NAMED:
        return plural("{count} platform", "{count} platforms", len(platforms))
    return joined([shared.platform_of(platform) for platform in platforms])


def _mixed(platform: PlatformRecord, judged: _Judged, baseline: str) -> Inline:
    """`docker: slower in 3 of 5 (91.2 % to 88.0 % of native), faster in 1 of 5.`"""
    slower, faster = (
        [each for each in judged if each[1].verdict and each[1].verdict.kind == kind] for kind in ("slower", "faster")
    )
    data: dict[str, Inline] = {"platform": shared.platform_of(platform), "total": Count(len(judged))}
    parts: list[Inline] = []
    if slower:
        count, share = Count(len(slower)), _range(slower, baseline)
        parts.append(msg("slower in {count} of {total} ({share})", count=count, share=share, total=data["total"]))
    if faster:
        parts.append(msg("faster in {count} of {total}", count=Count(len(faster)), total=data["total"]))
    return msg("{platform}: {parts}.", platform=data["platform"], parts=joined(parts))


def _range(judged: _Judged, baseline: str) -> Inline:
    """`2.1 to 22 times slower`, or of the baseline in percent where the slowest is less than twice as slow."""
    shares = [row.ratio.efficiency(section.better).estimate for section, row in judged if row.ratio is not None]
    low, high = min(shares), max(shares)
    if len(shares) == 1 or low == high:
        return Relative(low, baseline=baseline)
    if high < 1 / _FAR:
        times = [Number(1 / share if share else math.inf, 2) for share in (high, low)]
        return msg("{low} to {high} times slower", low=times[0], high=times[1])
    return msg("{high} to {low}", high=Relative(high, baseline=baseline), low=Relative(low))


def _bounds(undecided: _Judged, baseline: str) -> Inline:
    """`at least 95.8 % of native on sysbench-cpu, 65 % on dd`: the lowest bound of every benchmark with one."""
    largest = _largest(undecided)
    bounded = {label: bound for label, bound in largest.items() if bound is not None}
    order = sorted(bounded, key=lambda label: bounded[label])
    shown = order if len(order) <= _MOST_NAMED else [order[0], order[-1]]
    parts: list[Inline] = []
    if shown:
        shares = [Relative(1 - (bounded[name] or 0.0), is_of="amount", baseline="" if n else baseline)
                  for n, name in enumerate(shown)]  # fmt: skip
        named = [msg("{share} on {name}", share=share, name=name) for share, name in zip(shares, shown, strict=True)]
        parts.append(msg("at least {bounds}", bounds=listed(named)))
    if unknown := [label for label, bound in largest.items() if bound is None]:
        if len(unknown) > _MOST_NAMED:
            parts.append(plural("not known on {count} benchmark", "not known on {count} benchmarks", len(unknown)))
        else:
            parts.append(msg("not known on {names}", names=joined(list(unknown))))
    return joined(parts, "; ")
