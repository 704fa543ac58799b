"""The runs in docs/examples are read by this vtax: each can be imported, and its claims and report be made."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from vtax.cli.main import group

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
ROW = re.compile(r"^\| `([a-z0-9-]+)` .*\| (\d+)(?:, (\d+) failed)? \|", re.MULTILINE)
TRIALS = {name: (trials, failed or "0") for name, trials, failed in ROW.findall((EXAMPLES / "README.md").read_text())}


def test_every_bundle_is_in_the_table():
    assert {path.name.removesuffix(".vtax.gz") for path in EXAMPLES.glob("*.vtax.gz")} == set(TRIALS)


@pytest.mark.parametrize("name", TRIALS)
def test_an_example_is_read(name, tmp_path, monkeypatch):
    monkeypatch.setenv("VTAX_STORE", f"sqlite:///{tmp_path}/store.sqlite")
    imported = CliRunner().invoke(group, ["import", str(EXAMPLES / f"{name}.vtax.gz")])
    assert imported.exit_code == 0, imported.exception
    (listed,) = json.loads(CliRunner().invoke(group, ["list", "--json"]).output)
    assert (listed["study"], listed["status"], listed["failed"]) == (
        name.partition("-")[0],
        "finished",
        int(TRIALS[name][1]),
    )
    assert listed["trials"] == int(TRIALS[name][0])
    shown = CliRunner().invoke(group, ["show"])
    assert shown.exit_code == 0, shown.exception
    assert shown.output.splitlines()[1].startswith(f"{listed['name']}: finished")
    if name != "tour":
        judged = json.loads(CliRunner().invoke(group, ["claims", "--json"]).output)
        assert judged["claims"]
