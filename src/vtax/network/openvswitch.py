"""A private Open vSwitch in the lab: its own database and daemon, which end with the lab.

The kernel's datapath is used where the host has it, the userspace one otherwise; `Switch.kind` says which. The
userspace datapath reads packets whose checksums the sender has left to the hardware as corrupt, so both ends must
compute theirs: topologies on it turn offloads off.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vtax.errors import BadInput, NetworkError
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.journal import Registration
from vtax.host.packages import packages_hint
from vtax.host.process import cpu_s_of, find_program, run, spawn
from vtax.host.resources import TaggedProcesses, Tree
from vtax.host.waiting import wait_until
from vtax.network.hop import Hop
from vtax.network.lab import Lab
from vtax.network.namespace import Namespace
from vtax.network.plugboard import Interface
from vtax.network.segment import guest_hop, kind_of, port_name, tap, uplink_hops, veth

_START_TIMEOUT_S = 15.0
_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
_KERNEL_DATAPATH = Path("/sys/module/openvswitch")
_FLOW = re.compile(r"cookie=(0x[0-9a-f]+),.* n_packets=(\d+), n_bytes=(\d+)")
MAX_MTU = 65500
"""Bytes. Open vSwitch 3.1 never ends adding a port with an MTU of 65517, and carries no full frame at 65522."""


def check_installed() -> None:
    """Raise BadInput when Open vSwitch is not installed."""
    for program in (
        "ovsdb-tool",
        "ovsdb-server",
        "ovs-vswitchd",
        "ovs-vsctl",
        "ovs-ofctl",
        "ovs-appctl",
    ):
        if find_program(program) is None:
            raise BadInput(
                f"this topology needs Open vSwitch, and {program} is not installed",
                hint=packages_hint("openvswitch-switch"),
            )


def userspace() -> bool:
    """Whether the switch must run in user space. Looks, and loads nothing into the kernel."""
    return not _KERNEL_DATAPATH.exists()


class Switch:
    """One switch daemon in a namespace of the lab, with as many bridges as are added."""

    def __init__(self, lab: Lab, namespace: Namespace) -> None:
        check_installed()
        self.namespace = namespace
        self.kind = "userspace" if userspace() else "kernel"
        self._directory = Path("/run", f"vtax-{lab.token}-ovs")
        tag = f"vtax-{lab.token}-ovs"
        self._registered: list[Registration] = [lab.journal.register(Tree(str(self._directory)))]
        self._registered.append(
            lab.journal.register(TaggedProcesses(tag, "the lab's Open vSwitch"))
        )
        lab.before_close(self.close)
        self._directory.mkdir(mode=0o700)
        self._environment = {
            f"OVS_{name}DIR": str(self._directory) for name in ("RUN", "LOG", "DB", "SYSCONF")
        }
        database = self._directory / "conf.db"
        run(["ovsdb-tool", "create", database, _SCHEMA], environment=self._environment)
        self._spawn(
            ["ovsdb-server", database, f"--remote=punix:{self._socket}", "--unixctl=db.ctl"], tag
        )
        self._wait_for(self._socket)
        self._vsctl("--no-wait", "init")
        daemon = self._spawn(["ovs-vswitchd", f"unix:{self._socket}", "--unixctl=switch.ctl"], tag)
        self._pid = daemon.pid

    def add_bridge(self, bridge: str, *options: str) -> None:
        """Make a bridge; options: columns of ovs-vswitchd.conf.db(5), table Bridge, as `name=value`."""
        kind = "netdev" if self.kind == "userspace" else "system"
        self._vsctl(
            "add-br", bridge, "--", "set", "bridge", bridge, f"datapath_type={kind}", *options
        )

    def add_port(
        self,
        bridge: str,
        interface: str,
        *,
        number: int | None = None,
        tag: int | None = None,
        vlans: Sequence[int] = (),
    ) -> None:
        """Make an interface of the namespace a port.

        bridge: that it is a port of.
        interface: its name.
        number: its OpenFlow port.
        tag: the VLAN of an access port.
        vlans: those of a trunk, which carries no others.
        """
        command = ["add-port", bridge, interface]
        if tag is not None:
            command.append(f"tag={tag}")
        if vlans:
            command.append(f"trunks={','.join(map(str, vlans))}")
        if number is not None:
            command += ["--", "set", "interface", interface, f"ofport_request={number}"]
        self._vsctl(*command)

    def control_by(self, bridge: str, target: str, timeout_s: float) -> None:
        """Have a controller decide what no flow matches (out of band: it is not reached through the bridge).

        Returns once it is connected and has set a flow. The daemon's log says so at once; the database, which it
        writes every five seconds, as late. Raises NetworkError when that takes more than timeout_s.
        """
        log = self._directory / "ovs-vswitchd.log"
        before = log.stat().st_size
        options = ("connection_mode=out-of-band", "max_backoff=1000")
        self._vsctl("set-controller", bridge, target, "--", "set", "controller", bridge, *options)
        line = f"|{bridge}<->{target}: connected\n".encode()
        wait_until(
            lambda: line in log.read_bytes()[before:] and bool(self.flows(bridge)),
            timeout_s,
            0.02,
            otherwise=lambda: NetworkError(
                f"the OpenFlow controller did not connect to the switch within {timeout_s:g} s",
                hint="read /scratch/controller.log in the guest",
            ),
        )

    def controller_replies(self) -> int:
        """Return how many packets controllers have sent through the switch: one for each that reached them.

        The switch counts these one by one. What it counts for the flow to the controller is too low: it misses
        packets that arrive while the decision's own flow is installed.
        """
        return int(self._appctl("coverage/read-counter", "ofproto_packet_out"))

    def flows(self, bridge: str) -> list[tuple[int, int, int]]:
        """Return (cookie, packets, bytes) of every flow of the bridge's table, once the data path has reported to it."""
        self._appctl("revalidator/wait")
        text = run(
            ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", self._directory / f"{bridge}.mgmt"],
            environment=self._environment,
        ).stdout
        return [
            (int(cookie, 16), int(packets), int(size))
            for cookie, packets, size in _FLOW.findall(text)
        ]

    def cpu_s(self) -> float:
        """CPU time of the switch daemon in seconds."""
        return cpu_s_of(Path(f"/proc/{self._pid}/stat").read_text())

    def close(self) -> None:
        """End the daemons and remove their files. May be called twice."""
        while self._registered:
            self._registered[-1].release()
            self._registered.pop()

    @property
    def _socket(self) -> Path:
        return self._directory / "db.sock"

    def _spawn(self, argv: Sequence[str | Path], tag: str) -> subprocess.Popen[bytes]:
        name = argv[0]
        options = [
            f"--pidfile={self._directory}/{name}.pid",
            f"--log-file={self._directory}/{name}.log",
            "-vconsole:off",
            "-vsyslog:off",
        ]
        command = ["nsenter", f"--net={self.namespace.path}", "--", *argv, *options]
        return spawn(command, tag=tag, environment=self._environment)

    def _vsctl(self, *arguments: str) -> str:
        timeout = f"--timeout={_START_TIMEOUT_S * timeout_factor():g}"
        return run(
            ["ovs-vsctl", timeout, f"--db=unix:{self._socket}", *arguments],
            environment=self._environment,
        ).stdout

    def _appctl(self, *arguments: str) -> str:
        control = self._directory / "switch.ctl"
        return run(["ovs-appctl", "-t", control, *arguments], environment=self._environment).stdout

    def _wait_for(self, path: Path) -> None:
        limit_s = _START_TIMEOUT_S * timeout_factor()
        error = NetworkError(f"Open vSwitch did not start within {limit_s:g} s")
        wait_until(path.exists, limit_s, 0.005, otherwise=lambda: error)


class SwitchSegment:
    """A network that is a bridge of the switch.

    switch, bridge: the switch, and the name of the bridge.
    number: OpenFlow port of the next interface.
    tag: its VLAN.
    vlans: of a trunk.
    """

    def __init__(
        self,
        switch: Switch,
        bridge: str,
        *,
        number: int | None = None,
        tag: int | None = None,
        vlans: Sequence[int] = (),
    ) -> None:
        self.namespace = switch.namespace
        self.hops: list[Hop] = []
        self._switch, self._bridge = switch, bridge
        self._number, self._tag, self._vlans = number, tag, vlans

    def plug(self, role: str, interface: Interface, guest: Namespace) -> None:
        """Make a veth whose outer end is a port of the bridge."""
        port = port_name(role, interface)
        self.namespace.ip(veth(port, interface, guest), f"link set dev {port} up")
        self._switch.add_port(self._bridge, port, number=self._number, tag=self._tag)
        self.hops += [
            guest_hop(role, interface, guest, port),
            Hop(f"lab.{port}", self.namespace, port, "veth", limits=True, veth_pair=port),
        ]

    def plug_tap(self, role: str, interface: Interface, queues: int, device: str = "") -> str:
        """Make a tap that is a port of the bridge."""
        port = port_name(role, interface)
        self.namespace.ip(
            *tap(self.namespace, port, interface, queues, device), f"link set dev {port} up"
        )
        self._switch.add_port(self._bridge, port, number=self._number, tag=self._tag)
        self.hops.append(Hop(f"lab.{port}", self.namespace, port, kind_of(device), limits=True))
        return port

    def plug_uplink(self, port: str, nic: str, *, limits: bool = True) -> None:
        """Make a port of the bridge."""
        self._switch.add_port(
            self._bridge, port, number=self._number, tag=self._tag, vlans=self._vlans
        )
        self.hops += uplink_hops(self.namespace, port, nic, limits=limits)
