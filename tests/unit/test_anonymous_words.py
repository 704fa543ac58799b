"""Words of studies that look like a login stay in an anonymized run."""

import json

import pytest

from vtax.store.anonymous import Anonymizer
from vtax.study.load import load


def _without_names(text: str, users: tuple[str, ...] = ()) -> str:
    rows = [("run", {"declared": text})]
    anonymizer = Anonymizer("0123456789abcdef", users=users)
    anonymizer.see(rows)
    return str(next(iter(anonymizer.rows(rows)))[1]["declared"])


@pytest.mark.parametrize(
    "study", ["urschei2007", "ufla2010", "santos2008", "mauricio2013", "trindade2018", "folklore"]
)
def test_the_claims_of_a_shipped_study_stay_as_they_are(study: str) -> None:
    text = json.dumps(load(study).study.declared(), default=str)
    assert "@" in text or study not in ("urschei2007", "ufla2010")
    assert _without_names(text) == text


def test_a_login_in_a_text_is_still_replaced() -> None:
    assert _without_names("ana@bench-7 and xen-pv@link.mtu=1500") == "user-1@host-1 and xen-pv@link.mtu=1500"
