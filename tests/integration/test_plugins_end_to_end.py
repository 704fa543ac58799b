"""A platform with one optional capability and a topology with one setting: a file each, and a whole run."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conformance_plugins import TOPOLOGY
from support import needs_root

pytestmark = [needs_root]
PLATFORM = '''
"""bare: native under another name, whose guests can also run unpinned."""

from vtax.platforms.base import Driver, register_platform
from vtax.platforms.native import Native

NATIVE = Native()


@register_platform
class Bare(Driver):
    name = "bare"
    summary = "native under another name"
    Options = NATIVE.Options
    variants = {"bare": {}}
    tunings = ("default", "pinned")

    def probe(self, options, image):
        return NATIVE.probe(options, image)

    def start(self, options, spec):
        return NATIVE.start(options, spec)
'''
STUDY = """
name = "plugged"
platforms = ["native", "bare"]
tuning = ["default", "pinned"]
[guest]
memory = "256MiB"
[design]
blocks = 2
[[benchmark]]
name = "iperf3"
topology = "chain"
parameters = { duration_s = 1 }
link_factors = { label = ["plain", "fancy"] }
"""


def vtax(*arguments: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A vtax command that finds further packages in a directory."""
    paths = [*([str(packages)] if packages else []), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "vtax", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """A directory with a package for each file, as pip installs them."""
    for name, group, source in (
        ("bare", "vtax.platforms", PLATFORM),
        ("chain", "vtax.network.topologies", TOPOLOGY),
    ):
        info = tmp_path / "packages" / f"my_{name}-1.2.dist-info"
        info.mkdir(parents=True)
        (info.parent / f"my_{name}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: my-{name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = my_{name}\n")
    return tmp_path / "packages"


def test_a_run_uses_records_and_shows_them(plugins, image, private_home, tmp_path):
    study = tmp_path / "plugged.toml"
    study.write_text(STUDY)
    run = vtax("run", str(study), packages=plugins)
    assert run.returncode == 0, run.stderr
    shown = json.loads(vtax("show", "--json").stdout)
    assert shown["failed"] == 0
    assert [(p["kind"], p["name"], p["package"], p["version"]) for p in shown["plugins"]] == [
        ("platform", "bare", "my-bare", "1.2"),
        ("topology", "chain", "my-chain", "1.2"),
    ]
    levels = [point["levels"] for section in shown["results"] for point in section["points"]]
    assert {(each["tuning"], each["link.label"]) for each in levels} == {
        (tuning, label) for tuning in ("default", "pinned") for label in ("plain", "fancy")
    }
    assert (
        "Not part of vtax: platform bare (my-bare 1.2); topology chain (my-chain 1.2)."
        in " ".join(vtax("show", "--method").stdout.split())
    )
    table = tmp_path / "plugged.csv"
    written = vtax("export", "--format", "csv", "--output", str(table), packages=plugins)
    assert written.returncode == 0, written.stderr
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert {row["factor_link.label"] for row in rows} == {"plain", "fancy"}
    assert {row["platform"] for row in rows} == {"native", "bare"}


def test_without_the_packages_the_study_is_refused_by_name(private_home, tmp_path):
    study = tmp_path / "plugged.toml"
    study.write_text(STUDY)
    refused = vtax("run", str(study), "--dry-run")
    assert refused.returncode == 2
    assert "chain" in refused.stderr
    assert "bare" in refused.stderr
