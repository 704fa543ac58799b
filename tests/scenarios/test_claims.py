"""`vtax claims` on stored runs: words, mapping, JSON, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from a_run import DECLARED, begin, fill
from click.testing import CliRunner, Result
from command_line import refusals

from vtax.cli.main import group
from vtax.store.store import Store

NETWORK = {"benchmark": "iperf3"}
CLAIMS: list[dict[str, Any]] = [
    {"id": "tcg-slow", "check": [{"kind": "ratio", "of": "qemu-tcg", "below": 0.3, **NETWORK}]},
    {
        "id": "tcg-fast",
        "check": [{"kind": "equivalence", "of": "qemu-tcg", "within": 0.1, **NETWORK}],
    },
    {
        "id": "lxc-exact",
        "check": [{"kind": "equivalence", "of": "lxc", "within": 0.0001, **NETWORK}],
    },
    {
        "id": "xen-fast",
        "check": [{"kind": "equivalence", "of": "xen-pv", "within": 0.05, **NETWORK}],
    },
    {"id": "later", "not_tested": "needs two merged runs"},
]


@pytest.fixture
def store(home_store):
    return home_store


def stored(store: Store, claims: list[dict[str, Any]] = CLAIMS) -> None:
    text = {"statement": "So it is.", "statement_pt": "Assim é.", "source": "table 1"}
    declared = {**DECLARED, "claim": [{**text, **claim} for claim in claims]}
    declared["published"] = [
        {
            "source": "table 2",
            "benchmark": "iperf3",
            "metric": "throughput",
            "where": {"direction": "send"},
            "values": {"native": 940.0, "xen-pv": 924.0},
        }
    ]
    fill(begin(store, declared=declared))


def invoked(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["claims", *arguments])


def words(*arguments: str) -> dict[str, str]:
    found = json.loads(invoked(*arguments, "--json").output)
    return {claim["id"]: claim["judgement"] for claim in found["claims"]}


def test_every_claim_has_a_word(store, golden):
    stored(store)
    assert words() == {
        "tcg-slow": "reproduced",
        "tcg-fast": "contradicted",
        "lxc-exact": "inconclusive",
        "xen-fast": "not tested",
        "later": "not tested",
    }
    golden(invoked("tour-1").output)


def test_a_report_takes_a_mapping_into_the_chapter_of_claims(store, tmp_path, golden):
    stored(store)

    def report(*arguments: str) -> Result:
        output = str(tmp_path / "report.md")
        return CliRunner().invoke(
            group, ["export", "--format", "markdown", "--output", output, *arguments]
        )

    assert report().exit_code == 0
    assert "xen-pv is not in this run" in (tmp_path / "report.md").read_text()
    assert report("--map", "xen-pv=docker").exit_code == 0
    text = " ".join((tmp_path / "report.md").read_text().split())
    assert "Mapped by request: docker for xen-pv" in text
    assert "docker (for xen-pv)" in text
    unknown = report("--map", "gone=docker").exception
    without_chapters = report("--map", "xen-pv=docker", "--format", "csv").exception
    golden(f"{unknown}\n{without_chapters}", "refused")


def test_mapping_is_on_request_and_in_every_table(store, golden):
    stored(store)
    assert words("--map", "xen-pv=docker")["xen-fast"] == "reproduced"
    golden(invoked("--map", "xen-pv=docker").output)
    found = json.loads(invoked("--map", "xen-pv=docker", "--json").output)
    assert found["map"] == {"xen-pv": "docker"}
    assert {each["platform"]: each["here"] for each in found["published"]} == {
        "native": "native",
        "xen-pv": "docker",
    }


def test_a_mapping_that_cannot_be_is_refused_with_a_hint(store, capsys, golden):
    stored(store)
    maps = (
        "xen-pv",
        "xen-pv=podman",
        "xen-pv=kvm-virtio",
        "nspawn=docker",
        "lxc=docker",
        "xen-pv=docker --map xen-pv=lxc",
    )
    golden(refusals(capsys, "claims", *(f"--map {each}" for each in maps)))


def test_a_run_without_claims_says_so(store):
    fill(begin(store))
    result = invoked()
    assert "the study of this run has no claims" in str(result.exception)
    shown = json.loads(CliRunner().invoke(group, ["claims", "--json"]).output)
    assert shown["claims"] == []


def test_the_keys_of_json_are_documented(store):
    stored(store)
    found = json.loads(invoked("--json").output)
    page = (Path(__file__).resolve().parents[2] / "docs/data.md").read_text()
    section = page[page.index("### Of `vtax claims`") :]
    keys = {
        *found,
        *found["claims"][0],
        *found["claims"][0]["comparisons"][0],
        *found["published"][0],
    }
    assert {
        key for key in keys - {"schema", "run", "study"} if not re.search(rf"\b{key}`", section)
    } == set()
