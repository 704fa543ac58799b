"""Platforms of the run that stand for platforms of a publication, in the claims and in the figures of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtax.errors import BadInput
from vtax.levels import HOST
from vtax.report.analysis.drawings import named_in_figures
from vtax.report.analysis.values import Analysis
from vtax.report.answers.claims.compute import named_in_claims

Mapped = Mapping[str, str]


def of_claims(analysis: Analysis, mapped: Mapped) -> dict[str, str]:
    """Return what of a mapping the study's claims name."""
    return _kept(mapped, *named_in_claims(analysis))


def of_figures(analysis: Analysis, mapped: Mapped) -> dict[str, str]:
    """Return what of a mapping the study's figures name."""
    return _kept(mapped, *named_in_figures(analysis))


def check(analysis: Analysis, mapped: Mapped) -> None:
    """Raise BadInput for a mapping of a platform that neither a claim nor a figure of the study names."""
    known = {**of_claims(analysis, mapped), **of_figures(analysis, mapped)}
    for name, other in mapped.items():
        if name not in known:
            names = list(
                dict.fromkeys([*named_in_claims(analysis)[0], *named_in_figures(analysis)[0]])
            )
            what = f"no claim or figure of {analysis.study} names the platform {name!r}"
            hint = f"they name {', '.join(names)}" if names else "it has neither claims nor figures"
            raise BadInput(what, where=f"--map {name}={other}", hint=hint)


def _kept(mapped: Mapped, names: Sequence[str], hosts: set[int]) -> dict[str, str]:
    there = {*names, *(f"{HOST}-{number}" for number in hosts)}
    return {name: other for name, other in mapped.items() if name in there}
