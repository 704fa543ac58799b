"""Native and every container runtime of this host: equal limits, one image, and no leaked resources."""

import os
import random
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
from drivers import CONFINABLE, OVER_OUR_OVERLAY, SHARE_A_KERNEL
from host_network import host_network
from killed_start import kill_a_start, what_stays
from support import needs_root, of_process, thorough, undisturbed

from vtax.errors import GuestError, PlatformError
from vtax.guest.guest import Guest
from vtax.host.cgroups import most_processes
from vtax.host.home import Home
from vtax.host.journal import Journal, clean
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.platforms import confinement, probing, registry
from vtax.platforms.base import GuestSpec, Platform, Resources
from vtax.platforms.oci import docker_daemon
from vtax.platforms.oci import runtime as oci_runtime

pytestmark = [needs_root]
OTHER_USERNS = [
    "lxc-unprivileged",
    "nspawn-userns",
    "docker-userns",
]  # tests of their own: test_platforms_userns
USERNS = ["podman-userns", *thorough(*OTHER_USERNS)]
OF_THE_HOSTS_KERNEL = [*SHARE_A_KERNEL, *USERNS]
PLATFORMS = [*OF_THE_HOSTS_KERNEL, "gvisor-systrap", *thorough("gvisor-ptrace")]
EVERY_DAY = ["native", "podman", "lxc", "docker"]
OTHERS = [name for name in SHARE_A_KERNEL if name not in EVERY_DAY]
SIDE_BY_SIDE = [
    *EVERY_DAY,
    "gvisor-systrap",
    *thorough(*OTHERS, "podman-userns", "gvisor-ptrace", *OTHER_USERNS),
]
NOBODY = 65534
MEMORY = 128 << 20
LAST_CPU = max(os.sched_getaffinity(0))
IN_FORCE = {
    "limit.cpus": str(LAST_CPU),
    "limit.cpu_time": 1.0,
    "limit.memory": MEMORY,
    "limit.tasks": most_processes(),
}
RESOURCES = Resources(1, MEMORY, (LAST_CPU,))
OWN_NETWORK = str(Path("/proc/self/ns/net").readlink())
KILL_POINTS = 3  # bench/kill_points.py makes hundreds
SEED = 20240229


def lxc_pivots():
    """The cgroups that LXC leaves where it is not reported another place; a user's LXC may have left some."""
    return [top for top, _, _ in os.walk("/sys/fs/cgroup") if top.endswith("/lxc.pivot")]


PIVOTS_BEFORE = lxc_pivots()


@dataclass
class Starter:
    """Starts guests of one platform in one home."""

    platform: str
    home: Home
    journal: Journal
    image: Image
    made: Platform | None = None

    def start(self, plugboard=None, image=None):
        name = f"vtax-{secrets.token_hex(3)}"
        directory = self.home.guests / name
        self.journal.register(Tree(str(directory)))
        directory.mkdir()
        spec = GuestSpec(name, image or self.image, RESOURCES, directory, self.journal, plugboard)
        return (self.made or registry.get(self.platform)).start(spec)

    def ready(self, plugboard=None):
        running = self.start(plugboard)
        guest = Guest(running.channel)
        guest.hello(60.0)
        return running, guest


@pytest.fixture
def starter(request, module_home, module_journal, image):
    skip_unless_it_runs(request.param)
    return Starter(request.param, module_home, module_journal, image)


def skip_unless_it_runs(platform):
    probe = registry.get(platform).probe(None)
    if not probe.available:
        pytest.skip(f"{platform} does not run here: {probe.reason}")


every_platform = pytest.mark.parametrize("starter", PLATFORMS, indirect=True)
sharing_the_hosts_kernel = pytest.mark.parametrize("starter", OF_THE_HOSTS_KERNEL, indirect=True)


class Recorder:
    """A plugboard that notes what it was asked to plug."""

    def __init__(self):
        self.namespaces = []

    def plug_namespace(self, netns):
        self.namespaces.append(str(Path(netns).readlink()))


def leftovers(home, name):
    """Processes, cgroups and mounts of a home or a guest."""
    found = [
        line
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if str(home.root) in line
    ]
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{top}/{d}" for d in directories if d.startswith(name)]
    found += [path for path in lxc_pivots() if path not in PIVOTS_BEFORE]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            mounts = (entry / "mountinfo").read_text()
        except OSError:
            continue
        if name.encode() in words or str(home.root) in mounts:
            found.append(f"process {entry.name}: {words[:200]!r}")
    return found


@sharing_the_hosts_kernel
@pytest.mark.push_with("native", "podman", "lxc")
def test_a_guest_answers_under_exactly_its_limits(starter):
    running, guest = starter.ready()
    assert running.notes == ()
    status = guest.run(["grep", "Cpus_allowed_list", "/proc/self/status"]).stdout
    assert status.split() == ["Cpus_allowed_list:", str(LAST_CPU)]
    assert running.limits_in_force() == IN_FORCE
    hog = f"b = bytearray({MEMORY // 2}); print(len(b), flush=True); b = bytearray({MEMORY * 3 // 2}); print('more')"
    result = guest.run(["python3", "-c", hog])
    assert result.stdout == f"{MEMORY // 2}\n"
    assert result.status == -signal.SIGKILL
    began, before = time.monotonic(), running.host_cpu_s()
    guest.run(["python3", "-c", "import time\nwhile time.process_time() < 0.5: pass"])
    used = running.host_cpu_s() - before
    assert 0.5 <= used <= time.monotonic() - began + 0.1  # of one CPU, and a moment of the runtime
    running.stop()


@every_platform
def test_every_guest_starts_from_the_same_untouched_files(starter):
    script = "touch /etc/vtax-was-here /vtax-was-here && echo 1 > /scratch/file && rm /etc/passwd && ls /scratch"
    for _ in range(2):
        running, guest = starter.ready()
        result = guest.run(
            ["sh", "-c", f"test ! -e /etc/vtax-was-here -a ! -e /vtax-was-here && {script}"]
        )
        assert (result.status, result.stdout) == (0, "file\n"), result.stderr
        running.stop()
    assert (starter.image.tree / "etc/passwd").exists()
    assert not (starter.image.tree / "etc/vtax-was-here").exists()


def test_programs_of_the_image_lie_below_no_layer_of_native_and_cannot_be_written(
    module_home, module_journal, image
):
    running, guest = Starter("native", module_home, module_journal, image).ready()
    here = image.tree.stat().st_dev
    shown = guest.run(["stat", "-c", "%d", "/usr/bin", "/scratch", "/tmp", "/"]).stdout.split()
    assert {int(number) for number in shown} == {here}
    kinds = guest.run(["stat", "-f", "-c", "%T", "/etc", "/var"]).stdout.split()
    assert kinds == ["overlayfs", "overlayfs"]
    for change in ("touch /usr/bin/vtax-was-here", "rm /usr/bin/env", "chmod 777 /usr/bin"):
        assert "Read-only file system" in guest.run(["sh", "-c", change]).stderr
    assert (image.tree / "usr/bin/env").exists()
    running.stop()


def test_native_scratch_is_a_plain_directory_of_the_host(module_home, module_journal, image):
    running, guest = Starter("native", module_home, module_journal, image).ready()
    device = guest.run(["stat", "-c", "%d", "/scratch"]).stdout.strip()
    assert device == str(module_home.guests.stat().st_dev)
    running.stop()


@pytest.mark.parametrize("starter", OVER_OUR_OVERLAY, indirect=True)
def test_setuid_files_and_device_nodes_of_a_guest_have_no_effect(starter):
    running, guest = starter.ready()
    for directory in ("/scratch", "/var/tmp"):
        program = f"cp /usr/bin/id {directory}/id && chmod 4755 {directory}/id && "
        result = guest.run(
            ["sh", "-c", f"{program} setpriv --reuid={NOBODY} --clear-groups {directory}/id -u"]
        )
        assert (result.status, result.stdout) == (0, f"{NOBODY}\n"), result.stderr
        node = guest.run(
            ["sh", "-c", f"mknod {directory}/zero c 1 5 && head -c 1 {directory}/zero"]
        )
        assert node.status != 0, f"a device node works in {directory}"
    running.stop()


@sharing_the_hosts_kernel
@pytest.mark.push_with("native", "podman", "lxc")
def test_a_guest_with_a_topology_has_a_network_of_its_own(starter):
    plugboard = Recorder()
    running, guest = starter.ready(plugboard)
    inside = guest.run(["readlink", "/proc/self/ns/net"]).stdout.strip()
    assert plugboard.namespaces == [inside]
    assert inside != OWN_NETWORK
    assert guest.run(["ls", "/sys/class/net"]).stdout.split() == ["lo"]
    loopback = "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_connection(a.getsockname())"
    assert guest.run(["python3", "-c", loopback]).status == 0
    running.stop()


@every_platform
def test_a_guest_has_neither_environment_nor_network_of_vtax_and_leaves_nothing(
    starter, monkeypatch
):
    monkeypatch.setenv("CLOUD_TOKEN", "a-secret")
    network = host_network()
    before = starter.journal.registered
    running, guest = starter.ready()
    directory = running.stderr.parent
    pids = {running.process.pid, *running.group.pids()}
    assert not [pid for pid in pids if b"a-secret" in of_process(Path(f"/proc/{pid}"), "environ")]
    inside = guest.run(["readlink", "/proc/self/ns/net"]).stdout.strip()
    assert (inside == OWN_NETWORK) == (starter.platform == "native")
    guest.start(["sleep", "600"])
    running.stop()
    running.stop()
    assert running.host_cpu_s() > 0
    new = [registered for registered in starter.journal.registered if registered not in before]
    assert [
        str(registered)
        for registered in new
        if not any(word in str(registered) for word in ("ockerd", "ontainerd", "Docker daemon"))
    ] == [f"files {directory}"]
    assert [
        line for line in leftovers(starter.home, directory.name) if directory.name in line
    ] == []
    assert host_network() == network


@every_platform
def test_a_guest_that_dies_says_how(starter):
    running, guest = starter.ready()
    for pid in running.group.pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with pytest.raises(GuestError) as caught:
        guest.run(["true"])
    assert "ended with status" in caught.value.where
    running.stop()


@every_platform
def test_a_start_that_fails_says_why_and_leaves_nothing(starter, tmp_path):
    if starter.platform.startswith("docker"):
        pytest.skip("Docker starts what it imported, not the directory")
    with pytest.raises(PlatformError) as caught:
        starter.start(image=Image("none", tmp_path))
    assert "No such file" in str(caught.value)
    guest_directory = max(starter.home.guests.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [
        line
        for line in leftovers(starter.home, guest_directory.name)
        if guest_directory.name in line
    ] == []


@pytest.mark.parametrize("starter", SIDE_BY_SIDE, indirect=True)
def test_eight_guests_run_side_by_side(starter):
    pairs = [starter.ready() for _ in range(8)]
    for number, (_, guest) in enumerate(pairs):
        assert (
            guest.run(
                ["sh", "-c", f"test ! -e /scratch/mine && echo {number} >/scratch/mine"]
            ).status
            == 0
        )
    assert [guest.run(["cat", "/scratch/mine"]).stdout for _, guest in pairs] == [
        f"{n}\n" for n in range(8)
    ]
    for running, _ in pairs:
        running.stop()


@pytest.mark.one_at_a_time
@pytest.mark.parametrize("with_image", [True, False])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_probe_is_quick_and_leaves_nothing(
    platform, with_image, private_home, image, monkeypatch
):
    skip_unless_it_runs(platform)
    token = secrets.token_hex(2)
    monkeypatch.setattr(probing, "secrets", SimpleNamespace(token_hex=lambda size: token))
    probe = registry.get(platform).probe(image if with_image else None)
    assert probe.available
    assert probe.seconds < 20
    assert list(private_home.guests.iterdir()) == []
    assert list(private_home.journal.iterdir()) == []
    assert leftovers(private_home, f"vtax-p{token}") == []


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.push_with("native", "podman", "lxc")
def test_a_killed_process_leaves_nothing_after_clean(platform, private_home, image):
    """Kill points: while Docker imports the image, with the agent ready, and at seeded moments of the start."""
    skip_unless_it_runs(platform)
    network = host_network()
    if platform.startswith("docker"):
        for delay_s in (1.5, None):  # then the image is imported
            register(platform, private_home, image, delay_s)
    usual_s = register(platform, private_home, image, delay_s=None)
    chosen = random.Random(SEED)
    for delay_s in [0.0, *(chosen.uniform(0, usual_s) for _ in range(KILL_POINTS))]:
        register(platform, private_home, image, delay_s)
    assert host_network() == network


def register(platform, home, image, delay_s):
    """Start a guest in a child, kill the child delay_s after it began (None: when ready), clean, and look around.

    Returns the seconds from the beginning of the start to the kill.
    """
    name = f"vtax-{secrets.token_hex(3)}"
    took_s = kill_a_start(platform, name, image, delay_s)
    cleaned = clean(home.journal)
    assert cleaned.problems == ()
    assert what_stays(lambda: leftovers(home, name)) == [], f"killed after {delay_s} s"
    assert list(home.guests.iterdir()) == []
    assert list(home.journal.iterdir()) == []
    return took_s


def test_a_second_private_docker_daemon_on_the_same_layers_is_refused_clearly(
    module_home, module_journal, image
):
    skip_unless_it_runs("docker")
    if docker_daemon.host_daemon() is not None:
        pytest.skip("the host's own daemon is used here")
    running = Starter("docker", module_home, module_journal, image).start()
    with (
        Journal(module_home.journal) as other,
        pytest.raises(PlatformError, match="another vtax process"),
    ):
        Starter("docker", module_home, other, image).start()
    running.stop()


@pytest.mark.parametrize("name", CONFINABLE)
def test_confinement_is_what_the_guests_programs_have(name, image, module_home, module_journal):
    """none: no filter; default: a filter, the capabilities of the policy, nothing to gain; strict: none of them."""
    skip_unless_it_runs(name)
    found = {}
    for level in ("none", "default", "strict"):
        platform = registry.make("mine", name, {"confinement": level})
        running, guest = Starter(name, module_home, module_journal, image, platform).ready()
        try:
            status = guest.run(["/usr/bin/cat", "/proc/self/status"], timeout_s=20.0).stdout
        finally:
            guest.close()
            running.stop()
        found[level] = dict(line.split(":", 1) for line in status.replace("\t", "").splitlines())
    assert found["none"]["Seccomp"] == "0"
    assert found["strict"]["Seccomp"] == found["default"]["Seccomp"]
    assert found["strict"]["NoNewPrivs"] == "1"
    assert int(found["strict"]["CapEff"], 16) == 0
    kept = sum(1 << number for number in confinement.numbers(confinement.capabilities()))
    assert int(found["default"]["CapEff"], 16) == int(found["default"]["CapBnd"], 16) == kept
    assert found["default"]["NoNewPrivs"] == "1"
    assert int(found["none"]["CapEff"], 16) & kept == kept


OF_ENGINES = [
    *product(["podman", "docker", "containerd"], ["runc", "crun", "youki", "runsc"]),
    ("containerd", "kata"),
]


@pytest.mark.parametrize(("engine", "runtime"), OF_ENGINES)
def test_a_runtime_starts_guests_within_their_limits_and_leaves_nothing(
    engine, runtime, image, module_home, module_journal
):
    platform = registry.make("mine", engine, {"runtime": runtime})
    probe = platform.probe(None)
    if not probe.available:
        pytest.skip(f"{runtime} of {engine} does not run here: {probe.reason}")
    assert f", {runtime}" in probe.version
    running, guest = Starter(engine, module_home, module_journal, image, platform).ready()
    name = running.stderr.parent.name
    assert running.notes == ()
    assert running.limits_in_force() == IN_FORCE
    has_own_kernel = guest.run(["uname", "-v"]).stdout.strip() != os.uname().version
    assert has_own_kernel is (runtime in oci_runtime.SANDBOXES)
    running.stop()
    assert [line for line in leftovers(module_home, name) if name in line] == []


@pytest.mark.parametrize("name", SHARE_A_KERNEL)
@pytest.mark.one_at_a_time
def test_a_limit_of_cpu_time_is_what_the_kernel_holds_the_guest_to(
    name, image, module_home, module_journal
):
    """Two programs, each on a CPU of its own, get the time of one."""
    skip_unless_it_runs(name)
    options = {"cpu_limit": "quota", "cpu_period": "20ms", "cpu_burst": "5ms"}
    platform = registry.make("mine", name, options)
    running, guest = Starter(name, module_home, module_journal, image, platform).ready()

    def burn():
        before = running.host_cpu_s()
        spin = "timeout 1 sh -c 'while :; do :; done' &"
        done = guest.run(["sh", "-c", f"{spin} {spin} wait"], timeout_s=20.0)
        return done, running.host_cpu_s() - before, running.throttling()

    def is_throttled(found):
        return found[2]["throttled_s"] > 0.2 and found[2]["throttled_periods"] > 10

    try:
        done, used, stopped = undisturbed(burn, reaches=is_throttled)
        limits = running.limits_in_force()
    finally:
        guest.close()
        running.stop()
    assert done.status == 0
    assert running.notes == ()
    assert limits["limit.cpu_time"] == 1
    assert (limits["limit.cpu_period_us"], limits["limit.cpu_burst_us"]) == (20_000, 5_000)
    assert len(limits["limit.cpus"].split(",")) == len(os.sched_getaffinity(0))
    assert used < 1.4 * done.outside_s
    if used < 0.9 * done.outside_s and not is_throttled((done, used, stopped)):
        pytest.skip(f"other programs left two of a guest {used / done.outside_s:.2f} CPUs")
    assert 10 < stopped["throttled_periods"] <= stopped["quota_periods"]
    assert stopped["throttled_s"] > 0.2
