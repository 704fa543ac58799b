"""The runs in docs/examples are read by this vtax: each can be imported, and its claims and report be made."""

import json
import re

import pytest
from command_line import output_of
from doc_examples import DOCS

from vtax.study.load import load

EXAMPLES = DOCS / "examples"
ROW = re.compile(r"^\| `([a-z0-9-]+)` .*\| (\d+)(?:, (\d+) failed)? \|", re.MULTILINE)
TRIALS = {name: (trials, failed or "0") for name, trials, failed in ROW.findall((EXAMPLES / "README.md").read_text())}


def test_every_bundle_is_in_the_table():
    assert {path.name.removesuffix(".vtax.gz") for path in EXAMPLES.glob("*.vtax.gz")} == set(TRIALS)


@pytest.mark.parametrize("name", TRIALS)
def test_an_example_is_read(name, example, monkeypatch):
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{example(name)}")
    (listed,) = json.loads(output_of("list", "--json"))
    assert (listed["study"], listed["status"], listed["failed"]) == (
        name.removesuffix("-kvm").removesuffix("-xen"),
        "finished",
        int(TRIALS[name][1]),
    )
    assert listed["trials"] == int(TRIALS[name][0])
    assert output_of("show").splitlines()[1].startswith(f"{listed['name']}: finished")
    if load(listed["study"]).study.claim:
        assert json.loads(output_of("claims", "--json"))["claims"]


def test_a_comparison_ends_with_its_answer_and_what_would_decide(example, monkeypatch):
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{example('tour')}")
    answer = " ".join(output_of("compare", "podman", "docker").partition("\nSummary\n")[2].split())
    assert re.match(r"podman against docker: undecided on dd \(at least \d\S+\N{NO-BREAK SPACE}?\s?%\), ", answer)
    assert re.search(r"\. Next: .* 5 undecided comparisons\.$", answer)
