"""Hosts of a campaign on one machine: namespaces of network, mounts, UTS, PIDs, each with a machine-id and an sshd.

Each has a `/run` of its own, and so a measuring lock. Killing its first process is a loss of power: everything in it
is gone at once, and its home is still on the disk. The pack that they are prepared from is a real one but for its
wheels: the vtax in it is that of the tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from campaign_studies import COUNTING
from ssh_server import serve, serve_again

import vtax
from vtax.campaign import prepare
from vtax.campaign.pack import archive_wheels, write_members
from vtax.campaign.prepare import Manifest
from vtax.image import contents
from vtax.image.image import Image

PYTHON = "{}.{}".format(*sys.version_info[:2])
SOURCE = Path(vtax.__file__).parents[1]
BLOCKS = 3
STUDY = f"""
name = "fleet"
platforms = ["native"]
[design]
blocks = {BLOCKS}
{COUNTING}"""
_NET = "198.18.77"
RUN_S = 60.0
_SETUP = """hostname {name} && mount --bind {directory}/machine-id /etc/machine-id && {firmware} {shell} {more}
exec "$@" """
_NO_PROFILE = "{ [ ! -e /root/.bashrc ] || mount --bind /dev/null /root/.bashrc; } &&"  # some take a lock, or a minute
_FIRMWARE = "mount --rbind /sys/class {0}/real && mount --bind {0}/class /sys/class &&"
_STUB = """import os, sys
def main():
    os.environ["PYTHONPATH"] = {source!r}
    late = os.path.join(os.environ["VTAX_HOME"], "clock.py")
    how = [late] if os.path.exists(late) else ["-m", "vtax"]
    os.execv({python!r}, [{python!r}, *how, *sys.argv[1:]])
"""
_LATE = """import runpy, time
real = time.time
time.time = lambda: real() + {ahead_s}
runpy.run_module("vtax", run_name="__main__", alter_sys=True)
"""


@dataclass
class NamespaceHost:
    """A host. namespace: of its network. first: its first process, while it has power.

    mounts: what it sees -> in whose place it sees it, from its next start.
    """

    name: str
    address: str
    directory: Path
    namespace: str
    first: subprocess.Popen[bytes] | None = None
    mounts: Mapping[str, Path] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Its VTAX_HOME."""
        return self.directory / "home"

    def start(self) -> None:
        """Give it power."""
        more = (
            "".join(f"mount --bind {source} {target} && " for target, source in self.mounts.items())
            + "true || exit"
        )
        setup = _SETUP.format(
            name=self.name,
            directory=self.directory,
            firmware=self._firmware(),
            shell=_NO_PROFILE,
            more=more,
        )
        inside = [
            "nsenter",
            f"--net=/run/netns/{self.namespace}",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--mount-proc",
            "sh",
            "-c",
            setup,
            "sh",
        ]
        if (self.directory / "server").exists():
            self.first = serve_again(self.directory, inside=inside)
        else:
            self.first = serve(self.directory, self.address, 22, {"key": ""}, inside=inside)

    def lose_power(self) -> None:
        """Kill everything in it, at once."""
        if self.first is not None:
            self.first.kill()
            self.first.wait()
            self.first = None

    def _firmware(self) -> str:
        place = self.directory / "sys"
        return _FIRMWARE.format(place) if place.exists() else ""

    def be(self, machine_id: str, uuid: str) -> None:
        """Have that machine-id and, where this host shows none, that UUID of the firmware: for its next power."""
        (self.directory / "machine-id").write_text(f"{machine_id}\n")
        place = self.directory / "sys"
        for each in ("real", "class/dmi/id"):
            (place / each).mkdir(parents=True)
        (place / "devices").symlink_to("/sys/devices")
        for known in Path("/sys/class").iterdir():
            if known.name != "dmi":
                (place / "class" / known.name).symlink_to(place / "real" / known.name)
        (place / "class/dmi/id/product_uuid").write_text(f"{uuid}\n")

    def set_clock_ahead(self, ahead_s: float) -> None:
        """Have vtax there read another time; namespaces have no wall clock of their own."""
        (self.home / "clock.py").write_text(_LATE.format(ahead_s=ahead_s))

    def fill(self) -> None:
        """Leave no space in its home, which is small."""
        with (self.home / "filling").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 20))

    def lose_packets(self, percent: int) -> None:
        """Lose some of the packets that it is sent."""
        rule = (
            "INPUT",
            "-m",
            "statistic",
            "--mode",
            "random",
            "--probability",
            str(percent / 100),
            "-j",
            "DROP",
        )
        subprocess.run(["ip", "netns", "exec", self.namespace, "iptables", "-A", *rule], check=True)

    def have_another_image(self) -> None:
        """Have an image of the same recipe with one file more."""
        (image,) = (self.home / "images").iterdir()
        real = image.resolve()
        image.unlink()
        image.mkdir()
        for each in real.iterdir():
            (image / each.name).symlink_to(each)
        (image / "contents").unlink()
        lines = (real / "contents").read_text().splitlines()
        (image / "contents").write_text("".join(f"{line}\n" for line in lines[:-1]))

    def variables(self) -> str:
        """Its variables of Ansible."""
        known = self.directory / "known_hosts"
        return json.dumps(
            {
                "ansible_host": self.address,
                "ansible_user": "root",
                "ansible_become": False,
                "ansible_ssh_private_key_file": str(self.directory / "key"),
                "vtax_home": str(self.home),
                "vtax_python": sys.executable,
                "ansible_python_interpreter": sys.executable,
                "ansible_ssh_common_args": f"-o UserKnownHostsFile={known} -o IdentitiesOnly=yes",
            }
        )


@contextmanager
def namespace_hosts(
    directory: Path, image: Image, names: Sequence[str], home_mib: int = 0
) -> Iterator[tuple[list[NamespaceHost], str]]:
    """Yield (hosts without power, the network namespace that reaches them all), and end them.

    home_mib: size of a memory file system for each home; 0 for a directory.
    """
    token = secrets.token_hex(2)
    control = f"vtax-{token}-control"
    hosts = [
        NamespaceHost(name, f"{_NET}.{number}", directory / name, f"vtax-{token}-{name}")
        for number, name in enumerate(names, 2)
    ]
    try:
        ip("netns", "add", control)
        ip("-n", control, "link", "add", "hosts", "type", "bridge")
        ip("-n", control, "address", "add", f"{_NET}.1/24", "dev", "hosts")
        ip("-n", control, "link", "set", "hosts", "up")
        for host in hosts:
            host.directory.mkdir()
            (host.directory / "machine-id").write_text(
                hashlib.md5(host.name.encode()).hexdigest() + "\n"
            )
            host.home.mkdir()
            if home_mib:
                subprocess.run(
                    ["mount", "-t", "tmpfs", "-o", f"size={home_mib}m,mode=755", "vtax", host.home],
                    check=True,
                )
            (host.home / "images").mkdir(mode=0o700)
            (host.home / "images" / image.key).symlink_to(image.directory)
            ip("netns", "add", host.namespace)
            far = ["peer", "name", "eth0", "netns", host.namespace]
            ip("-n", control, "link", "add", host.name, "type", "veth", *far)
            ip("-n", control, "link", "set", host.name, "master", "hosts", "up")
            ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            for each in ("lo", "eth0"):
                ip("-n", host.namespace, "link", "set", each, "up")
        yield hosts, control
    finally:
        for host in hosts:
            host.lose_power()
        for name in (control, *(host.namespace for host in hosts)):
            if Path("/run/netns", name).exists():
                ip("netns", "delete", name)
        for host in hosts:
            if host.home.is_mount():
                subprocess.run(["umount", host.home], check=True)


def ip(*arguments: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *arguments], check=True)


def inventory_of(hosts: Sequence[NamespaceHost], path: Path) -> Path:
    """Write an inventory of Ansible's with these hosts."""
    lines = "".join(f"    {host.name}: {host.variables()}\n" for host in hosts)
    path.write_text(f"all:\n  hosts:\n{lines}")
    return path


def written_study(directory: Path) -> Path:
    """Write the study of BLOCKS trials of a second each, and return its file."""
    directory.mkdir()
    (directory / "count.sh").write_text("sleep 1\necho counted $(seq 1000 | wc -l)\n")
    (directory / "fleet.toml").write_text(STUDY)
    return directory / "fleet.toml"


def has_measured(host: NamespaceHost) -> bool:
    """Whether a trial has ended on it."""
    events = host.home / "events.jsonl"
    return events.exists() and '"trial_ended"' in events.read_text()


def has_ended(host: NamespaceHost) -> bool:
    """Whether the process of its run has ended."""
    return any((host.home / "host-runs").glob("*/end.json"))


def holds(lock: Path) -> bool:
    """Whether a process has that file locked."""
    inode = str(lock.stat().st_ino)
    return any(
        line.split()[5].endswith(f":{inode}")
        for line in Path("/proc/locks").read_text().splitlines()
    )


def light_pack(
    study: Path, image: Image, target: Path, source: Path = SOURCE, python: str = sys.executable
) -> str:
    """Write a pack whose vtax is that of the tests; return its digest. source, python: where hosts have both."""
    members = target.parent / "members"
    members.mkdir()
    wheels = [_wheel_of_pip(members), _stub_wheel(members, source, python)]
    hashes = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in wheels}
    archive_wheels(members, hashes)
    (members / prepare.IMAGE).write_text("the hosts have it already")
    manifest = Manifest(
        vtax.__version__,
        platform.machine(),
        f"study/{study.name}",
        image.key,
        contents.digest(image),
        {PYTHON: hashes},
        {},
    )
    files = {f"study/{each.name}": each for each in study.parent.iterdir() if each.is_file()}
    files |= {name: members / name for name in (prepare.IMAGE, prepare.WHEELS)}
    return write_members(target, manifest, {**files, prepare.MAIN: Path(prepare.__file__)})


def _wheel_of_pip(directory: Path) -> Path:
    """Write the wheel of the pip that is installed, from its files."""
    found = distribution("pip")
    target = directory / f"pip-{found.version}-py3-none-any.whl"
    with ZipFile(target, "w") as archive:
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                archive.write(file.locate(), str(file))
    return target


def _stub_wheel(directory: Path, source: Path, python: str) -> Path:
    """Write a wheel of vtax whose command is that of the tests."""
    version = vtax.__version__
    info = f"vtax-{version}.dist-info"
    target = directory / f"vtax-{version}-py3-none-any.whl"
    with ZipFile(target, "w") as archive:
        archive.writestr("vtax_of_tests.py", _STUB.format(source=str(source), python=python))
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: vtax\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/entry_points.txt", "[console_scripts]\nvtax = vtax_of_tests:main\n"
        )
        wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
    return target


def environment(home: Path) -> dict[str, str]:
    """The variables of a controller: its home, and Ansible's own files in it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "VTAX_"))
    }
    return {
        **kept,
        "PATH": _path(),
        "VTAX_HOME": str(home),
        "ANSIBLE_HOME": str(home / "ansible"),
        "HOME": str(home),
    }


def command_of(control: str, directory: Path) -> Callable[..., str]:
    """Return a command of vtax with a home in a directory; its output. control: its network namespace; empty for that
    of the tests. status: expected."""
    inside = ["nsenter", f"--net=/run/netns/{control}"] if control else []
    home = directory / "controller"
    home.mkdir()

    def run(*arguments: str | Path, status: int = 0, timeout_s: float = RUN_S) -> str:
        done = subprocess.run(
            [*inside, sys.executable, "-m", "vtax", *map(str, arguments)],
            env=environment(home),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=directory,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def has_ansible() -> bool:
    """Whether ansible-playbook is on PATH, or beside this Python."""
    return shutil.which("ansible-playbook", path=_path()) is not None


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{Path(sys.executable).parent}"
