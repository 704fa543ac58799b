"""How long a fresh guest takes from start to agent ready, beside the raw runtime starting `true`.

    start_time.py [PLATFORM ...] [--rounds 20] [--json] [--side-by-side 8]

Every round starts each platform once, in random order, as vtax does and by hand. By hand means: the runtime's own
command, with its defaults, on an overlay over the same image, until `true` has ended. QEMU has no such figure.
`started`: the driver has made the guest; `greeted`: its Python runs; what is left of `ready` sends it the agent.
`cpu`: what all of it took of the host's CPUs, where its cgroup tells; a busy host changes that least.
--side-by-side also starts that many guests at once and one after the other, three times, on the host's CPUs in turn.
The promise (docs/promises.md): raw + 60 ms and 0.3 s in all; native raw + 20 ms, Docker raw + 10 ms; emulated 2.5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cleanup

from vtax.guest.bootstrap import GREETING
from vtax.guest.guest import Guest
from vtax.host.cgroup_mounts import hierarchies
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.namespaces import overlay, private, tmpfs
from vtax.host.resources import Tree
from vtax.image import build
from vtax.image.image import Image
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Platform, Resources, RunningGuest
from vtax.platforms.oci import docker, gvisor
from vtax.platforms.oci import runtime as oci_runtime

DEFAULT = [
    "native",
    "podman",
    "lxc",
    "nspawn",
    "bubblewrap",
    "docker",
    "gvisor-systrap",
    "gvisor-ptrace",
    "qemu-tcg",
]
MEMORY = 512 << 20
CPUS = sorted(os.sched_getaffinity(0), reverse=True)
MANY_ROUNDS = 3
READY_S = 180.0
CONSOLE_LIMIT = 1 << 22
STAGES = ("started", "greeted", "cpu")


class Starter:
    """Starts guests and raw runtimes in private directories of one home."""

    def __init__(self, image: Image, home: Home, journal: Journal) -> None:
        self.image = image
        self.home = home
        self.journal = journal

    def spec(self, number: int = 0) -> GuestSpec:
        """A guest to start, in a fresh directory. number: chooses its CPU."""
        name = f"vtax-{secrets.token_hex(3)}"
        directory = self.home.guests / name
        self.journal.register(Tree(str(directory)))
        directory.mkdir()
        return GuestSpec(
            name,
            self.image,
            Resources(1, MEMORY, (CPUS[number % len(CPUS)],)),
            directory,
            self.journal,
        )

    def guest_s(self, platform: Platform) -> dict[str, float]:
        """Seconds from the start of a guest until its driver made it, it greeted, its agent answered; of CPUs."""
        spec = self.spec()
        began_at = time.monotonic()
        running = platform.start(spec)
        try:
            found = {"started": time.monotonic() - began_at}
            running.channel.skip_to(GREETING, CONSOLE_LIMIT, began_at + READY_S)
            running.channel.unread(GREETING)
            found["greeted"] = time.monotonic() - began_at
            Guest(running.channel).hello(READY_S)
            found["ready"] = time.monotonic() - began_at
            return found | {"cpu": running.host_cpu_s() or 0.0}
        finally:
            running.stop()
            shutil.rmtree(spec.directory)

    def raw_s(self, platform: Platform) -> float | None:
        """Seconds of the raw runtime starting and ending `true`; None when there is none to compare with."""
        if (argv_of := RAW.get(platform.driver.name)) is None:
            return None
        spec = self.spec()
        root, upper, work = (spec.directory / part for part in ("root", "upper", "work"))
        for path in (root, upper, work):
            path.mkdir()
        argv, in_new_root = argv_of(spec, root, platform)
        mounts = [
            overlay(spec.image.tree, upper, work, root),
            *([] if in_new_root else [tmpfs(Path("/run"))]),
        ]
        before_exec = private(mounts, new_root=root if in_new_root else None)
        started_at = time.perf_counter()
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=cleanup.environment(),
            preexec_fn=before_exec,
            check=False,
        )
        elapsed = time.perf_counter() - started_at
        if done.returncode != 0:
            sys.exit(f"{' '.join(argv)} failed: {done.stderr.decode()}")
        shutil.rmtree(spec.directory)
        return elapsed

    def many_s(self, platform: Platform, count: int) -> tuple[float, float]:
        """Seconds until count guests are ready, started one after the other and side by side (medians)."""
        times: dict[int, list[float]] = {1: [], count: []}
        for number in range(MANY_ROUNDS):
            for workers in sorted(times, reverse=bool(number % 2)):
                times[workers].append(self._many_once_s(platform, count, workers))
        return statistics.median(times[1]), statistics.median(times[count])

    def _many_once_s(self, platform: Platform, count: int, workers: int) -> float:
        specs = [self.spec(number) for number in range(count)]
        started_at = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            running = list(pool.map(lambda spec: _ready(platform, spec), specs))
        elapsed = time.perf_counter() - started_at
        for guest in running:
            guest.stop()
        for spec in specs:
            shutil.rmtree(spec.directory)
        return elapsed


def _ready(platform: Platform, spec: GuestSpec) -> RunningGuest:
    running = platform.start(spec)
    Guest(running.channel).hello(READY_S)
    return running


def raw_native(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """A process in a private mount namespace on the overlay."""
    return ["/usr/bin/true"], True


def raw_podman(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """podman run, with a store of its own in the same place for every start."""
    store = spec.directory.parent / "raw-podman"
    config = store / "containers.conf"
    store.mkdir(exist_ok=True)
    config.write_text("[containers]\ndefault_ulimits = []\n")
    os.environ["CONTAINERS_CONF"] = str(config)
    places = [f"--root={store}/root", f"--runroot={store}/run", f"--tmpdir={store}/tmp"]
    settings = ["--runtime=runc", "--cgroup-manager=cgroupfs", "--events-backend=file"]
    return [
        "podman",
        *places,
        *settings,
        "run",
        "--rm",
        "--network=none",
        "--rootfs",
        str(root),
        "true",
    ], False


def raw_lxc(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """lxc-start with the common configuration."""
    config = spec.directory / "lxc.conf"
    config.write_text(
        "lxc.include = /usr/share/lxc/config/common.conf\nlxc.apparmor.profile = unconfined\n"
        f"lxc.rootfs.path = dir:{root}\nlxc.net.0.type = empty\nlxc.console.path = none\nlxc.tty.max = 0\n"
    )
    places = [f"--lxcpath={spec.directory}", f"--name={spec.name}", f"--rcfile={config}"]
    return ["lxc-start", "--foreground", *places, "--", "/usr/bin/true"], False


def raw_nspawn(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """systemd-nspawn without a manager."""
    settings = ["--quiet", "--keep-unit", "--register=no", "--pipe", "--private-network"]
    return ["systemd-nspawn", *settings, f"--directory={root}", "/usr/bin/true"], False


def raw_bubblewrap(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """bwrap with all namespaces but that of users."""
    namespaces = [f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts")]
    settings = ["--bind", str(root), "/", "--proc", "/proc", "--dev", "/dev"]
    return ["bwrap", *namespaces, *settings, "--", "/usr/bin/true"], False


def raw_docker(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """docker run in the daemon that vtax uses too."""
    options = docker.DockerOptions.model_validate(platform.options.model_dump())
    daemon = docker.daemon_for(options, spec, False)
    image = daemon.ensure_image(spec.image)
    return daemon.command("run", "--rm", "--network=none", image, "true"), False


def raw_gvisor(spec: GuestSpec, root: Path, platform: Platform) -> tuple[list[str], bool]:
    """runsc run, without a network."""
    options = gvisor.GvisorOptions.model_validate(platform.options.model_dump())
    bundle = oci_runtime.bundle(spec, root, ["/usr/bin/true"], None)
    bundle["linux"]["namespaces"] = [
        {"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")
    ]
    (spec.directory / "config.json").write_text(json.dumps(bundle))
    settings = [
        f"--root={spec.directory / 'runsc'}",
        f"--platform={options.platform}",
        "--network=none",
    ]
    return [
        options.runsc,
        *settings,
        "--ignore-cgroups",
        "run",
        f"--bundle={spec.directory}",
        spec.name,
    ], False


RAW: dict[str, Callable[[GuestSpec, Path, Platform], tuple[list[str], bool]]] = {
    "native": raw_native,
    "podman": raw_podman,
    "lxc": raw_lxc,
    "nspawn": raw_nspawn,
    "bubblewrap": raw_bubblewrap,
    "docker": raw_docker,
    "gvisor": raw_gvisor,
}


def percentile(values: list[float], share: float) -> float:
    """By linear interpolation between order statistics."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def summary(guests: list[dict[str, float]], raws: list[float]) -> dict[str, float | int | None]:
    """Figures of one platform, in milliseconds."""
    ready = [each["ready"] for each in guests]
    return {
        "n": len(guests),
        **{
            f"{stage}_ms": statistics.median(each[stage] for each in guests) * 1e3
            for stage in STAGES
        },
        "ready_median_ms": statistics.median(ready) * 1e3,
        "ready_p95_ms": percentile(ready, 0.95) * 1e3,
        "raw_median_ms": statistics.median(raws) * 1e3 if raws else None,
        "raw_p95_ms": percentile(raws, 0.95) * 1e3 if raws else None,
        "added_median_ms": statistics.median(g - r for g, r in zip(ready, raws, strict=True)) * 1e3
        if raws
        else None,
    }


def measure(
    home: Home, image: Image, platforms: list[Platform], rounds: int, side_by_side: int
) -> dict[str, dict[str, float | int | None]]:
    """All figures by platform; the first start of each is not counted."""
    before = set(lxc_pivots())
    guests: dict[str, list[dict[str, float]]] = {platform.name: [] for platform in platforms}
    raws: dict[str, list[float]] = {platform.name: [] for platform in platforms}
    with cleanup.journal() as journal:
        starter = Starter(image, home, journal)
        for number in range(-1, rounds):
            for platform in random.sample(platforms, len(platforms)):
                raw_first = random.random() < 0.5
                raw_s = starter.raw_s(platform) if raw_first else None
                guest_s = starter.guest_s(platform)
                raw_s = raw_s if raw_first else starter.raw_s(platform)
                if number >= 0:
                    guests[platform.name].append(guest_s)
                    raws[platform.name] += [raw_s] if raw_s is not None else []
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        found = {
            platform.name: summary(guests[platform.name], raws[platform.name])
            for platform in platforms
        }
        for platform in platforms if side_by_side else []:
            in_turn, at_once = starter.many_s(platform, side_by_side)
            found[platform.name] |= {"in_turn_ms": in_turn * 1e3, "side_by_side_ms": at_once * 1e3}
        shutil.rmtree(home.guests / "raw-podman", ignore_errors=True)
    for path in set(lxc_pivots()) - before:
        path.rmdir()
    return found


def lxc_pivots() -> list[Path]:
    """The empty cgroups that LXC leaves where it is not reported another place."""
    return [path for hierarchy in hierarchies() for path in hierarchy.mount.glob("lxc.pivot")]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("platforms", nargs="*", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--side-by-side", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true")
    requested = parser.parse_args()
    home = Home.from_environment().ensure()
    image = build.ensure(home)
    platforms = []
    for name in requested.platforms:
        probe = registry.get(name).probe(image)
        if probe.available:
            platforms.append(registry.get(name))
        else:
            print(f"{name} does not run here: {probe.reason}", file=sys.stderr)
    found = measure(home, image, platforms, requested.rounds, requested.side_by_side)
    if requested.json:
        print(json.dumps(found, indent=2))
        return
    columns = list(next(iter(found.values()), {}))
    print(
        "platform".ljust(16) + "".join(column.removesuffix("_ms").rjust(15) for column in columns)
    )
    for name, row in found.items():
        cells = ("-" if row[column] is None else f"{row[column]:.0f}" for column in columns)
        print(name.ljust(16) + "".join(cell.rjust(15) for cell in cells))
    print("times in ms; added: vtax's guest ready minus the raw runtime, in pairs")


if __name__ == "__main__":
    cleanup.run(main)
