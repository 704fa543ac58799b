"""Every finding of every publication that vtax repeats can be won, and lost, in the form that docs/studies.md recommends.

A made-up run in which findings are true, with the noise of a host with a few other programs, is judged `reproduced`;
one in which their reverse is true, `contradicted`. A new claim and a new study are tested without being named here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from published_run import Form, Word

from vtax.study.claims import ClaimTable
from vtax.study.load import load, shipped
from vtax.study.model import Study

RECOMMENDED = {"quick": 20}
"""Scale -> blocks; of every other scale 30, of the whole study its own."""
OTHER_SCALES = 30


def studies() -> list[str]:
    """The shipped studies that have claims."""
    return [name for name in sorted(shipped()) if any(map(is_of_this_test, load(name).study.claim))]


def is_of_this_test(claim: ClaimTable) -> bool:
    """Whether it says something of platforms; of a spread within guests tests/scenarios/test_stats_simulation.py does."""
    return bool(claim.check) and all(
        check.over not in ("trials", "pairing") for check in claim.check
    )


def forms(study: Study) -> Iterator[Form]:
    """The forms of a study in the order in which its user tries them."""
    hosts = max((max(check.hosts, default=1) for c in study.claim for check in c.check), default=1)
    for scale in sorted(study.scale, key=lambda name: name not in RECOMMENDED):
        if scale != "tiny":
            yield Form(study.name, scale, RECOMMENDED.get(scale, OTHER_SCALES), hosts)
    yield Form(study.name, hosts=hosts)


@pytest.mark.parametrize("name", studies())
def test_every_finding_is_reproduced_where_it_is_true_and_contradicted_where_its_reverse_is(name):
    study = load(name).study
    left = {claim.id for claim in study.claim if is_of_this_test(claim)}
    said: dict[tuple[str, Word], str] = {}
    for form in forms(study):
        here = [claim for claim in form.compared if claim in left]
        for word in ("reproduced", "contradicted"):
            for world in form.worlds(word, here):
                judged = form.judged(world)
                said |= {(claim, word): judged[claim].word for claim in world.findings}
        left -= set(here)
        if not left:
            break
    assert not left, "no form has values of these claims"
    wrong = {
        f"{claim}, where {word} is true": is_ for (claim, word), is_ in said.items() if is_ != word
    }
    assert wrong == {}
