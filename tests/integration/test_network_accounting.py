"""What a network trial leaves in the store: every hop, every end's CPU, what was lost, and CPU per gigabyte."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from support import needs_program, needs_root

from vtax.platforms import registry

pytestmark = [needs_root, needs_program("ip", "nsenter", "ethtool", "tc"), pytest.mark.root]
DURATION_S = 2
STUDY = """
name = "accounts"
platforms = ["native"{more}]
[design]
blocks = 1
[[benchmark]]
name = "iperf3"
parameters = {{ duration_s = {duration} }}
"""


def vtax(*arguments):
    """A whole run, once nothing else measures on this host."""
    deadline = time.monotonic() + 300
    while True:
        argv = [sys.executable, "-m", "vtax", *map(str, arguments)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        if "is measuring on this host" not in done.stderr or time.monotonic() > deadline:
            assert done.returncode == 0, done.stderr
            return done.stdout
        time.sleep(1)


@pytest.mark.parametrize("platform", ["native", "docker", "lxc", "qemu-tcg", "gvisor-systrap"])
def test_the_accounts_of_a_trial_are_whole_and_plausible(platform, image, private_home, tmp_path):
    probe = registry.get(platform).probe(image)
    if not probe.available:
        pytest.skip(f"{platform} does not run here: {probe.reason}")
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(more="" if platform == "native" else f', "{platform}"', duration=DURATION_S))
    vtax("run", path, "--strict")
    results = json.loads(vtax("show", "--json"))["results"]
    told = json.loads(vtax("show", "--counters", "--json"))["counters"]
    (cell,) = [each for each in told if each["platform"] == platform]
    cpu = cell["cpu_s"]
    most = 2 * DURATION_S * 3  # two CPUs and more, with room for starting and ending
    assert 0.005 < cpu["guest_and_layer"] < most
    assert 0.001 < cpu["peer"] < most
    if platform in ("qemu-tcg", "gvisor-systrap"):
        assert 0 < cpu["guest_kernel"] < most
    else:
        assert cpu["guest_kernel"] is None
    moved = cell["bytes_under_test"]
    assert moved > 1e6
    assert cell["cpu_s_per_gigabyte"] == pytest.approx(cpu["guest_and_layer"] / (moved / 1e9))
    (metric,) = [each for each in results if each["metric"] == "cpu_per_gigabyte"]
    (row,) = [row for row in metric["points"][0]["rows"] if row["platform"] == platform]
    assert row["summary"]["mean"] == pytest.approx(cell["cpu_s_per_gigabyte"])
    assert set(cell["retransmits"]) == {"guest", "peer"}
    hops = {hop["name"]: hop for hop in cell["hops"]}
    for name, side in (("lab.guest-eth0", "rx"), ("lab.peer-eth0", "tx"), ("peer.eth0", "rx")):
        assert hops[name][f"{side}_bytes"] > 0.9 * moved
        assert hops[name][f"{side}_packets"] >= hops[name][f"{side}_bytes"] / 65536
        assert hops[name]["lost"] < 0.1 * (hops[name]["rx_packets"] + hops[name]["tx_packets"])
