"""Xen, every kind of domain, started by vtax in dom0 of a nested machine: what starts, its order, what is left."""

import json

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(7200)
DOMAINS = ["xen-pv", "xen-pvh", "xen-hvm-pv", "xen-hvm"]
STUDY, TOPOLOGIES = (f"/root/vtax/tests/nested/{name}.toml" for name in ("xen", "xen_topologies"))
MIN_RATIO = 5.0
"""By how much paravirtual interfaces must send faster than an emulated one; 60 to 300 times were seen."""
KILLED = """
python3 -m vtax.conformance.killed platform vtax.platforms.xen >killed.txt 2>&1 & pid=$!
for second in $(seq 900); do grep -q started killed.txt && break; sleep 1; done
xl list; kill -KILL $pid; wait $pid; python3 -m vtax clean; echo after; xl list; ls /var/log/xen /var/lib/vtax/guests
ls /sys/class/net
"""

POOL = """set -e
xl cpupool-cpu-remove Pool-0 1
printf 'name="guests"\\ncpus=["1"]\\n' >pool.cfg
xl cpupool-create pool.cfg
"""
OTHER_DOMAIN = """
printf '%s\\n' "name='other'" "type='pv'" "kernel='{kernel}'" "memory=2600" >other.cfg
xl create -p other.cfg
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


def test_a_domain_runs_on_the_cpus_of_a_cpu_pool(dom0):
    dom0.run("sh", "-c", POOL)
    try:
        text = dom0.python("start_guests.py", "1", 'xen:{"type": "pv", "cpupool": "guests"}', timeout_s=2400)
        found = json.loads(text)
    finally:
        dom0.run("sh", "-c", "xl cpupool-destroy guests; xl cpupool-cpu-add Pool-0 1")
    keep("xen-cpupool.json", text)
    assert found["available"], found["reason"]
    assert found["limits"]["limit.cpus"] == "1"
    assert found["left"] == []


def test_without_memory_a_guest_is_refused_and_another_domain_stays(dom0, image):
    dom0.run("sh", "-c", OTHER_DOMAIN.format(kernel=f"/var/lib/vtax/images/{image.key}/vmlinuz"), timeout_s=600)
    try:
        found = json.loads(dom0.vtax("platforms", "xen-pv", "--json", timeout_s=1200).stdout)
        keep("xen-memory.json", json.dumps(found))
        assert "the hypervisor has" in json.dumps(found)
        dom0.vtax("clean")
        assert "other" in dom0.run("xl", "list").stdout
    finally:
        dom0.run("xl", "destroy", "other", status=None)


def figures(dom0, study, name):
    """The rows of every primary metric of a study that ran without a failed trial, by label and platform."""
    ran = dom0.vtax("run", study, timeout_s=6000, status=None)
    keep(f"{name}-run.txt", ran.stdout + ran.stderr)
    assert ran.status == 0
    keep(f"{name}-table.txt", dom0.vtax("show").stdout)
    text = dom0.vtax("show", "--json").stdout
    keep(f"{name}.json", text)
    found = {}
    for result in json.loads(text)["results"]:
        if result["primary"]:
            [point] = result["points"]
            assert all(row["summary"] is not None and row["failed"] == 0 for row in point["rows"])
            found[result["label"]] = {row["platform"]: row for row in point["rows"]}
    return found


def test_paravirtual_interfaces_send_many_times_faster_than_an_emulated_one(dom0):
    found = figures(dom0, STUDY, "xen-domains")
    assert set(found) == {"sysbench-cpu", "stream", "dd", "iperf3"}
    assert all(row["marks"] == ["nested"] for rows in found.values() for row in rows.values())
    sent = {platform: row["summary"]["mean"] for platform, row in found["iperf3"].items()}
    assert min(sent["xen-pv"], sent["xen-pvh"]) > MIN_RATIO * sent["xen-hvm"]


def test_a_domain_measures_in_every_topology_and_forwards_less_than_it_sends(dom0):
    dom0.run("modprobe", "openvswitch")
    found = figures(dom0, TOPOLOGIES, "xen-topologies")
    assert set(found) == {"point-to-point", "guest-to-host", "guest-to-guest", "router", "router-openflow"}
    rate = {label: rows["xen-pv"]["summary"]["mean"] for label, rows in found.items()}
    assert rate["router"] < rate["point-to-point"]
    text = dom0.vtax("show", "--counters", "--json").stdout
    keep("xen-counters.json", text)
    counted = {each["benchmark"]: each for each in json.loads(text) if each["platform"] == "xen-pv"}
    decided = counted["router-openflow"]["counters"]
    assert decided["link.openflow.to_guest_packets"] < 0.05 * decided["link.openflow.switched_packets"]
    sending = counted["point-to-point"]
    assert (
        0
        < sending["cpu_s"]["layer"]
        < sum(sending["counters"][f"host.{name}"] for name in ("dom0_cpu_s", "other_domains_cpu_s"))
    )
