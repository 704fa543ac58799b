"""Run inside a nested machine: start a guest of VirtualBox, say how far it comes, stop it, look for what is left.

`python start_virtualbox.py SECONDS [kill]` prints one JSON object. The guest has SECONDS to answer.
`kernel_s` is when its processor was first seen in the kernel. With `kill`, this process kills itself then, as if vtax
had been killed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time

from start_guests import traces

from vtax.errors import GuestError
from vtax.guest.guest import Guest
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image import build as images
from vtax.network import registry as topologies
from vtax.platforms import _virtualbox_machine as machine
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources

OPTIONS = {"nested_paging": False, "large_pages": False, "paravirt_provider": "none"}
"""What came furthest on an emulated processor."""
_STATE = re.compile(r"Changing the VM state from '\w+' to '(\w+)'")
_BIOS = re.compile(r"Guest Log: BIOS: (.*)")
_KERNEL = 0xFFFFFFFF80000000  # where Linux maps itself (Documentation/arch/x86/x86_64/mm.rst)


def main() -> None:
    """See the module."""
    seconds, kills = float(sys.argv[1]), "kill" in sys.argv[2:]
    platform = registry.make("nested-try", "virtualbox", OPTIONS)
    home = Home.from_environment().ensure()
    image = images.find(home)
    before = traces()
    found: dict[str, object] = {}
    with Journal(home.journal) as journal:
        name = f"vtax-{secrets.token_hex(3)}"
        registered = journal.register(Tree(str(home.guests / name)))
        (home.guests / name).mkdir()
        links = topologies.get("point-to-point").build(journal, topologies.settings("point-to-point", {}))
        end = next(end for end in links.ends if end.under_test)
        started_at = time.monotonic()
        spec = GuestSpec(name, image, Resources(1, 256 << 20, (0,)), home.guests / name, journal, end)
        running = platform.start(spec)
        found["started_s"] = round(time.monotonic() - started_at, 1)
        found |= {
            "notes": running.notes,
            "limits": dict(running.limits_in_force()),
            "made": sorted(traces() - before),
        }
        guest = Guest(running.channel)
        made = machine.GuestIo(name, home.guests / name)
        found |= watch(running, made, started_at + seconds)
        try:
            guest.hello(max(1.0, started_at + seconds - time.monotonic()))
            found["ready_s"] = round(time.monotonic() - started_at, 1)
        except GuestError as error:
            found["error"] = str(error)
        log = made.log.read_text(errors="replace")
        found |= {"states": _STATE.findall(log), "bios": _BIOS.findall(log)}
        found["console"] = made.console.read_text(errors="replace")[-2000:]
        found["cpu_s"] = running.host_cpu_s()
        if kills:
            print(json.dumps(found), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        started_at = time.monotonic()
        guest.close()
        running.stop()
        found["stop_s"] = round(time.monotonic() - started_at, 1)
        links.close()
        registered.release()
    found["left"] = sorted(traces() - before)
    print(json.dumps(found))


def watch(running, made, deadline):
    """Wait until the guest's processor is in the kernel, or the agent greets; after how many seconds it was there."""
    began, read = time.monotonic(), ["VBoxManage", "-q", "debugvm", made.name, "getregisters", "rip"]
    environment = {**os.environ, **machine.environment(made)}
    while time.monotonic() < deadline and running.process.poll() is None:
        said = subprocess.run(read, capture_output=True, text=True, check=False, env=environment, timeout=120).stdout
        if (value := re.search("rip = (0x[0-9a-f]+)", said)) and int(value[1], 16) >= _KERNEL:
            return {"kernel_s": round(time.monotonic() - began, 1)}
        if select.select([running.channel.fileno()], [], [], 5.0)[0]:
            break
    return {"kernel_s": None}


if __name__ == "__main__":
    main()
