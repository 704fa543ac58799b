"""A ladder of real guests: what a program does more where it sees one mechanism is found at the rung of that."""

from __future__ import annotations

import json

import pytest
from support import needs_program, needs_root, vtax

from vtax.platforms import registry

pytestmark = [needs_root, needs_program("bwrap")]
PROGRAM = """
more = "NoNewPrivs:\\t1" in open("/proc/self/status").read()
for number in range(2_000_000 if more else 200_000):
    number * number
"""
STUDY = """
name = "planted"
platforms = ["native", "spaces", "privileges", "filtered"]
[guest]
memory = "384MiB"
[design]
blocks = 6
[[platform]]
name = "spaces"
driver = "sandbox"
namespaces = true
[[platform]]
name = "privileges"
driver = "sandbox"
namespaces = true
no_new_privileges = true
[[platform]]
name = "filtered"
driver = "sandbox"
namespaces = true
no_new_privileges = true
filter = true
[[rung]]
platform = "native"
adds = "nothing"
[[rung]]
platform = "spaces"
adds = "process namespaces"
[[rung]]
platform = "privileges"
adds = "no_new_privs"
remedy = "another program"
[[rung]]
platform = "filtered"
adds = "filter of system calls"
[[program]]
name = "planted"
argv = { guest = ["python3", "{files}/program.py"] }
files = ["program.py"]
version = ["python3", "--version"]
[[program.metric]]
name = "time"
unit = "s"
better = "lower"
elapsed = true
[[benchmark]]
name = "planted"
"""


@pytest.mark.usefixtures("private_home", "image")
def test_the_ladder_of_a_platform_is_measured_by_one_command():
    done = vtax("anatomy", "--of", "bubblewrap", "kernel-paths", "--budget", "40s", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rungs = registry.ladders()["bubblewrap"]
    assert result["declared"]["platforms"] == [rung.name for rung in rungs]
    assert result["failed"] == 0
    assert "both_orders" in result
    shown = vtax("show", result["run"], "--ladder", "--json")
    ladders = json.loads(shown.stdout)["ladder"]["ladders"]
    assert {ladder["of"] for ladder in ladders} == {"bubblewrap"}
    assert len(ladders) == 6  # three operations, each with the CPU time of the host
    for ladder in ladders:
        assert [step["platform"] for step in ladder["steps"]] == [r.name for r in rungs[1:]]


@pytest.mark.usefixtures("private_home", "image")
def test_a_planted_cost_is_found_at_its_rung(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    study = tmp_path / "planted.toml"
    study.write_text(STUDY)
    done = vtax("run", str(study), "--trust", "--yes")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "no_new_privs costs: another program" in shown
    assert "of the rung below" in shown
    speed = json.loads(vtax("show", "--ladder", "--json").stdout)["ladder"]["ladders"][0]
    words = {step["adds"][0]: step["verdict"]["kind"] for step in speed["steps"]}
    assert words["no_new_privs"] == "slower"
    assert "slower" not in (words["process namespaces"], words["filter of system calls"])
    [step] = [step for step in speed["steps"] if step["adds"] == ["no_new_privs"]]
    assert (step["platform"], step["below"]) == ("privileges", "spaces")
    assert step["ratio"]["estimate"] > 2
