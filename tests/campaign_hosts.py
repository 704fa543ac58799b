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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from ssh_server import serve, serve_again

import vtax
from vtax.campaign import prepare
from vtax.campaign.pack import archive_wheels, write_members
from vtax.campaign.prepare import Manifest
from vtax.image import contents
from vtax.image.image import Image

PYTHON = "{}.{}".format(*sys.version_info[:2])
_NET = "198.18.77"
_SETUP = """hostname {name} && mount --bind {directory}/machine-id /etc/machine-id && exec "$@" """
_STUB = """import os, sys
def main():
    os.environ["PYTHONPATH"] = {source!r}
    os.execv({python!r}, [{python!r}, "-m", "vtax", *sys.argv[1:]])
"""


@dataclass
class NamespaceHost:
    """A host. namespace: of its network. first: its first process, while it has power."""

    name: str
    address: str
    directory: Path
    namespace: str
    first: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Path:
        """Its VTAX_HOME."""
        return self.directory / "home"

    def start(self) -> None:
        """Give it power."""
        inside = [
            "nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--uts", "--pid", "--fork",
            "--kill-child=KILL", "--mount-proc", "sh", "-c", _SETUP.format(name=self.name, directory=self.directory),
            "sh",
        ]  # fmt: skip
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

    def variables(self) -> str:
        """Its variables of Ansible."""
        known = self.directory / "known_hosts"
        return json.dumps({
            "ansible_host": self.address, "ansible_user": "root", "ansible_become": False,
            "ansible_ssh_private_key_file": str(self.directory / "key"), "vtax_home": str(self.home),
            "vtax_python": sys.executable, "ansible_python_interpreter": sys.executable,
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={known} -o IdentitiesOnly=yes",
        })  # fmt: skip


@contextmanager
def namespace_hosts(directory: Path, image: Image, names: Sequence[str]) -> Iterator[tuple[list[NamespaceHost], str]]:
    """Yield (hosts without power, the network namespace that reaches them all), and end them."""
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
            (host.directory / "machine-id").write_text(hashlib.md5(host.name.encode()).hexdigest() + "\n")
            host.home.mkdir()
            (host.home / "images").symlink_to(image.directory.parent)
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


def ip(*arguments: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *arguments], check=True)


def inventory_of(hosts: Sequence[NamespaceHost], path: Path) -> Path:
    """Write an inventory of Ansible's with these hosts."""
    lines = "".join(f"    {host.name}: {host.variables()}\n" for host in hosts)
    path.write_text(f"all:\n  hosts:\n{lines}")
    return path


def light_pack(study: Path, image: Image, target: Path) -> str:
    """Write a pack whose vtax is that of the tests; return its digest."""
    members = target.parent / "members"
    members.mkdir()
    wheels = [_wheel_of_pip(members), _stub_wheel(members)]
    hashes = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in wheels}
    archive_wheels(members, hashes)
    (members / prepare.IMAGE).write_text("the hosts have it already")
    manifest = Manifest(
        vtax.__version__, platform.machine(), f"study/{study.name}", image.key, contents.digest(image),
        {PYTHON: hashes}, {},
    )  # fmt: skip
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


def _stub_wheel(directory: Path) -> Path:
    """Write a wheel of vtax whose command is that of the tests."""
    version, source = vtax.__version__, str(Path(vtax.__file__).parents[1])
    info = f"vtax-{version}.dist-info"
    target = directory / f"vtax-{version}-py3-none-any.whl"
    with ZipFile(target, "w") as archive:
        archive.writestr("vtax_of_tests.py", _STUB.format(source=source, python=sys.executable))
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: vtax\nVersion: {version}\n")
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\nvtax = vtax_of_tests:main\n")
        wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
    return target


def environment(home: Path) -> dict[str, str]:
    """The variables of a controller: its home, and Ansible's own files in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "VTAX_"))}
    return {**kept, "PATH": _path(), "VTAX_HOME": str(home), "ANSIBLE_HOME": str(home / "ansible"), "HOME": str(home)}


def has_ansible() -> bool:
    """Whether ansible-playbook is beside this Python, or on PATH."""
    return shutil.which("ansible-playbook", path=_path()) is not None


def _path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
