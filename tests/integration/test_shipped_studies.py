"""Every study of a paper runs from its file to judged claims, at its smallest scale on native and in a container.

A run builds the image that its study needs, once on a machine: half a minute each for mauricio2013, trindade2018.
"""

from __future__ import annotations

import json
import shutil

import pytest
from support import needs_program, needs_root, thorough, vtax

from vtax.study.load import load

pytestmark = [
    needs_root,
    needs_program("mmdebstrap", "lxc-execute"),
    pytest.mark.usefixtures("image", "private_home"),
]

PAPERS = ("ufla2010", "urschei2007", *thorough("mauricio2013", "santos2008", "trindade2018"))
WORDS = {"reproduced", "contradicted", "inconclusive", "not tested"}


@pytest.mark.parametrize("name", PAPERS)
def test_a_study_of_a_paper_runs_to_judged_claims(name):
    if name == "mauricio2013" and not shutil.which("ovs-vsctl"):
        pytest.skip("no Open vSwitch on this host")
    made = vtax("run", name, "--scale", "tiny", "--platforms", "native,lxc", "--yes", "--json")
    assert made.returncode == 0, made.stderr
    assert "changed by --scale tiny: " in made.stderr
    shown = json.loads(vtax("show", "last", "--raw", "all", "--json").stdout)
    assert [trial["error"] for trial in shown["trials"] if trial["status"] != "ok"] == []
    text = vtax("show", "last").stdout
    assert "changed by --scale tiny" in " ".join(text.split("\n\n")[0].split())
    judged = json.loads(vtax("claims", "last", "--json").stdout)
    assert [claim["id"] for claim in judged["claims"]] == [
        claim.id for claim in load(name).study.claim
    ]
    assert {claim["judgement"] for claim in judged["claims"]} <= WORDS
    assert all(claim["why"] for claim in judged["claims"] if claim["judgement"] == "not tested")
    assert [each["option"] for each in judged["changed_by"]] == ["--scale tiny"]
