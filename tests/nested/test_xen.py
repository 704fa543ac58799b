"""Xen, every kind of domain, started by vtax in dom0 of a nested machine: what starts, its order, what is left."""

import json

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(7200)
DOMAINS = ["xen-pv", "xen-pvh", "xen-hvm-pv", "xen-hvm"]
STUDY, TOPOLOGIES = (f"/root/vtax/tests/nested/{name}.toml" for name in ("xen", "xen_topologies"))
LIMIT_S = 6000.0
MIN_RATIO = 5.0
"""By how much paravirtual interfaces must send faster than an emulated one; 60 to 300 times were seen."""
CHANNEL_KB_S = 100
"""The slowest channel to an agent that is wanted, for 64 KiB."""
HANDFUL = 50
"""Packets that a guest may decide about; 8 were seen, of 19298."""
LEFT = "{ ls /sys/class/net; ip netns; xl list | cut -d' ' -f1; ls /var/log/xen /var/lib/vtax/guests; }"
KILLED = f"""
{LEFT} >before 2>&1
python3 /root/vtax/tests/nested/inside/killed_domain.py $1 >made.json
python3 -m vtax clean >cleaned; {LEFT} >after 2>&1
cat made.json; diff before after
"""
POOL = """set -e
xl cpupool-cpu-remove Pool-0 1
printf 'name="guests"\\ncpus=["1"]\\n' >pool.cfg
xl cpupool-create pool.cfg
"""
OTHER_DOMAIN = """
printf '%s\\n' "name='vtax-theirs'" "type='pv'" "kernel='{kernel}'" "memory=2600" >other.cfg
xl create -p other.cfg
"""
LARGE_STUDY = f"""
sed -e '/^platforms/s/"native", "xen-dom0", //; /^question/a baseline = "xen-pv"' \\
    -e s/256MiB/1GiB/ {TOPOLOGIES} >large.toml
"""


def test_the_machine_is_dom0(dom0):
    assert dom0.run("cat", "/proc/xen/capabilities").stdout == "control_d\n"
    assert "Domain-0" in dom0.run("xl", "list").stdout


@pytest.mark.parametrize("name", ["xen-dom0", *DOMAINS])
def test_a_guest_has_its_limits_a_fast_channel_for_all_bytes_and_leaves_nothing(dom0, name):
    found = json.loads(dom0.python("start_guests.py", "1", name, "unprobed", timeout_s=5000))
    keep(f"{name}.json", json.dumps(found))
    assert len(found["ready_s"]) == 1
    assert found["cpus_inside"] == "1"
    assert found["bytes_equal"]
    assert min(found["in_kb_s"], found["out_kb_s"]) >= CHANNEL_KB_S
    assert found["hog"] == ([["some", "more"], False] if name == "xen-dom0" else [["some"], False])
    assert found["left"] == []


@pytest.mark.parametrize("name", ["xen-pv", "xen-hvm"])
def test_a_killed_run_leaves_no_domain_interface_disk_or_log_after_clean(dom0, name):
    said = dom0.run("sh", "-c", KILLED, "sh", name, timeout_s=2400, status=None).stdout
    keep(f"{name}-killed.txt", said)
    made, _, difference = said.partition("\n")
    kinds = {each.split()[0] for each in json.loads(made)}
    assert {"domain", "file", "netns", "process"} <= kinds
    assert difference == ""


def test_a_domain_runs_on_the_cpus_of_a_cpu_pool(dom0):
    dom0.run("sh", "-c", POOL)
    try:
        text = dom0.python(
            "start_guests.py",
            "1",
            'xen:{"type": "pv", "cpupool": "guests"}',
            "unprobed",
            timeout_s=2400,
        )
        found = json.loads(text)
    finally:
        dom0.run("sh", "-c", "xl cpupool-destroy guests; xl cpupool-cpu-add Pool-0 1")
    keep("xen-cpupool.json", text)
    assert found["limits"]["limit.cpus"] == "1"
    assert found["left"] == []


@pytest.mark.parametrize("mode", ["default", "always_emulate"])
def test_a_domain_runs_with_a_time_stamp_counter_that_xen_emulates(dom0, mode):
    text = dom0.python(
        "start_guests.py",
        "1",
        f'xen:{{"type": "pvh", "tsc_mode": "{mode}"}}',
        "unprobed",
        timeout_s=2400,
    )
    keep(f"xen-tsc-{mode}.json", text)
    assert len(json.loads(text)["ready_s"]) == 1


def test_a_domain_of_the_users_stays_and_guests_beside_it_are_refused(dom0, image):
    dom0.run(
        "sh",
        "-c",
        OTHER_DOMAIN.format(kernel=f"/var/lib/vtax/images/{image.key}/vmlinuz"),
        timeout_s=600,
    )
    try:
        refused = json.loads(dom0.python("refused_domains.py", "vtax-theirs", timeout_s=1200))
        keep("xen-refused.json", json.dumps(refused))
        assert (
            refused["same_name"][0] == "a domain vtax-theirs exists already, and is not of this run"
        )
        assert refused["no_memory"][0].startswith("the hypervisor has")
        assert refused["left"] == []
        dom0.run("sh", "-c", LARGE_STUDY)
        planned = dom0.vtax("run", "large.toml", "--dry-run", timeout_s=1200, status=2)
        assert "1 GiB of memory are requested, and the hypervisor has" in planned.stderr
        dom0.vtax("clean")
        assert "vtax-theirs" in dom0.run("xl", "list").stdout
    finally:
        dom0.run("xl", "destroy", "vtax-theirs", status=None)


def test_a_domain_that_crashes_at_boot_shows_the_last_lines_of_its_console(dom0):
    found = json.loads(dom0.python("refused_domains.py", timeout_s=1200))
    keep("xen-crashed.json", json.dumps(found))
    assert "Kernel panic" in " ".join(found["crashed"])
    assert found["left"] == []


def figures(dom0, study, name):
    """The rows of every primary metric of a study that ran without a failed trial, by label and platform."""
    assert dom0.measure(name, study, limit_s=LIMIT_S) == 0
    text = dom0.vtax("show", "--json").stdout
    keep(f"{name}.json", text)
    found = {}
    for result in json.loads(text)["results"]:
        if result["primary"]:
            [point] = result["points"]
            assert all(row["summary"] is not None and row["failed"] == 0 for row in point["rows"])
            found[result["label"]] = {row["platform"]: row for row in point["rows"]}
    return found


def test_a_domain_measures_in_every_topology_and_forwards_less_than_it_sends(dom0):
    dom0.run("modprobe", "openvswitch")
    found = figures(dom0, TOPOLOGIES, "xen-topologies")
    assert set(found) == {
        "point-to-point",
        "guest-to-host",
        "guest-to-guest",
        "router",
        "router-openflow",
    }
    for platform in ("xen-pv", "xen-pvh"):
        rate = {label: rows[platform]["summary"]["mean"] for label, rows in found.items()}
        assert rate["router"] < rate["guest-to-host"]
    text = dom0.vtax("show", "--counters", "--json").stdout
    keep("xen-counters.json", text)
    counted = {
        each["benchmark"]: each
        for each in json.loads(text)["counters"]
        if each["platform"] == "xen-pv"
    }
    decided = counted["router-openflow"]["counters"]
    assert 0 < decided["link.openflow.to_guest_packets"] <= HANDFUL
    assert decided["link.openflow.switched_packets"] > 100 * HANDFUL
    sending = counted["point-to-point"]
    assert (
        0
        < sending["cpu_s"]["layer"]
        < sum(sending["counters"][f"host.{name}"] for name in ("dom0_cpu_s", "other_domains_cpu_s"))
    )


def test_paravirtual_interfaces_send_many_times_faster_than_an_emulated_one(dom0):
    found = figures(dom0, STUDY, "xen-domains")
    assert set(found) == {"sysbench-cpu", "stream", "dd", "iperf3"}
    assert all(row["marks"] == ["nested"] for rows in found.values() for row in rows.values())
    sent = {platform: row["summary"]["mean"] for platform, row in found["iperf3"].items()}
    assert min(sent["xen-pv"], sent["xen-pvh"]) > MIN_RATIO * sent["xen-hvm"]


def test_platforms_starts_every_kind_of_domain_once_and_leaves_nothing(dom0):
    before = dom0.run("sh", "-c", LEFT).stdout
    text = dom0.vtax("platforms", "--json", timeout_s=6000).stdout
    keep("xen-platforms.json", text)
    platforms = {each["name"]: each for each in json.loads(text)}
    for name in ("xen-dom0", *DOMAINS):
        assert platforms[name]["available"], platforms[name]["reason"]
        assert platforms[name]["marks"] == ["nested"]
        assert platforms[name]["version"].startswith("Xen 4.")
    assert platforms["native"]["available"]
    assert not platforms["kvm-virtio"]["available"]
    assert not platforms["virtualbox"]["available"]
    assert dom0.run("sh", "-c", LEFT).stdout == before
