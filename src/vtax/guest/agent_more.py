"""Requests of the agent after its start: programs, files, ports, the audit. Sent by the request `extend`;
runs in its module.

Kept out of `agent` because a guest's start waits for that one to be read and compiled. Same rules: standard library
only, few imports, names shared with `agent` (`REQUESTS`, `JOBS`, `pump`, `read_file`).
"""

from __future__ import annotations

import posix as os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vtax.guest.agent import JOBS, MAX_PAYLOAD, REQUESTS, Job, collect, pump, read_file, run

SIGTERM = 15


def job_of(requested: dict[str, Any]) -> Job:
    """Return the background program a request is about."""
    if requested["handle"] not in JOBS:
        raise LookupError(f"no background program {requested['handle']}")
    return JOBS[requested["handle"]]


def poll_job(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Whether a background program still runs."""
    return {"running": job_of(requested).status is None}


def stop(requested: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """End a background program: SIGTERM, then SIGKILL after a grace; answers all it wrote."""
    job = job_of(requested)
    if job.status is None:
        job.signal(SIGTERM)
        job.wait(requested["grace_s"])
    return collect(requested["handle"])


def finish(requested: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Wait for a background program to end by itself, or kill it at the timeout; answers like `run`."""
    return collect(requested["handle"], not job_of(requested).wait(requested["timeout_s"]))


def wait_port(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Wait until a TCP port is listened on; gives up when the program `handle` ends or the time is over."""
    job = JOBS.get(requested["handle"])
    deadline = time.monotonic() + requested["timeout_s"]
    pause_s = 0.001
    while not listening(requested["port"]):
        if time.monotonic() > deadline or (job is not None and job.status is not None):
            return {"listening": False}
        pump(pause_s)
        pause_s = min(pause_s * 1.5, 0.02)
    return {"listening": True}


def listening(port: int) -> bool:
    """Whether a TCP socket listens on a port (proc(5), /proc/net/tcp: state 0A)."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = read_file(path, MAX_PAYLOAD).decode().splitlines()
        except OSError:
            continue
        for fields in map(str.split, lines[1:]):
            if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                return True
    return False


def remove(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Remove files; answers which of them are left, such as directories. One that is not there needs no removal."""
    remaining_paths = []
    for path in requested["paths"]:
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            remaining_paths.append(path)
    return {"left": remaining_paths}


def make_directories(path: str) -> None:
    """Make the directories that a file is to lie in."""
    end = 0
    while (end := path.find("/", end + 1)) > 0:
        if not os.access(path[:end], os.F_OK):
            os.mkdir(path[:end])


def put(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Write a piece of a file at `offset`; the first piece makes it anew, its directories included."""
    first = requested["offset"] == 0
    if first:
        make_directories(requested["path"])
    fd = os.open(
        requested["path"],
        os.O_WRONLY | (os.O_CREAT | os.O_TRUNC if first else 0),
        requested["mode"],
    )
    try:
        os.lseek(fd, requested["offset"], 0)
        view = memoryview(payload)
        while view:
            view = view[os.write(fd, view) :]
        if first:
            os.fchmod(fd, requested["mode"])
    finally:
        os.close(fd)
    return {}


def get(requested: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Read a piece of a file: up to `size` bytes from `offset`; fewer only at its end."""
    return {}, read_file(requested["path"], requested["size"], requested["offset"])


def set_limits(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Give what is started from now on resource limits, in the order of their numbers, as far as the kernel lets."""
    import resource

    for number, (soft, hard) in enumerate(requested["limits"]):
        try:
            resource.setrlimit(number, (soft, hard))
        except (OSError, ValueError):
            continue
    return {}


# The audit: what this guest is, as flat facts. What cannot be read is left out.

SYSTEM_FILES = {
    "clock_source": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "frequency_governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "address_randomization": "/proc/sys/kernel/randomize_va_space",
    "security_label": "/proc/self/attr/current",
    "uid_map": "/proc/self/uid_map",
    "tcp_congestion_control": "/proc/sys/net/ipv4/tcp_congestion_control",
    "tcp_receive_buffer": "/proc/sys/net/ipv4/tcp_rmem",
    "tcp_send_buffer": "/proc/sys/net/ipv4/tcp_wmem",
}
OWN_OPTIONS = ("vtax.", "vec", "ssl")  # of the stream and the interfaces, which differ by guest
OWN_MOUNT_OPTIONS = ("lowerdir", "upperdir", "workdir", "uuid")  # differ by guest, on any platform
SIOCGIFFLAGS, SIOCGIFMTU = 0x8913, 0x8921  # netdevice(7)
STATUS_NAMES = {
    "NoNewPrivs": "no_new_privs",
    "Seccomp": "seccomp_mode",
    "Seccomp_filters": "seccomp_filters",
    "CapEff": "capabilities",
    "Speculation_Store_Bypass": "speculative_store_bypass",
    "SpeculationIndirectBranch": "speculative_indirect_branch",
}
LIBRARIES = ("libc.so.6", "libm.so.6", "libgomp.so.1", "libstdc++.so.6", "libiperf.so.0")
INITIAL_NAMESPACES = {  # include/linux/proc_ns.h: their inodes are the same on every host
    "cgroup": 0xEFFFFFFB,
    "ipc": 0xEFFFFFFF,
    "pid": 0xEFFFFFFC,
    "time": 0xEFFFFFFA,
    "user": 0xEFFFFFFD,
    "uts": 0xEFFFFFFE,
}
CLOCK_MOVES = 200  # from one CPU to the next
OFFLOADS = (
    "rx-checksumming",
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
)


def facts(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Return the audit. kernel_options: words of the command line that are facts of their own. programs: to hash."""
    audit = command_line(requested["kernel_options"])

    def hashes() -> dict[str, Any]:
        return hashes_of(requested["programs"])

    hardware = (kernel, processor, clocks, memory)
    isolation = (namespaces, control_group)
    for read in (*hardware, *isolation, mounts, disks, interfaces, hashes, limits):
        try:
            audit.update(read())
        except (OSError, ValueError, IndexError, KeyError) as error:
            audit[f"unreadable.{read.__name__}"] = f"{type(error).__name__}: {error}"
    return {"facts": {name: value for name, value in audit.items() if value not in ("", None, [])}}


def command_line(names: list[str]) -> dict[str, Any]:
    """Return the words of the kernel's command line: those of these names, and all but vtax's own.

    Those after `--` are init's.
    """
    words = text_of("/proc/cmdline").partition(" -- ")[0].split()
    return {
        "kernel_options": [word for word in words if word.partition("=")[0] in names],
        "kernel_command_line": [word for word in words if not word.startswith(OWN_OPTIONS)],
    }


def text_of(path: str) -> str:
    """Return a small file's text without surrounding space; empty when it cannot be read."""
    try:
        return read_file(path, 1 << 18).decode("utf-8", "replace").strip("\0\n\t ")
    except OSError:
        return ""


def names_in(directory: str) -> list[str]:
    """Return the sorted names in a directory; none when it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def pairs_of(text: str) -> dict[str, str]:
    """Return the pairs in lines of `key: value`."""
    pairs = {}
    for line in text.split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            pairs[key.strip()] = value.strip()
    return pairs


def bracketed(text: str) -> str:
    """Return the option in brackets of `always [madvise] never`."""
    return text.partition("[")[2].partition("]")[0]


def kernel() -> dict[str, Any]:
    """Return release, mitigations, and settings that bear on speed."""
    read = {
        "kernel_release": os.uname().release,
        "kernel_version": os.uname().version,
        "libc_version": os.confstr("CS_GNU_LIBC_VERSION") or "",
        "transparent_huge_pages": bracketed(text_of("/sys/kernel/mm/transparent_hugepage/enabled")),
    }
    for name, path in SYSTEM_FILES.items():
        read[name] = " ".join(text_of(path).split())
    status = pairs_of(text_of("/proc/self/status"))
    for key, name in STATUS_NAMES.items():
        read[name] = status.get(key, "")
    vulnerabilities = "/sys/devices/system/cpu/vulnerabilities"
    for name in names_in(vulnerabilities):
        read[f"mitigation.{name}"] = text_of(f"{vulnerabilities}/{name}")
    return read


def processor() -> dict[str, Any]:
    """Return model, flags, and the CPUs that are seen and allowed."""
    first = pairs_of(text_of("/proc/cpuinfo").partition("\n\n")[0])
    numbers = [first[key] for key in ("cpu family", "model", "stepping") if key in first]
    return {
        "cpu_model": first.get("model name", ""),
        "cpu_family_model_stepping": "/".join(numbers),
        "cpu_cache": first.get("cache size", ""),
        "cpu_flags": sorted(first.get("flags", "").split()),
        "cpu_topology": topology("/sys/devices/system/cpu"),
        "numa_nodes": len(numbered_in("/sys/devices/system/node", "node")),
        "cpus_visible": os.cpu_count(),
        "cpus_allowed": sorted(os.sched_getaffinity(0)),
    }


def clocks() -> dict[str, Any]:
    """Return whether the monotonic clock goes on from one of several CPUs to the next, or how far it goes back."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return {}
    back_ns, before_ns = 0, time.monotonic_ns()
    try:
        for move in range(CLOCK_MOVES):
            os.sched_setaffinity(0, {cpus[move % len(cpus)]})
            now_ns = time.monotonic_ns()
            back_ns = max(back_ns, before_ns - now_ns)
            before_ns = now_ns
    finally:
        os.sched_setaffinity(0, cpus)
    return {"clock_between_cpus": f"goes back {back_ns} ns" if back_ns else "goes on"}


def namespaces() -> dict[str, Any]:
    """Return the kinds of namespaces that are not those of the kernel's first process, as far as they tell."""
    kinds = []
    for kind, inode in INITIAL_NAMESPACES.items():
        path = f"/proc/self/ns/{kind}"
        if os.access(path, os.F_OK) and os.stat(path).st_ino != inode:
            kinds.append(kind)
    return {"own_namespaces": kinds or "none"}


def numbered_in(directory: str, prefix: str) -> list[str]:
    """Return the names of a directory that are a prefix and a number, such as `cpu0`."""
    names = [name for name in names_in(directory) if name.startswith(prefix)]
    return [name for name in names if name[len(prefix) :].isdigit()]


def topology(directory: str) -> str:
    """Return `1 socket, 2 cores, 1 thread a core` of the CPUs in /sys; empty when the kernel does not say."""
    sockets, cores = [], set()
    for name in numbered_in(directory, "cpu"):
        cpu = f"{directory}/{name}/topology"
        sockets.append(text_of(f"{cpu}/physical_package_id"))
        cores.add((sockets[-1], text_of(f"{cpu}/core_id")))
    if not all(sockets) or not cores:
        return ""
    words = []
    threads = len(sockets) // len(cores)
    for what, count in (("socket", len(set(sockets))), ("core", len(cores)), ("thread", threads)):
        words.append(f"{count} {what}{'s' * (count != 1)}")
    return ", ".join(words) + " a core"


def memory() -> dict[str, Any]:
    """Return memory and swap that are seen, in bytes."""
    pairs = pairs_of(text_of("/proc/meminfo"))
    return {
        name: int(pairs[key].split()[0]) * 1024
        for key, name in (("MemTotal", "memory_visible_bytes"), ("SwapTotal", "swap_bytes"))
        if key in pairs
    }


def control_group() -> dict[str, Any]:
    """Return the limits of the agent's control group as far as they can be seen from inside."""
    groups = {"": "/sys/fs/cgroup"}
    for line in text_of("/proc/self/cgroup").split("\n"):
        _, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        for controller in controllers.split(","):
            base = f"/sys/fs/cgroup/{controller}" if controller else "/sys/fs/cgroup"
            groups[controller] = base + path if names_in(base + path) else base
    v2 = groups[""]
    memory, quota = f"{v2}/memory.max", f"{v2}/cpu.max"
    if groups.get("memory"):
        memory = f"{groups['memory']}/memory.limit_in_bytes"
    if groups.get("cpu"):
        quota = f"{groups['cpu']}/cpu.cfs_quota_us"
    return {
        "cgroup.memory": limit_of(text_of(memory)),
        "cgroup.cpu_quota": limit_of(text_of(quota)),
        "cgroup.cpu_set": text_of(f"{groups.get('cpuset', v2)}/cpuset.cpus"),
    }


def limit_of(text: str) -> str:
    """Return a control group's limit; `none` for the ways in which both versions say so."""
    unlimited = text.startswith(("max", "-1")) or (text.isdigit() and int(text) >= 1 << 62)
    return "none" if unlimited else text


def mounts() -> dict[str, Any]:
    """Return file system and options of what is mounted over / and /scratch."""
    read: dict[str, Any] = {}
    table = [line.split() for line in text_of("/proc/self/mountinfo").split("\n")]
    for name, path in (("root", "/"), ("scratch", "/scratch/")):
        mount, point = None, ""  # the last of the deepest
        for row in table:
            directory = row[4].rstrip("/") if len(row) > 9 else "none"
            if path.startswith(directory + "/") and len(directory) >= len(point):
                mount, point = row, directory
        if mount is not None:
            kind, _, options = mount[mount.index("-") + 1 :][:3]
            read[f"{name}_file_system"] = kind
            words = {*mount[5].split(","), *options.split(",")}
            options_shown = [
                word for word in words if word.partition("=")[0] not in OWN_MOUNT_OPTIONS
            ]
            read[f"{name}_mount_options"] = sorted(options_shown)
    return read


def disks() -> dict[str, Any]:
    """Return scheduler and cache mode of each disk, as far as /sys shows any."""
    read: dict[str, Any] = {}
    for disk in names_in("/sys/block"):
        if not disk.startswith(("loop", "ram", "zram")):
            read[f"disk.{disk}.scheduler"] = bracketed(
                text_of(f"/sys/block/{disk}/queue/scheduler")
            )
            read[f"disk.{disk}.write_cache"] = text_of(f"/sys/block/{disk}/queue/write_cache")
    return read


def interfaces() -> dict[str, Any]:
    """Return driver, MTU and offloads of each network interface that is up. (/sys may show another network namespace's.)"""
    import _socket
    import fcntl

    read: dict[str, Any] = {}
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    for interface in [
        line.partition(":")[0].strip() for line in text_of("/proc/net/dev").split("\n")[2:]
    ]:
        request = interface.encode()[:15].ljust(40, b"\0")
        up = fcntl.ioctl(probe, SIOCGIFFLAGS, request)[16] & 1
        if up and interface != "lo":
            features = pairs_of(output_of(["ethtool", "-k", interface]))
            driver = pairs_of(output_of(["ethtool", "-i", interface]))
            read[f"interface.{interface}.driver"] = driver.get("driver", "")
            mtu = fcntl.ioctl(probe, SIOCGIFMTU, request)[16:20]
            read[f"interface.{interface}.mtu"] = int.from_bytes(mtu, "little")
            read[f"interface.{interface}.offloads"] = [
                f for f in OFFLOADS if features.get(f, "").startswith("on")
            ]
    probe.close()
    return read


def output_of(argv: list[str]) -> str:
    """Return what a program prints; nothing when it is missing or does not end in 5 s."""
    try:
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        request = {
            "argv": argv,
            "environment": environment,
            "cwd": "/",
            "limit": 1 << 16,
            "timeout_s": 5.0,
        }
        header, text = run(request, b"")
    except OSError:
        return ""
    return text[: header["stdout_size"]].decode("utf-8", "replace")


def hashes_of(programs: list[str]) -> dict[str, Any]:
    """Return short BLAKE2b hashes of libraries and programs that figures depend on. (hashlib would load all of OpenSSL.)"""
    from _blake2 import blake2b

    directories = [f"/usr/lib/{os.uname().machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/lib"]
    candidates = [(name, directories) for name in LIBRARIES] + [
        (name, ["/usr/bin", "/usr/sbin"]) for name in programs
    ]
    hashes = {}
    for name, places in candidates:
        for place in places:
            try:
                data = read_file(f"{place}/{name}", MAX_PAYLOAD)
            except OSError:
                continue
            hashes[f"hash.{name}"] = blake2b(data, digest_size=8).hexdigest()
            break
    return hashes


def limits() -> dict[str, Any]:
    """Return the effective resource limits."""
    read = {}
    for line in text_of("/proc/self/limits").split("\n")[1:]:
        name, soft = line[:25].strip().removeprefix("Max ").replace(" ", "_"), line[26:].split()[:1]
        if name in ("open_files", "stack_size", "locked_memory", "address_space", "processes"):
            read[f"limit.{name}"] = soft[0]
    return read


REQUESTS.update(
    {
        f.__name__: f
        for f in (poll_job, stop, finish, wait_port, remove, put, get, set_limits, facts)
    }
)
