"""Xen, every kind of domain, started by vtax in dom0 of a nested machine: what starts, its order, what is left."""

import json

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(7200)
DOMAINS = ["xen-pv", "xen-pvh", "xen-hvm-pv", "xen-hvm"]
STUDY = "/root/vtax/tests/nested/xen.toml"
MIN_RATIO = 5.0
"""By how much paravirtual interfaces must send faster than an emulated one; 60 to 300 times were seen."""
KILLED = """
python3 -m vtax.conformance.killed platform vtax.platforms.xen >killed.txt 2>&1 & pid=$!
for second in $(seq 900); do grep -q started killed.txt && break; sleep 1; done
xl list; kill -KILL $pid; wait $pid; python3 -m vtax clean; echo after; xl list; ls /var/log/xen /var/lib/vtax/guests
ls /sys/class/net
"""


def test_the_machine_is_dom0(dom0):
    assert dom0.run("cat", "/proc/xen/capabilities").stdout == "control_d\n"
    assert "Domain-0" in dom0.run("xl", "list").stdout


@pytest.mark.parametrize("name", ["xen-dom0", *DOMAINS])
def test_every_platform_starts_answers_stops_and_leaves_nothing(dom0, name):
    found = json.loads(dom0.python("start_guests.py", "1", name, timeout_s=5000))
    keep(f"{name}.json", json.dumps(found))
    assert found["available"], found["reason"]
    assert found["marks"] == ["nested"]
    assert found["version"].startswith("Xen 4.")
    assert len(found["ready_s"]) == 1
    assert found["cpus_inside"] == "1"
    assert found["left"] == []


def test_a_killed_run_leaves_no_domain_interface_disk_or_log_after_clean(dom0):
    said = dom0.run("sh", "-c", KILLED, timeout_s=2400).stdout
    keep("xen-killed.txt", said)
    before, _, after = said.partition("after\n")
    assert "vtax-" in before
    assert "Domain-0" in after
    assert "vtax" not in after
    assert "vif" not in after


def test_paravirtual_interfaces_send_many_times_faster_than_an_emulated_one(dom0):
    ran = dom0.vtax("run", STUDY, timeout_s=6000, status=None)
    keep("xen-run.txt", ran.stdout + ran.stderr)
    assert ran.status == 0
    keep("xen-table.txt", dom0.vtax("show").stdout)
    results = json.loads(dom0.vtax("show", "--json").stdout)["results"]
    figures = {result["label"]: result["points"][0]["rows"] for result in results if result["primary"]}
    assert set(figures) == {"sysbench-cpu", "stream", "dd", "iperf3"}
    assert all(row["summary"] is not None and row["failed"] == 0 for rows in figures.values() for row in rows)
    sent = {row["platform"]: row["summary"]["mean"] for row in figures["iperf3"]}
    assert min(sent["xen-pv"], sent["xen-pvh"]) > MIN_RATIO * sent["xen-hvm"]
