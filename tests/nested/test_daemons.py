"""Containers on a host with systemd and cgroup v2: limits in force, the host's own Docker daemon, nothing left."""

import json
import os
from pathlib import Path

import pytest
from nested.report import keep

pytestmark = pytest.mark.timeout(3600)
MEMORY = str(256 << 20)
IN_FORCE = f"((1,), {MEMORY})"
PLAIN = str.maketrans("", "", '{}" ')
STUDY = "/root/vtax/tests/nested/study.toml"


@pytest.fixture(scope="module")
def docker_daemon(nested):
    """The daemon as systemd manages it."""
    nested.run("systemctl", "start", "docker", timeout_s=300)
    yield
    nested.run("systemctl", "stop", "docker.service", "docker.socket", "containerd", timeout_s=300)


def started(nested, platform, times=2):
    found = json.loads(nested.python("start_guests.py", str(times), platform, timeout_s=1500))
    keep(f"{platform.replace(':', '-').translate(PLAIN)}.json", json.dumps(found))
    assert found["available"], found["reason"]
    assert len(found["ready_s"]) == times
    return found


def holds_its_limits(found):
    """One CPU and so much memory, as the kernel applies them to the guest's processes, and a hog is killed."""
    assert (found["cpus_inside"], found["allowed_inside"]) == ("1", "1")
    assert found["hog"] == [["some"], True]
    assert IN_FORCE in found["in_force"]
    assert found["notes"] == []
    return True


def test_the_machine_is_what_these_tests_are_for(nested):
    assert nested.run("cat", "/proc/1/comm").stdout == "systemd\n"
    assert nested.run("stat", "-fc", "%T", "/sys/fs/cgroup").stdout == "cgroup2fs\n"


@pytest.mark.parametrize(
    "platform",
    ["native", "podman", "lxc", "nspawn", "podman-userns", "lxc-unprivileged", "nspawn-userns"],
)
def test_a_guest_works_in_a_unit_that_systemd_delegates_and_leaves_nothing(nested, platform):
    found = started(nested, platform)
    assert holds_its_limits(found)
    assert all("/system.slice/vtax-" in line for line in found["groups"])
    assert found["limit_inside"] == ("none" if platform.startswith("nspawn") else MEMORY)
    assert found["left"] == []


@pytest.mark.parametrize("runtime", ["crun", "youki"])
@pytest.mark.parametrize("engine", ["podman", "containerd"])
def test_other_runtimes_work_on_cgroup_v2_and_leave_nothing(nested, engine, runtime):
    """No package has youki: VTAX_YOUKI names the program, built for Debian 12 with its features v1 and v2."""
    if runtime == "youki":
        if not os.environ.get("VTAX_YOUKI"):
            pytest.skip("VTAX_YOUKI=PROGRAM names one")
        nested.guest.put(
            "/usr/local/bin/youki", Path(os.environ["VTAX_YOUKI"]).read_bytes(), mode=0o755
        )
    found = started(nested, f'{engine}:{{"runtime": "{runtime}"}}')
    assert runtime in found["version"]
    assert holds_its_limits(found)
    assert all("/system.slice/vtax-" in line for line in found["groups"])
    assert found["left"] == []


@pytest.mark.parametrize("platform", ["docker", "docker-userns"])
def test_a_private_docker_daemon_works_beside_systemd_and_leaves_nothing(nested, platform):
    assert nested.run("systemctl", "is-active", "docker", status=None).stdout == "inactive\n"
    found = started(nested, platform)
    assert holds_its_limits(found)
    assert all("/system.slice/vtax-" in line for line in found["groups"])
    assert found["left"] == []


def test_the_hosts_own_docker_daemon_makes_the_guest_in_a_scope_of_systemd(nested, docker_daemon):
    found = started(nested, 'docker:{"daemon": "host"}')
    assert holds_its_limits(found)
    assert all("/system.slice/docker-" in line and ".scope" in line for line in found["groups"])
    assert found["left"] == []


def test_a_small_study_over_every_kind_of_guest_is_measured_and_marked(nested, docker_daemon):
    ran = nested.vtax("run", STUDY, timeout_s=3000, status=None)
    keep("study-run.txt", ran.stdout + ran.stderr)
    assert ran.status == 0
    table = nested.vtax("show").stdout
    keep("study-table.txt", table)
    assert "the CPU of this host is emulated" in table
    assert "kvm-virtio (nested)" in table
    assert "was not tested" not in table
    assert "failed" not in table
    assert nested.vtax("clean").stdout.strip() in ("no leaked resources", "")
