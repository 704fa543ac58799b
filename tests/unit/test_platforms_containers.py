"""Command lines of container runtimes, and probes that cannot start."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from vtax.errors import BadInput, PlatformError, RunInterrupted, VtaxError
from vtax.host import cgroups, namespaces
from vtax.host.cgroup_mounts import Hierarchy
from vtax.host.namespaces import MountStep
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import containers, lxc, nspawn, probing, registry
from vtax.platforms.base import GuestSpec, Probe, Resources
from vtax.platforms.containers import Root
from vtax.platforms.oci import containerd, docker, docker_daemon, podman

RESOURCES = Resources(2, 512 << 20, (1, 3))
NAMES = [
    "native",
    "podman",
    "lxc",
    "nspawn",
    "docker",
    "docker-overlay2",
    "podman-userns",
    "lxc-unprivileged",
    "nspawn-userns",
    "docker-userns",
]


@pytest.fixture
def spec(tmp_path):
    return GuestSpec("vtax-1", Image("key", tmp_path / "image"), RESOURCES, tmp_path, None)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused(name):
    with pytest.raises(BadInput):
        registry.make("mine", registry.get(name).driver.name, {"no_such_option": 1})


def test_lxc_limits_are_given_for_both_cgroup_versions(spec):
    root = Root(Path("/r"), MountStep(Path("/r")))
    text = lxc.configuration(containers.ContainerOptions(), spec, root, common=True)
    settings = dict(line.split(" = ", 1) for line in text.splitlines())
    assert settings["lxc.cgroup.cpuset.cpus"] == settings["lxc.cgroup2.cpuset.cpus"] == "1,3"
    for key in (
        "cgroup.memory.limit_in_bytes",
        "cgroup.memory.memsw.limit_in_bytes",
        "cgroup2.memory.max",
    ):
        assert settings[f"lxc.{key}"] == str(512 << 20)
    assert settings["lxc.cgroup2.memory.swap.max"] == "0"
    assert settings["lxc.net.0.type"] == "empty"
    assert settings["lxc.include"] == str(lxc.COMMON)
    assert "lxc.include" not in lxc.configuration(
        containers.ContainerOptions(), spec, root, common=False
    )


def test_podman_gets_limits_without_swap_and_no_network(spec):
    root = Root(Path("/r"), MountStep(Path("/r")))
    argv = podman.command_line(podman.OciOptions(), spec, root, "/vtax-1", ["program", "--flag"])
    assert argv[-4:] == ["--rootfs", "/r", "program", "--flag"]
    assert {
        "--cpuset-cpus=1,3",
        f"--memory={512 << 20}",
        f"--memory-swap={512 << 20}",
        "--network=none",
    } <= set(argv)
    assert "--cgroup-parent=/vtax-1" in argv
    assert f"--pids-limit={cgroups.most_processes()}" in argv  # -1 is 0, or one process of youki


def test_a_container_that_the_hosts_daemon_cannot_be_requested_about_is_not_gone():
    for private in (True, False):
        undo = docker_daemon.container_removal(
            docker_daemon.Daemon(Path("/s"), private, "vfs", "20.10"), "x"
        )
        for gone in (
            "Error: No such container: x",
            "removal of container x is already in progress",
        ):
            assert any(word in gone for word in undo.harmless_words)
        unreachable = (
            "Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?"
        )
        assert any(word in unreachable for word in undo.harmless_words) is private


def test_docker_chooses_the_cgroup_only_where_the_daemon_is_ours(spec):
    ours = docker_daemon.Daemon(Path("/s"), True, "overlay2", "20.10")
    argv = docker.command_line(
        docker.DockerOptions(), ours, spec, "image:key", "/vtax-1", ["program"]
    )
    assert "--cgroup-parent=/vtax-1" in argv
    assert argv[-2:] == ["image:key", "program"]
    assert {
        "--cpuset-cpus=1,3",
        f"--memory={512 << 20}",
        f"--memory-swap={512 << 20}",
        "--network=none",
    } <= set(argv)
    stranger = docker.command_line(
        docker.DockerOptions(), ours, spec, "image:key", None, ["program"]
    )
    assert not [word for word in stranger if "cgroup-parent" in word]


def test_a_private_daemon_touches_neither_firewall_nor_forwarding():
    argv = docker_daemon.daemon_argv(Path("/c"), Path("/p"), "vfs")
    assert {"--iptables=false", "--ip6tables=false", "--bridge=none", "--ip-forward=false"} <= set(
        argv
    )
    assert "--storage-driver=vfs" in argv


def test_only_a_local_daemon_counts_as_the_hosts(monkeypatch, tmp_path):
    monkeypatch.setattr(docker_daemon, "_HOST_SOCKETS", (tmp_path / "no.sock",))
    monkeypatch.setenv("DOCKER_HOST", "tcp://198.18.0.1:2375")
    assert docker_daemon.host_daemon() is None


def test_a_path_that_overlayfs_cannot_be_reported_is_refused(tmp_path):
    with pytest.raises(BadInput, match="overlayfs"):
        namespaces.overlay(tmp_path / "a:b", tmp_path / "u", tmp_path / "w", tmp_path / "r")


def test_a_fresh_root_has_an_empty_scratch_for_everyone(spec, tmp_path):
    root = containers.overlay_root(spec)
    assert (tmp_path / "upper/scratch").stat().st_mode & 0o7777 == 0o1777
    assert str(spec.image.tree) in root.mount.data


def test_a_missing_program_is_the_reason_and_its_package_the_hint(taken_for_root):
    programs = {"no-such-a": "package-a", "no-such-b": "package-b", "no-such-c": "package-b"}
    probe = probing.probe(None, None, None, programs=programs)
    assert not probe.available
    assert probe.reason == Note("not-installed", names="no-such-a, no-such-b, no-such-c")
    assert probe.hint == "apt install package-a package-b"


def test_a_storage_that_the_hosts_docker_has_not_is_said_before_any_start(spec, host_docker):
    daemon = docker_daemon.Daemon(Path("/s"), False, "overlay2", "20.10")
    options = docker.DockerOptions(daemon="host", storage="vfs")
    host_docker(daemon)
    with pytest.raises(PlatformError, match=r"storage driver overlay2, not vfs") as caught:
        docker.daemon_for(options, spec, False)
    assert "systemctl" not in caught.value.hint
    host_docker(None)
    with pytest.raises(PlatformError) as caught:
        docker.daemon_for(options, spec, False)
    assert caught.value.what == Note("no-docker")
    assert "systemctl start docker" in caught.value.hint


def test_a_probe_without_root_says_so(ordinary_user):
    probe = probing.probe(None, None, None, programs={})
    assert (probe.available, probe.hint) == (False, Note("hint-sudo"))


def test_a_start_that_fails_is_the_reason_and_its_directory_is_gone(
    tmp_path, taken_for_root, unmade_home
):

    def fail(options, spec, argv):
        raise VtaxError("it broke", where="it said so", hint="mend it")

    probe = probing.probe(fail, None, None, programs={})
    assert (probe.available, probe.reason, probe.hint) == (False, "it broke: it said so", "mend it")
    assert not list((tmp_path / "home/guests").iterdir())
    assert not list((tmp_path / "home/journal").iterdir())


def test_a_defect_in_a_driver_does_not_escape_a_probe_but_a_request_to_stop_does(
    tmp_path, taken_for_root, unmade_home
):

    def broken(options, spec, argv):
        raise KeyError("x")

    def stopped(options, spec, argv):
        raise RunInterrupted("stopped on request")

    assert "KeyError" in probing.probe(broken, None, None, programs={}).reason
    with pytest.raises(RunInterrupted):
        probing.probe(stopped, None, None, programs={})


def test_a_docker_that_lacks_apparmors_tools_has_their_package_as_the_hint(
    monkeypatch, host_docker
):
    message = "AppArmor enabled on system but the docker-default profile could not be loaded: running `apparmor_parser"
    host_docker(None)
    monkeypatch.setattr(probing, "probe", lambda *_, **__: Probe(False, message))
    assert docker.Docker().probe(docker.DockerOptions(), None).hint == "apt install apparmor"


@pytest.mark.parametrize(
    ("unified", "wanted"), [((True,), "1"), ((False, True), None), ((False, False), None)]
)
def test_nspawn_is_reported_of_a_host_with_cgroup_v2_alone(unified, wanted, monkeypatch):
    mounted = tuple(
        Hierarchy(Path(f"/sys/fs/cgroup/{n}"), is_unified) for n, is_unified in enumerate(unified)
    )
    monkeypatch.setattr(nspawn.cgroup_mounts, "hierarchies", lambda: mounted)
    assert nspawn.environment().get("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY") == wanted


def test_a_container_on_an_emulated_host_has_longer_to_start(tmp_path, monkeypatch):
    monkeypatch.setattr(containers, "_START_TIMEOUT_S", 0.01)
    monkeypatch.setattr(containers, "timeout_factor", lambda: 3.0)
    process = SimpleNamespace(args=["podman"], poll=lambda: None, wait=lambda _: None)
    guest = SimpleNamespace(process=process, stderr=tmp_path / "stderr")
    with pytest.raises(PlatformError, match=r"was not running 0\.03 s"):
        containers.wait_for_init(guest, ["agent"], list)


@pytest.mark.parametrize(
    "line",
    [
        "containerd a.example/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3",
        "containerd a.example/containerd 1.6.20~ds1",
    ],
)
def test_the_version_of_containerd_is_said_once(line):
    assert containerd.short_version(line) == "containerd 1.6.20~ds1"
