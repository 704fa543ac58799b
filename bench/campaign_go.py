"""`vtax campaign go` over many stub hosts: duration, and memory of all its processes.

    .venv/bin/python bench/campaign_go.py [--hosts 500] [--forks 25]

Promised (docs/promises.md): 500 hosts are prepared, checked and launched in at most 10 min and 2 GiB; a further `go`,
while nothing is to be done but to look, takes at most 60 s. Ansible is real; a host is a directory of this machine
(ansible_connection=local) whose `vtax` is a script that answers at once: ssh and hosts are not in the figures. Exits
1 when it is broken.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import cleanup

from vtax import __version__
from vtax.campaign.pack import write_members
from vtax.campaign.prepare import IMAGE, MAIN, MARK, PROGRAM, SHORT, WHEELS, Manifest
from vtax.campaign.settings import Launch, Settings

LIMIT_S, AGAIN_S, LIMIT_MIB = 600, 60, 2048
DIGEST = "ab" * 32
STUDY = 'name = "stub"\nplatforms = ["native"]\n[[benchmark]]\nname = "sysbench-cpu"\n'
VTAX = f"""#!/bin/sh
name=$(basename "$VTAX_HOME")
case $2 in
check) echo '{{"identity": "'$name'", "host": {{"machine_id": "'$name'", "cpu": "stub"}}, "agents": [], "kept": [],
  "time": "'$(date -u +%FT%TZ)'", "obstacles": [], "vtax_version": "{__version__}",
  "images": [{{"key": "stub", "digest": "{DIGEST}"}}]}}' ;;
*) state=absent
  [ "$2" = run ] && mkdir -p "$VTAX_HOME/host-runs/$3"
  [ -d "$VTAX_HOME/host-runs/$3" ] && state=running
  echo '{{"id": "'$3'", "state": "'$state'", "reason": "", "run": "stub-1", "block": 1, "blocks": 5,
    "done_trials": 1, "failed_trials": 0, "last_failure": "", "left_s": null,
    "bundle": "", "bundle_sha256": "", "next_boot": ""}}' ;;
esac
"""
PACK = f"""import os, shutil, sys
home = sys.argv[sys.argv.index("--home") + 1]
place = os.path.join(home, "packs", "{DIGEST[:SHORT]}")
os.makedirs(os.path.dirname(os.path.join(place, "{PROGRAM}")), exist_ok=True)
shutil.copy(os.path.join(os.path.dirname(home), "vtax"), os.path.join(place, "{PROGRAM}"))
open(os.path.join(place, "{MARK}"), "w").close()
"""


def campaign(root: Path, hosts: int, forks: int) -> Path:
    """Make a campaign of stub hosts below a directory."""
    directory, homes = root / "campaign", root / "hosts"
    (directory / "study").mkdir(parents=True)
    homes.mkdir()
    (homes / "vtax").write_text(VTAX)
    (homes / "vtax").chmod(0o755)
    (directory / "study/stub.toml").write_text(STUDY)
    (root / MAIN).write_text(PACK)
    manifest = Manifest(__version__, "", "study/stub.toml", "stub", DIGEST, {}, {})
    members = {
        MAIN: root / MAIN,
        **dict.fromkeys(("study/stub.toml", IMAGE, WHEELS), directory / "study/stub.toml"),
    }
    write_members(directory / "pack.vtax-pack", manifest, members)
    variables = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "vtax_python": sys.executable,
    }
    listed = {
        f"h{n:04}": {"ansible_host": f"h{n:04}", "vtax_home": str(homes / f"h{n:04}")}
        for n in range(hosts)
    }
    (root / "hosts.yml").write_text(json.dumps({"all": {"hosts": listed, "vars": variables}}))
    Settings(
        name="stub-1a2b",
        study="stub.toml",
        study_name="stub",
        pack_digest=DIGEST,
        image_key="stub",
        image_digest=DIGEST,
        vtax_version=__version__,
        created_at=0.0,
        inventory=str(root / "hosts.yml"),
        launch=Launch(canary=0, first_percent=0, forks=forks),
    ).write(directory / "campaign.toml")
    return directory


def tree(first: int) -> list[int]:
    """Return a process and all that descend from it."""
    found, parents = [first], {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def pss_mib(pids: list[int]) -> float:
    """Return the memory of processes, MiB, what they share divided among them."""
    total = 0
    for pid in pids:
        with suppress(OSError, IndexError, ValueError):
            total += int(
                Path(f"/proc/{pid}/smaps_rollup").read_text().partition("\nPss:")[2].split()[0]
            )
    return total / 1024


def go(directory: Path, home: Path) -> tuple[float, float, str]:
    """Call `vtax campaign go`; return (duration in s, most memory in MiB, what it printed last)."""
    most, ended = 0.0, threading.Event()
    environment = {**os.environ, "VTAX_HOME": str(home), "ANSIBLE_HOME": str(home / "ansible")}
    command = [sys.executable, "-m", "vtax", "campaign", "go", str(directory)]
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )

    def watch() -> None:
        nonlocal most
        while not ended.wait(1.0):
            most = max(most, pss_mib(tree(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        said, _ = process.communicate()
    finally:
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(said)
    return time.monotonic() - began, most, said.strip().splitlines()[-1]


def main() -> int:
    """Call `go` twice and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, default=500)
    parser.add_argument("--forks", type=int, default=25)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        directory, home = campaign(Path(made), given.hosts, given.forks), Path(made, "home")
        home.mkdir()
        first_s, first_mib, said = go(directory, home)
        print(
            f"first go: {first_s:.0f} s (at most {LIMIT_S}), {first_mib:.0f} MiB (at most {LIMIT_MIB}): {said}"
        )
        again_s, again_mib, said_again = go(directory, home)
        print(f"second go: {again_s:.0f} s (at most {AGAIN_S}), {again_mib:.0f} MiB: {said_again}")
    is_whole = said == said_again == f"{given.hosts} running"
    return int(
        not is_whole
        or first_s > LIMIT_S
        or again_s > AGAIN_S
        or max(first_mib, again_mib) > LIMIT_MIB
    )


if __name__ == "__main__":
    cleanup.run(main)
