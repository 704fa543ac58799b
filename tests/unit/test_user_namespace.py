"""Which ids guests with a user namespace have on the host, their form for runtimes, and errors."""

from pathlib import Path

import pytest

from vtax.errors import VtaxError
from vtax.host import namespaces
from vtax.host.namespaces import MountStep
from vtax.host.user_namespace import IdRange, unused_range, user_namespace
from vtax.image.image import Image
from vtax.platforms import containers, lxc, nspawn, stdio
from vtax.platforms.base import GuestSpec, Resources
from vtax.platforms.containers import Root
from vtax.platforms.oci import docker, docker_daemon, podman

IDS = IdRange(2013265920)
BOTH = {"userns": True, "no_new_privileges": True}


@pytest.fixture
def spec(tmp_path):
    return GuestSpec(
        "vtax-1", Image("key", tmp_path / "image"), Resources(1, 512 << 20, (1,)), tmp_path, None
    )


@pytest.fixture
def shifted():
    return Root(Path("/r"), MountStep(Path("/r")), IDS, MountStep(Path("/l")))


@pytest.mark.parametrize(
    ("name", "line", "first"),
    [
        ("subuid", "alice:100000:65536", 2013265920),
        ("subuid", "alice:2013200385:65535", 2013265920),
        ("subuid", "alice:2013200385:65536", 2013331456),
        ("subgid", "alice:2013265920:131072", 2013396992),
        ("passwd", "alice:x:2013265921:100::/:/bin/sh", 2013331456),
        ("group", "staff:x:2013265920:alice", 2013331456),
        ("subuid", "# a comment\nalice:many:65536\nalice:2013265920", 2013331456),
    ],
)
def test_the_ids_are_those_of_nobody_on_the_host(name, line, first, tmp_path):
    (tmp_path / name).write_text(f"{line}\n")
    assert unused_range(tmp_path) == IdRange(first)


def test_a_host_whose_ids_are_all_taken_is_named(tmp_path):
    (tmp_path / "subuid").write_text("alice:0:4294967295\n")
    with pytest.raises(VtaxError, match="every range") as caught:
        unused_range(tmp_path)
    assert "subuid" in caught.value.where


def test_a_kernel_that_makes_no_user_namespace_is_said_with_a_hint(monkeypatch):
    def refuse():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(namespaces, "enter_user_namespace", refuse)
    with pytest.raises(VtaxError, match="no user namespace") as caught, user_namespace(IDS):
        pass
    assert "user.max_user_namespaces" in caught.value.hint


@pytest.mark.parametrize(
    ("message", "hinted"),
    [
        ("vtax: mapping the ids of /tree: Invalid argument", True),
        ("vtax: mapping the ids of /tree: Function not implemented", True),
        ("vtax: mounting /run/vtax-root: Invalid argument", True),
        ("vtax: mapping the ids of /tree: No such file or directory", False),
        ("runc: something else", False),
    ],
)
def test_a_kernel_or_file_system_that_maps_no_ids_is_said_with_a_hint(message, hinted, spec):
    error = stdio.start_error(spec, OSError("it failed"), message)
    assert ("Linux 5.19" in error.hint) is hinted


def test_podman_maps_the_ids_and_sets_no_new_privs_only_when_requested(spec, shifted):
    argv = podman.command_line(podman.OciOptions(**BOTH), spec, shifted, "/vtax-1", ["program"])
    ids = "0:2013265920:65536"
    assert {f"--uidmap={ids}", f"--gidmap={ids}", "--security-opt=no-new-privileges"} <= set(argv)
    assert argv[-3:] == ["--rootfs", "/r", "program"]
    plain = Root(Path("/r"), MountStep(Path("/r")))
    words = " ".join(podman.command_line(podman.OciOptions(), spec, plain, "/vtax-1", ["program"]))
    assert not any(word in words for word in ("idmap", "security-opt"))


def test_lxc_takes_its_settings_for_unprivileged_containers_after_the_common_ones(spec, shifted):
    text = lxc.configuration(containers.ContainerOptions(**BOTH), spec, shifted, common=True)
    lines = text.splitlines()
    assert lines[:2] == [f"lxc.include = {lxc.COMMON}", f"lxc.include = {lxc.COMMON_USERNS}"]
    ids = "0 2013265920 65536"
    assert {f"lxc.idmap = u {ids}", f"lxc.idmap = g {ids}", "lxc.no_new_privs = 1"} <= set(lines)
    assert "lxc.include" not in lxc.configuration(
        containers.ContainerOptions(**BOTH), spec, shifted, common=False
    )


def test_nspawn_leaves_the_files_as_they_are_shown(spec, shifted):
    argv = nspawn.command_line(containers.ContainerOptions(**BOTH), spec, shifted, ["program"])
    wanted = {
        "--private-users=2013265920:65536",
        "--private-users-ownership=off",
        "--no-new-privileges=yes",
    }
    assert wanted <= set(argv)
    assert argv[-2:] == ["--", "program"]


def test_docker_maps_ids_by_a_daemon_of_its_own_and_sets_no_new_privs_itself(spec):
    argv = docker_daemon.daemon_argv(Path("/c"), Path("/p"), "vfs", userns=True)
    assert "--userns-remap=65534:65534" in argv
    daemon = docker_daemon.Daemon(Path("/s"), True, "vfs", "20.10", userns=True)
    printed = docker.command_line(
        docker.DockerOptions(**BOTH), daemon, spec, "image:key", "/vtax-1", ["program"]
    )
    assert "--security-opt=no-new-privileges" in printed


@pytest.mark.parametrize("wanted", [True, False])
def test_a_docker_of_the_host_is_taken_only_if_its_containers_have_what_is_requested(
    wanted, spec, host_docker
):
    daemon = docker_daemon.Daemon(Path("/s"), False, "overlay2", "20.10", userns=not wanted)
    host_docker(daemon)
    with pytest.raises(
        VtaxError, match=f" {'without' if wanted else 'with'} a user namespace"
    ) as caught:
        docker.daemon_for(docker.DockerOptions(daemon="host", userns=wanted), spec, False)
    assert f"userns = {str(not wanted).lower()}" in caught.value.hint
    assert docker.daemon_for(docker.DockerOptions(userns=not wanted), spec, False) is daemon
