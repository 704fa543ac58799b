"""`vtax conformance` with guests: the examples of the documentation pass, and every check of guests can fail."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

import pytest
from conformance_plugins import (
    BAD_BENCHMARK,
    BAD_PLATFORM,
    BAD_TOPOLOGY,
    BENCHMARK,
    PLATFORM,
    TOPOLOGY,
    changed,
    result_of,
    target,
)
from support import needs_program, needs_root

from vtax.conformance import benchmark, platform, topology
from vtax.conformance.stage import CheckEnvironment
from vtax.host import journal as journals
from vtax.host.home import Home
from vtax.image.image import Image

pytestmark = [needs_root, needs_program("unshare")]
ASIDE = """        from dataclasses import replace
        from vtax.host.journal import Journal
        spec = replace(spec, journal=Journal(Path("{directory}")))
        root = containers.overlay_root(spec)"""


@pytest.fixture
def environment(private_home: Home, image: Image) -> CheckEnvironment:
    return CheckEnvironment(private_home, image)


@pytest.mark.parametrize(
    "source", [PLATFORM, BENCHMARK, TOPOLOGY], ids=["platform", "benchmark", "topology"]
)
def test_a_plugin_that_is_right_passes_every_check(source, environment, tmp_path):
    path = tmp_path / "right.py"
    path.write_text(source)
    argv = [sys.executable, "-m", "vtax", "conformance", str(path), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    (found,) = json.loads(done.stdout)
    assert [check for check in found["checks"] if check["status"] == "fail"] == []
    without = {"argument", "confinement", "parser-outputs", "parser-failed-outputs"}
    assert {check["name"] for check in found["checks"] if check["status"] == "skipped"} <= without
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "probe-without-image",
        "probe",
        "probe-leaks",
        "start",
        "confinement",
        "fairness",
        "scratch",
        "network",
    ],
)
def test_a_platform_that_is_wrong_fails(name, environment, tmp_path):
    subject = platform.PlatformSubject(
        target(changed(PLATFORM, BAD_PLATFORM[name]), tmp_path), environment
    )
    try:
        result = result_of(platform.CHECKS, name, subject)
    finally:
        subject.close()
    assert result.status == "fail", result


def test_a_difference_that_is_the_layer_is_declared_with_its_reason(environment, tmp_path):
    declared = """    def differences(self, options):
        return dict.fromkeys(("nice value", "I/O priority"), "REASON")

    def launch"""
    for reason, status in (("its programs are nice", "pass"), ("", "fail")):
        source = changed(PLATFORM, BAD_PLATFORM["fairness"])
        source = changed(source, ("    def launch", declared.replace("REASON", reason)))
        subject = platform.PlatformSubject(target(source, tmp_path), environment)
        try:
            assert result_of(platform.CHECKS, "fairness", subject).status == status
        finally:
            subject.close()


def test_a_platform_that_registers_nothing_is_found_out_when_it_is_killed(environment, tmp_path):
    aside = mkdtemp(prefix="journal-", dir=tmp_path)
    source = changed(
        PLATFORM, ("        root = containers.overlay_root(spec)", ASIDE.format(directory=aside))
    )
    subject = platform.PlatformSubject(target(source, tmp_path), environment)
    try:
        assert result_of(platform.CHECKS, "journal", subject).status == "fail"
        subject.close()
        result = result_of(platform.CHECKS, "leaks-after-kill", subject)
        assert result.status == "fail", result
        assert "leaked resources" in result.reason
    finally:
        subject.close()
        journals.clean(Path(aside))


@pytest.mark.parametrize("name", ["runs", "version-in-guest"])
def test_a_benchmark_that_is_wrong_fails(name, environment, tmp_path):
    source = changed(BENCHMARK, BAD_BENCHMARK[name])
    subject = benchmark.BenchmarkSubject(
        target(source, tmp_path), environment, values={"loops": 10}
    )
    assert result_of(benchmark.CHECKS, name, subject).status == "fail"


STUBBORN = """
class Stubborn(Links):
    def apply(self, link):
        return super().apply(link.model_copy(update={"mtu": 1500}))


register_topology("""
LEAK = """
def leak():
    import secrets, sys
    from pathlib import Path
    from vtax.host.process import run
    name = secrets.token_hex(3)
    if {is_interface}:
        run(["ip", "link", "add", "vtaxc" + name, "type", "veth", "peer", "name", "vtaxd" + name])
    elif sys.argv[0].endswith("killed.py"):
        Path("{directory}", name).mkdir(parents=True)
        run(["mount", "-t", "tmpfs", "leak", "{directory}/" + name])


register_topology("""


def take_back(directory: Path) -> None:
    """What LEAK made."""
    for path in directory.glob("*"):
        subprocess.run(["umount", str(path)], check=True)
    for path in Path("/sys/class/net").glob("vtaxc*"):
        subprocess.run(["ip", "link", "del", path.name], check=True)


@pytest.mark.parametrize(
    "name",
    [
        "check-host",
        "build",
        "ends",
        "flows",
        "host-untouched",
        "close",
        "traffic",
        "mtu-change",
        "leaks-after-kill",
    ],
)
def test_a_topology_that_is_wrong_fails(name, environment, tmp_path):
    source, directory = changed(TOPOLOGY, BAD_TOPOLOGY[name]), tmp_path / "leaks"
    leak = LEAK.format(is_interface=name == "host-untouched", directory=directory)
    found = target(
        changed(source, ("\nregister_topology(", STUBBORN if name == "mtu-change" else leak)),
        tmp_path,
    )
    try:
        result = result_of(topology.CHECKS, name, topology.TopologySubject(found, environment))
    finally:
        take_back(directory)
    assert result.status == "fail", result
