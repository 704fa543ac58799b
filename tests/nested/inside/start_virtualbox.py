"""Run inside a nested machine: start a guest of VirtualBox beside a native peer, use it, look for what is left.

`python start_virtualbox.py PLATFORM SECONDS [kill]` prints one JSON object. The guest has SECONDS to answer. With
`kill`, this process kills itself as soon as the guest runs, as if vtax had been killed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial

from start_guests import exchange, traces

from vtax.errors import GuestError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image import build as images
from vtax.network import registry as topologies
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources
from vtax.platforms.virtualbox import machine
from vtax.platforms.virtualbox.machine import VARIANTS

OPTIONS = {"nested_paging": False, "large_pages": False, "paravirt_provider": "none"}
"""With these a guest came up on an emulated processor."""
_DD = ("dd", "if=/dev/zero", "of=/scratch/written")
_STATE = re.compile(r"Changing the VM state from '\w+' to '(\w+)'")
_BIOS = re.compile(r"Guest Log: BIOS: (.*)")


def main() -> None:
    """See the module."""
    name, seconds, kills = sys.argv[1], float(sys.argv[2]), "kill" in sys.argv[3:]
    driver = registry.make("nested-try", "virtualbox", {**VARIANTS[name], **OPTIONS})
    home = Home.from_environment().ensure()
    image = images.find(home)
    before = traces()
    found: dict[str, object] = {}
    with Journal(home.journal) as journal, ExitStack() as stack:
        links = topologies.get("point-to-point").build(
            journal, topologies.settings("point-to-point", {})
        )
        stack.callback(links.close)

        def start(platform, end):
            name = f"vtax-{secrets.token_hex(3)}"
            stack.callback(journal.register(Tree(str(home.guests / name))).release)
            (home.guests / name).mkdir()
            running = platform.start(
                GuestSpec(
                    name, image, Resources(1, 256 << 20, (0,)), home.guests / name, journal, end
                )
            )
            stack.callback(running.stop)
            return machine.VirtualBoxIo(name, home.guests / name), running, Guest(running.channel)

        ends = {end.under_test: end for end in links.ends}
        _, _, peer = start(registry.get("native"), ends[False])
        peer.hello(seconds)
        ends[False].connected(partial(checked, peer))
        started_at = time.monotonic()
        made, running, guest = start(driver, ends[True])
        found["started_s"] = round(time.monotonic() - started_at, 1)
        found |= {"notes": running.notes, "limits": dict(running.limits_in_force())}
        found["made"] = sorted(traces() - before)
        if kills:
            print(json.dumps(found), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        started_at = time.monotonic()
        try:
            guest.hello(seconds)
            found["ready_s"] = round(time.monotonic() - started_at, 1)
            found |= use(guest, peer, ends[True], links)
        except (GuestError, AssertionError) as error:
            found["error"] = str(error)
        log = made.log.read_text(errors="replace")
        found |= {"states": _STATE.findall(log), "bios": _BIOS.findall(log)}
        found["console"] = made.console.read_text(errors="replace")[-2000:]
        found["cpu_s"] = running.host_cpu_s()
    found["left"] = sorted(traces() - before)
    print(json.dumps(found))


def use(guest, peer, end, links):
    """Bytes to the guest and back, a program that computes, packets to the peer; a rate for each."""
    found = exchange(guest)
    computed = checked(guest, ["sysbench", "cpu", "--cpu-max-prime=2000", "--time=5", "run"])
    found["events"] = int(re.findall(r"total number of events: +(\d+)", computed)[0])
    written = guest.run([*_DD, "bs=1M", "count=4", "conv=fsync"], timeout_s=600).stderr
    found["written_mb_s"] = round(
        4.194304 / float(re.findall(r"copied, ([\d.]+) s", written)[0]), 2
    )
    end.connected(partial(checked, guest))
    links.verify()
    peer.start(["iperf3", "-s"])
    time.sleep(5)
    for name, options in (("sent", []), ("received", ["--reverse"])):
        said = checked(guest, ["iperf3", "--json", "-t", "5", "-c", links.peer_address, *options])
        found[f"{name}_mbit_s"] = round(
            json.loads(said)["end"]["sum_received"]["bits_per_second"] / 1e6, 2
        )
    return found


def checked(guest, argv):
    """What a program prints, which must succeed."""
    result = guest.run(argv, timeout_s=600)
    assert result.status == 0, f"{argv[0]} failed: {result.stderr[-500:]}{result.stdout[-500:]}"
    return result.stdout


if __name__ == "__main__":
    main()
