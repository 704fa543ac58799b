"""Platforms of the run that stand for platforms of a publication, in the claims and in the figures of a report."""

from __future__ import annotations

from vtax.errors import BadInput
from vtax.report.analysis.claim_cells import Mapped, mapping_of
from vtax.report.analysis.values import Analysis
from vtax.report.answers.claims.compute import named_in_claims
from vtax.report.answers.figures.compute import named_in_figures


def check(analysis: Analysis, mapped: Mapped) -> None:
    """Raise BadInput for a mapping of a platform that neither a claim nor a figure of the study names."""
    named_sets = (named_in_claims(analysis), named_in_figures(analysis))
    known_names = {name for names in named_sets for name in mapping_of(mapped, *names)}
    for name, stand_in in mapped.items():
        if name not in known_names:
            names = list(dict.fromkeys([*named_sets[0][0], *named_sets[1][0]]))
            sentence = f"no claim or figure of {analysis.study} names the platform {name!r}"
            hint = f"they name {', '.join(names)}" if names else "it has neither claims nor figures"
            raise BadInput(sentence, where=f"--map {name}={stand_in}", hint=hint)
