"""The option `runtime` of podman, docker and containerd: commands, limits of networks, refusals, versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtax.errors import BadInput, PlatformError
from vtax.host.cgroup_mounts import Hierarchy
from vtax.host.cgroups import Cgroup
from vtax.host.namespaces import MountStep
from vtax.image.image import Image
from vtax.messages import Note
from vtax.platforms import containers, registry
from vtax.platforms.base import GuestSpec, NetworkLimits, Probe, Resources
from vtax.platforms.containers import Root
from vtax.platforms.oci import containerd, docker, docker_daemon, podman
from vtax.platforms.oci import runtime as oci_runtime

ENGINES = ["podman", "docker", "containerd"]
RESOURCES = Resources(2, 512 << 20, (1, 3))


@pytest.fixture
def spec(tmp_path):
    return GuestSpec("vtax-1", Image("key", tmp_path / "image"), RESOURCES, tmp_path, None)


def podman_words(runtime, spec, network=None):
    root = Root(Path("/r"), MountStep(Path("/r")))
    return podman.command_line(
        podman.OciOptions(runtime=runtime), spec, root, "/vtax-1", ["program"], network
    )


@pytest.mark.parametrize("runtime", ["runc", "crun", "youki", "runsc"])
def test_every_engine_makes_a_container_by_the_runtime(runtime, spec, on_path):
    program = on_path(runtime, "")
    assert f"--runtime={program}" in podman_words(runtime, spec)
    daemon = docker_daemon.Daemon(Path("/s"), True, "overlay2", "20.10")
    options = docker.DockerOptions(runtime=runtime)
    assert f"--runtime={runtime}" in docker.command_line(
        options, daemon, spec, "image:key", "/vtax-1", ["program"]
    )
    argv = containerd.command_line(containerd.ContainerdOptions(runtime=runtime), spec)
    assert f"--runc-binary={program}" in argv


def test_kata_is_containerds_own_shim_and_no_program_of_other_engines(spec):
    argv = containerd.command_line(containerd.ContainerdOptions(runtime="kata"), spec)
    assert "--runtime=io.containerd.kata.v2" in argv
    for engine in ("podman", "docker"):
        with pytest.raises(BadInput, match=r"runtime .*'kata'"):
            registry.make("mine", engine, {"runtime": "kata"})


def test_a_sandbox_of_podman_joins_a_namespace_that_is_there_before(spec):
    assert "--network=none" in podman_words("runc", spec)
    assert "--network=ns:/n" in podman_words("runsc", spec, Path("/n"))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_network_of_a_sandbox_is_gvisors(engine):
    usual = registry.make("mine", engine, {"runtime": "crun"}).network_limits
    sandbox = registry.make("mine", engine, {"runtime": "runsc"}).network_limits
    assert usual == NetworkLimits()
    assert (sandbox.queues, sandbox.forwards, sandbox.links_change) == (1, False, False)
    assert sandbox.interfaces == (0 if engine == "docker" else NetworkLimits().interfaces)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_runtime_that_no_package_brings_is_refused_with_another_hint_than_apt(
    engine, taken_for_root, installed, host_docker
):
    host_docker(None)
    installed(but="youki")
    probe = registry.make("mine", engine, {"runtime": "youki"}).probe(None)
    assert (probe.available, probe.reason) == (False, Note("not-installed", names="youki", count=1))
    assert "on PATH" in probe.hint
    assert "apt" not in probe.hint


def test_a_daemon_of_the_host_without_the_runtime_is_not_used(monkeypatch, spec, host_docker):
    running = docker_daemon.Daemon(Path("/s"), False, "overlay2", "20.10")
    host_docker(running)
    with pytest.raises(PlatformError) as caught:
        docker.daemon_for(docker.DockerOptions(daemon="host", runtime="crun"), spec, False)
    assert caught.value.what == Note("docker-differs", difference="has no runtime crun")
    assert "daemon.json" in caught.value.hint
    monkeypatch.setattr(docker, "private_daemon", lambda *_, **__: "ours")
    assert docker.daemon_for(docker.DockerOptions(runtime="crun"), spec, False) == "ours"
    assert docker.daemon_for(docker.DockerOptions(), spec, False) is running


def test_the_version_of_the_runtime_stands_beside_the_engines(on_path):
    on_path("crun", "echo crun version 9.9\necho more")
    assert (
        oci_runtime.with_version(Probe(True, version="podman 4"), "crun").version
        == "podman 4, crun version 9.9"
    )
    without = Probe(True, version="podman 4")
    assert oci_runtime.with_version(without, "no-such-runtime") == without


@pytest.mark.parametrize("accounts_for_swap", [True, False])
def test_the_bundle_of_containerd_has_the_limits_below_the_guests_group(
    accounts_for_swap, spec, tmp_path
):
    hierarchy = Hierarchy(tmp_path, False, frozenset({"memory"}))
    (tmp_path / "vtax-1").mkdir()
    if accounts_for_swap:
        (tmp_path / "vtax-1/memory.memsw.limit_in_bytes").touch()
    made = containerd.bundle(
        spec, Path("/r"), ["program"], Cgroup(((hierarchy, tmp_path / "vtax-1"),)), None
    )
    assert made["linux"]["cgroupsPath"] == "/vtax-1/vtax-1"
    limits = made["linux"]["resources"]
    assert limits["memory"] == {"limit": 512 << 20} | (
        {"swap": 512 << 20} if accounts_for_swap else {}
    )
    assert limits["cpu"] == {"cpus": "1,3"}
    assert {"type": "network"} in made["linux"]["namespaces"]
    assert not {"CAP_MKNOD", "CAP_SYS_ADMIN"} & set(made["process"]["capabilities"]["bounding"])


@pytest.mark.parametrize(
    ("directory", "program", "counts"),
    [
        ("/vtax-1/libpod-x", "exe", True),
        ("/vtax-1/libpod-x", "runsc", False),
        ("/vtax-1/libpod-conmon-x", "conmon", False),
        ("/vtax-1/runtime", "podman", False),
    ],
)
def test_a_sandbox_is_what_is_in_the_containers_own_group(
    directory, program, counts, tmp_path, monkeypatch
):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/comm").write_text(f"{program}\n")
    monkeypatch.setattr(containers, "Path", lambda text: Path(text.replace("/proc", str(tmp_path))))
    group = Cgroup(((Hierarchy(Path("/"), False, frozenset({"memory"})), Path(directory)),))
    monkeypatch.setattr(containers.cgroups, "group_of", lambda pid: group)
    assert containers._is_limited(7) is counts
