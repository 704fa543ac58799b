"""A libvirt domain under a libvirtd of the tests: private sockets, records and network, an emulated machine."""

import secrets
import subprocess
import time

import pytest
from support import needs_program, needs_root

from vtax.errors import PlatformError
from vtax.guest.guest import Guest
from vtax.host.process import run
from vtax.host.resources import Tree
from vtax.image.initrd import CpioEntry, cpio
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

PROGRAMS = ("libvirtd", "virsh", "unshare", "qemu-system-x86_64", "qemu-img")
pytestmark = [needs_root, needs_program(*PROGRAMS)]

# Everything that libvirtd writes lies in memory of its own mount namespace; the accounts it wants are added there.
SERVE = """
set -e
mkdir "$1/image"
mount --bind "$2" "$1/image"
for place in /run /var/lib /var/cache /var/log /etc/libvirt; do mount -t tmpfs none $place; done
for file in passwd group; do cp /etc/$file "$1/$file"; done
grep -q ^libvirt-qemu: "$1/passwd" || echo 'libvirt-qemu:x:64055:64055::/:/bin/false' >>"$1/passwd"
for group in libvirt-qemu:x:64055: kvm:x:64056:; do
  grep -q "^${group%%:*}:" "$1/group" || echo $group >>"$1/group"
done
for file in passwd group; do mount --bind "$1/$file" /etc/$file; done
cat >/etc/libvirt/qemu.conf <<END
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
remember_owner = 0
dynamic_ownership = 0
END
exec libvirtd -f "$1/libvirtd.conf" -p "$1/libvirtd.pid"
"""
SETTINGS = """
unix_sock_dir = "{directory}"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_outputs = "3:file:{directory}/log"
host_uuid = "6695eb01-f6a4-8304-79aa-97f2502e193f"
"""
DOMAIN = """
<domain type='qemu'><name>{name}</name><memory unit='MiB'>512</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><kernel>{directory}/image/vmlinuz</kernel>
<initrd>{directory}/{name}.initrd</initrd><cmdline>{command_line}</cmdline></os>
<features><acpi/></features><cpu mode='maximum'/><on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>
<devices><controller type='usb' model='none'/><memballoon model='none'/>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{directory}/{name}.qcow2'/>
<target dev='vda' bus='virtio'/></disk>
<serial type='file'><source path='{directory}/{name}.console'/></serial>
<channel type='unix'>{source}<target type='virtio' name='org.vtax.0'/></channel>
</devices></domain>
"""
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 net.ifnames=0 vtax.modules=virtio_pci,virtio_console,virtio_blk vtax.root=/dev/vda "
    "vtax.stream=org.vtax.0"
)
# What Restart=always is to the service of a real guest: the bootstrap is started anew whenever it ends.
AGAIN = """
import os, sys
while True:
    child = os.fork()
    if not child:
        os.execv("/usr/bin/python3", ["/usr/bin/python3", "-I", "-S", "-B", *sys.argv[1:]])
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def uri(tmp_path_factory, image):
    """A connection to the tests' libvirtd, in which two domains are defined: `turned-off` and `always-on`."""
    directory = tmp_path_factory.mktemp("libvirt")
    (directory / "libvirtd.conf").write_text(SETTINGS.format(directory=directory))
    argv = [
        "unshare",
        "--mount",
        "--net",
        "sh",
        "-c",
        SERVE,
        "serve",
        str(directory),
        str(image.directory),
    ]
    with (directory / "out").open("wb") as out:
        server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    uri = f"qemu:///system?socket={directory}/libvirt-sock"
    deadline = time.monotonic() + 60
    while run(["virsh", "--connect", uri, "list"], check=False).status != 0:
        assert time.monotonic() < deadline, (directory / "out").read_text()
        time.sleep(0.3)
    for name in ("turned-off", "always-on"):
        source = f"<source mode='bind' path='{directory}/{name}.sock'/>"
        initrd = image.initrd.read_bytes()
        if name == "always-on":
            program = f'exec(bytes.fromhex("{AGAIN.encode().hex()}"))'
            words = f"/usr/bin/python3 -I -S -B -c {program}\n"
            initrd += cpio([CpioEntry("interpreter", 0o100644, words.encode())])
        (directory / f"{name}.initrd").write_bytes(initrd)
        size = str(image.disk.stat().st_size)
        run(
            [
                "qemu-img",
                "create",
                "-q",
                "-u",
                "-f",
                "qcow2",
                "-F",
                "raw",
                "-b",
                directory / "image/disk.raw",
                directory / f"{name}.qcow2",
                size,
            ]
        )
        xml = DOMAIN.format(
            name=name, directory=directory, source=source, command_line=COMMAND_LINE
        )
        (directory / f"{name}.xml").write_text(xml)
        run(["virsh", "--connect", uri, "define", directory / f"{name}.xml"])
    yield uri
    for name in ("turned-off", "always-on"):
        run(["virsh", "--connect", uri, "destroy", name], check=False)
    server.terminate()
    server.wait(20)


def state(uri, name):
    return run(["virsh", "--quiet", "--connect", uri, "domstate", name]).stdout.strip()


def spec(journal, private_home, plugboard=None):
    name = f"vtax-{secrets.token_hex(3)}"
    directory = private_home.guests / name
    journal.register(Tree(str(directory)))
    directory.mkdir()
    return GuestSpec(name, None, Resources(1, 1 << 29, (0,)), directory, journal, plugboard)


def ready(platform, journal, private_home):
    running = platform.start(spec(journal, private_home))
    guest = Guest(running.channel)
    guest.hello(120)
    return running, guest


def test_a_domain_that_is_off_is_started_and_turned_off_again(uri, journal, private_home):
    platform = registry.make("mine", "libvirt", {"domain": "turned-off", "uri": uri})
    probe = platform.probe(None)
    assert probe.available
    assert "shut off" in probe.reason
    running, guest = ready(platform, journal, private_home)
    assert state(uri, "turned-off") == "running"
    assert "vtax.stream=org.vtax.0" in guest.run(["cat", "/proc/cmdline"]).stdout
    assert 0 < running.host_cpu_s() < 600
    assert any(registered.kind == "command" for registered in journal.registered)
    running.stop()
    running.stop()
    assert state(uri, "turned-off") == "shut off"
    assert not any(registered.kind == "command" for registered in journal.registered)


def test_a_domain_that_runs_serves_guest_after_guest_and_is_left_running(
    uri, journal, private_home
):
    run(["virsh", "--quiet", "--connect", uri, "start", "always-on"])
    platform = registry.make("mine", "libvirt", {"domain": "always-on", "uri": uri})
    running, guest = ready(platform, journal, private_home)
    first = guest.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    running.stop()
    probe = platform.probe(None)
    assert probe.available, probe.reason
    assert probe.seconds < 20
    running, guest = ready(platform, journal, private_home)
    assert guest.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout == first
    running.stop()
    assert state(uri, "always-on") == "running"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"domain": "nobody"}, "failed to get domain 'nobody'"),
        ({"domain": "turned-off", "channel": "org.other.0"}, "no virtio channel 'org.other.0'"),
        ({"domain": "turned-off", "uri": "qemu:///system?socket=/nowhere/sock"}, "/nowhere/sock"),
    ],
)
def test_a_domain_that_cannot_be_used_is_explained(options, reason, uri, journal, private_home):
    platform = registry.make("mine", "libvirt", {"uri": uri, **options})
    probe = platform.probe(None)
    assert not probe.available
    assert reason in probe.reason
    assert probe.hint
    with pytest.raises(PlatformError, match=reason.split("'")[0]):
        platform.start(spec(journal, private_home))


def test_a_topology_is_refused(uri, journal, private_home):
    platform = registry.make("mine", "libvirt", {"domain": "turned-off", "uri": uri})
    with pytest.raises(PlatformError, match="topology"):
        platform.start(spec(journal, private_home, plugboard=object()))
    assert state(uri, "turned-off") == "shut off"
