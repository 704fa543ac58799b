"""`vtax run --ab` in real containers, and the gate over that run: two platforms of one driver in shared blocks."""

from __future__ import annotations

import json

import pytest
from support import needs_root, vtax

from vtax.host.home import Home
from vtax.platforms import registry

pytestmark = [needs_root]
BLOCKS = 5
STUDY = f"""
name = "two"
platforms = ["native", "podman"]
[guest]
memory = "384MiB"
[design]
blocks = {BLOCKS}
[[benchmark]]
name = "sysbench-cpu"
parameters = {{ duration_s = 1 }}
[[claim]]
id = "podman-is-native"
statement = "Podman costs nothing."
statement_pt = "Podman não custa nada."
source = "nowhere"
[[claim.check]]
kind = "equivalence"
of = "podman"
within = 0.05
"""


@pytest.mark.usefixtures("private_home")
def test_two_podmans_run_in_the_same_blocks_and_are_checked(tmp_path, image):
    """They differ in one option, which changes no speed: a margin of 60 % is beyond any noise of a host."""
    probe = registry.get("podman").probe(image)
    if not probe.available:
        pytest.skip(f"podman does not run here: {probe.reason}")
    study = tmp_path / "two.toml"
    study.write_text(STUDY)
    done = vtax("run", str(study), "--ab", "podman,podman:no_new_privileges=true", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    new = "podman-no-new-privileges-true"
    assert result["declared"]["platforms"] == ["podman", new]
    assert (result["blocks"], result["trials"], result["failed"]) == (BLOCKS, 2 * BLOCKS, 0)
    (changed,) = [each["text"] for each in result["warnings"] if each["code"] == "study-changed"]
    assert (
        "no_new_privileges = true; compared with podman; left out, about other platforms: 1 claim"
        in changed
    )
    checked = vtax("compare", "--fail-if", "slower-by", "60%", "--strict", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    found = json.loads(checked.stdout)
    assert (found["baseline"], found["treatments"], found["status"]) == ("podman", [new], "passed")
    ((compared),) = found["comparisons"]
    assert compared["ratio"]["n_blocks"] == BLOCKS
    audit = json.loads(vtax("show", "--audit", "--json").stdout)
    assert "no_new_privs" in json.dumps(audit["audit"])
    home = Home.from_environment()
    assert not any(home.guests.iterdir())
    assert not any(home.journal.iterdir())
