"""KVM, every machine that ships, started by vtax on a host that has it: a nested machine with emulated AMD-V."""

import json

import pytest
from nested.disks import INSIDE
from nested.report import keep

pytestmark = pytest.mark.timeout(3600)
TIMES = 3
MACHINES = [
    "kvm-virtio",
    "kvm-emulated",
    "kvm-rtl8139",
    "kvm-microvm",
    "kvm-virtio-vhost",
    "kvm-virtio-user",
]


def test_every_machine_is_found_to_run_and_marked_as_nested(nested):
    assert nested.run("systemd-detect-virt").stdout == "qemu\n"
    shown = json.loads(nested.vtax("platforms", "--json", timeout_s=3000).stdout)
    keep("platforms.json", json.dumps(shown))
    platforms = {each["name"]: each for each in shown}
    for name in (*MACHINES, "kvm-e1000"):
        assert platforms[name]["available"], platforms[name]
        assert platforms[name]["marks"] == ["nested"]


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_starts_answers_stops_and_leaves_nothing(nested, name):
    found = json.loads(nested.python("start_guests.py", str(TIMES), name, timeout_s=1500))
    keep(f"{name}.json", json.dumps(found))
    assert found["available"], found["reason"]
    assert found["marks"] == ["nested"]
    assert len(found["ready_s"]) == TIMES
    assert found["cpus_inside"] == "1"
    assert found["hog"] == [["some"], False]
    assert found["left"] == []


def test_a_guest_boots_the_hosts_own_kernel_with_the_hosts_modules(nested, image):
    release = nested.run("uname", "-r").stdout.strip()
    assert release != json.loads((image.directory / "manifest.json").read_text())["kernel"]
    found = json.loads(
        nested.python(
            "start_guests.py", "1", 'qemu:{"accel": "kvm", "kernel": "host"}', timeout_s=900
        )
    )
    keep("kvm-host-kernel.json", json.dumps(found))
    assert found["available"], found["reason"]
    assert found["kernel"] == release
    assert found["left"] == []


def test_every_interface_carries_traffic_by_the_kernel_or_by_qemu_as_requested(nested):
    message = nested.pytest(
        "tests/integration/test_platforms_qemu.py",
        "-rA",
        "-k",
        "carries_traffic and kvm",
        timeout_s=3000,
    )
    keep("interfaces.txt", message)
    assert "7 passed" in message


def test_links_are_wires_where_the_kernel_has_netem(nested):
    message = nested.pytest("tests/integration/test_network_shaping.py", "-rA", timeout_s=3000)
    keep("links.txt", message)
    assert "6 passed, 1 skipped" in message


def test_tags_cross_the_trunk_of_a_switch_in_the_kernel(nested):
    nested.run("modprobe", "openvswitch")
    file = "tests/integration/test_network_topologies.py"
    message = nested.pytest(file, "-rA", "-k", "vlans and native", timeout_s=1200)
    keep("vlans.txt", message)
    assert "1 passed" in message


def test_one_and_two_levels_of_virtualization_are_measured_with_and_without_huge_pages(nested):
    """The machine itself is the first level: `native` in it, and the second is its guest."""
    file = f"/{INSIDE}/tests/nested/depth.toml"
    assert nested.measure("depth", file, "--yes", limit_s=3000) == 0
    [*_, listed] = json.loads(nested.vtax("list", "--json").stdout)
    assert (listed["study"], listed["status"], listed["failed"]) == ("depth", "finished", 0)
    keep("depth-show.txt", nested.vtax("show", timeout_s=1200).stdout)
    for contrast in json.loads(nested.vtax("explain", "--json", timeout_s=1200).stdout)["explain"][
        "contrasts"
    ]:
        counted = {
            each["name"]: (each["baseline"], each["treatment"]) for each in contrast["counters"]
        }
        for name in ("vm_exits", "vm_exits_interrupt"):
            assert counted[name][0] == 0 < counted[name][1], contrast["levels"]
