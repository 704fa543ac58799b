"""Run inside a nested machine: start guests of one platform, look at them, stop them, look for what is left.

`python start_guests.py TIMES PLATFORM [unprobed]` prints one JSON object. Limits are read where they hold: inside the
guest, and by using more than the memory limit. PLATFORM may be DRIVER:JSON, a driver with options.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from vtax.guest.guest import Guest
from vtax.host import cgroups
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.resources import Tree
from vtax.image import build as images
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Probe, Resources

MEMORY = 256 << 20
CPU = max(os.sched_getaffinity(0))
READY_S = 300.0
SENT = bytes(range(256)) * 256
_HOG = f"b = bytearray({MEMORY // 4}); print('some', flush=True); b = bytearray({MEMORY * 3 // 2}); print('more')"


def main() -> None:
    """See the module."""
    times, name = int(sys.argv[1]), sys.argv[2]
    driver, colon, options = name.partition(":")
    platform = (
        registry.make("nested-try", driver, json.loads(options)) if colon else registry.get(name)
    )
    home = Home.from_environment().ensure()
    image = images.find(home)
    before = traces()
    probe = Probe(True) if "unprobed" in sys.argv[3:] else platform.probe(image)
    found = {
        "platform": name,
        "available": probe.available,
        "reason": probe.reason,
        "marks": probe.marks,
    }
    found |= {
        "version": probe.version,
        "probe_s": round(probe.seconds, 2),
        "ready_s": [],
        "stop_s": [],
    }
    if probe.available:
        with Journal(home.journal) as journal:
            for number in range(times):
                look_at_one(platform, image, home, journal, found, is_first=number == 0)
            started_at = time.monotonic()
        found["closed_s"] = round(time.monotonic() - started_at, 2)
    found["left"] = sorted(traces() - before)
    print(json.dumps(found))


def look_at_one(platform, image, home, journal, found, *, is_first):
    """Start a guest, run `true` in it, look at its limits the first time, stop it."""
    name = f"vtax-{secrets.token_hex(3)}"
    registered = journal.register(Tree(str(home.guests / name)))
    (home.guests / name).mkdir()
    started_at = time.monotonic()
    running = platform.start(
        GuestSpec(name, image, Resources(1, MEMORY, (CPU,)), home.guests / name, journal)
    )
    guest = Guest(running.channel)
    guest.hello(READY_S)
    found["ready_s"].append(round(time.monotonic() - started_at, 2))
    assert guest.run(["true"]).status == 0
    if is_first:
        found |= exchange(guest)
        facts = guest.facts()
        hog = guest.run(["python3", "-c", _HOG], timeout_s=120)
        found |= {
            "notes": running.notes,
            "limits": dict(running.limits_in_force()),
            "kernel": facts["kernel_release"],
            "true_s": round(guest.run(["true"]).outside_s, 4),
            "cpus_inside": guest.run(["nproc"]).stdout.strip(),
            "allowed_inside": guest.run(
                ["sed", "-n", "s/^Cpus_allowed_list:\t//p", "/proc/self/status"]
            ).stdout.strip(),
            "limit_inside": facts.get("cgroup.memory"),
            "hog": [hog.stdout.split(), hog.status == -signal.SIGKILL],
            "in_force": sorted(
                {str(cgroups.group_of(pid).in_force()) for pid in workload(running)}
            ),
            "groups": sorted(
                {Path(f"/proc/{pid}/cgroup").read_text().strip() for pid in workload(running)}
            ),
        }
    started_at = time.monotonic()
    guest.close()
    running.stop()
    found["stop_s"].append(round(time.monotonic() - started_at, 2))
    registered.release()


def exchange(guest):
    """Send 64 KiB of all byte values to the guest and back; the rates, in kB/s, and whether they came back equal."""
    times = [time.monotonic()]
    guest.put("/scratch/sent", SENT)
    times.append(time.monotonic())
    received = guest.get("/scratch/sent")
    times.append(time.monotonic())
    into, out = (round(len(SENT) / (end - begin) / 1000, 2) for begin, end in pairwise(times))
    return {"in_kb_s": into, "out_kb_s": out, "bytes_equal": received == SENT}


def workload(running):
    """The processes of a guest, wherever its runtime put them."""
    group = getattr(running, "elsewhere", None) or running.group
    return group.pids()


def traces() -> set[str]:
    """What vtax or a runtime could leave: cgroups, mounts, namespaces, units, containers, processes, files.

    Not the mount of /run/netns, which ip(8) makes at its first network namespace and keeps for all later ones, nor
    credentials of services that systemd starts by itself meanwhile.
    """
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()} - {
        "/run/netns"
    }
    found = {f"mount {path}" for path in mounts if not path.startswith("/run/credentials/systemd-")}
    found |= {f"cgroup {top}" for top, _, _ in os.walk("/sys/fs/cgroup") if is_ours(top)}
    found |= {f"hierarchy {line}" for line in Path("/proc/1/cgroup").read_text().splitlines()}
    found |= {f"netns {path.name}" for path in Path("/run/netns").glob("*")}
    found |= {f"link {path.name}" for path in Path("/sys/class/net").iterdir()}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"VTAX_MARK=" in words:
            found.add(f"process {words[:80]!r}")
    units = output("systemctl", "list-units", "--all", "--plain", "--no-legend")
    found |= {f"unit {line.split()[0]}" for line in units if is_ours(line.split()[0])}
    if shutil.which("xl"):
        found |= {f"domain {line.split()[0]}" for line in output("xl", "list")[1:]}
        found |= {f"file {path}" for path in Path("/var/log/xen").glob("*vtax*")}
    if output("systemctl", "is-active", "docker") == ["active"]:
        found |= {
            f"container {line}"
            for line in output("docker", "ps", "--all", "--format", "{{.Names}}")
        }
    home = Home.from_environment()
    found |= {f"file {path}" for place in (home.guests, home.journal) for path in place.glob("*")}
    return found


def is_ours(name: str) -> bool:
    """By the names vtax and the runtimes give; not the agent that this script is run by."""
    words = ("vtax-", "docker-", "libpod", "lxc", "machine-", "crun", "runc")
    last = name.rpartition("/")[2]
    return (
        any(word in last for word in words)
        and "vtax-nested" not in last
        and "lxc.mount" not in last
    )


def output(*argv: str) -> list[str]:
    """Lines a program prints."""
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()


if __name__ == "__main__":
    main()
