"""What the agent tells of its guest, read from files that no host at hand has."""

from pathlib import Path
from types import SimpleNamespace

from vtax.guest import bootstrap


def taught(read_file):
    """What the agent learns at its audit, reading files with read_file(path, most bytes)."""
    names = {"REQUESTS": {}, "read_file": read_file}
    exec(
        compile(
            Path(bootstrap.__file__).with_name("agent_more.py").read_text(), "agent_more", "exec"
        ),
        names,
    )
    return names


def test_the_kernels_command_line_is_reported_but_for_what_no_two_guests_share():
    line = "ro nosmt no_timer_check initcall_blacklist=a vtax.stream=vtax.agent ssl0=fd:7 vec0:mac=1 -- -s"

    printed = taught(lambda path, maximum: line.encode())["command_line"](["nosmt"])
    assert printed["kernel_options"] == ["nosmt"]
    assert printed["kernel_command_line"] == [
        "ro",
        "nosmt",
        "no_timer_check",
        "initcall_blacklist=a",
    ]


def test_the_cpu_topology_is_reported_in_words(tmp_path):
    for cpu, (package, core) in enumerate(
        [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (1, 1), (1, 1)]
    ):
        directory = tmp_path / f"cpu{cpu}" / "topology"
        directory.mkdir(parents=True)
        (directory / "physical_package_id").write_text(f"{package}\n")
        (directory / "core_id").write_text(f"{core}\n")
    topology = taught(lambda path, maximum: Path(path).read_bytes()[:maximum])["topology"]
    assert topology(str(tmp_path)) == "2 sockets, 4 cores, 2 threads a core"
    assert topology(str(tmp_path / "none")) == ""


def agent_with(**replaced):
    """What the agent learns at its audit, with other system calls than those of this host."""
    learnt = taught(lambda path, maximum: b"")
    learnt.update(replaced)
    return learnt


class Cpus:
    """CPUs whose monotonic clocks are apart. offsets_ns: of each, by its number."""

    def __init__(self, offsets_ns):
        self.offsets_ns = offsets_ns
        self.allowed = set(offsets_ns)
        self.at = min(offsets_ns)
        self.now_ns = 10**9

    def sched_getaffinity(self, pid):
        return self.allowed

    def sched_setaffinity(self, pid, cpus):
        self.at = min(cpus)
        self.given = cpus

    def monotonic_ns(self):
        self.now_ns += 1000
        return self.now_ns + self.offsets_ns[self.at]


def test_a_clock_that_goes_back_between_cpus_is_a_fact_with_how_far():
    def seen(cpus):
        return agent_with(os=cpus, time=cpus)["clocks"]()

    assert seen(Cpus({0: 0, 3: 500})) == {"clock_between_cpus": "goes on"}
    behind = Cpus({0: 0, 3: -5000})
    assert seen(behind) == {"clock_between_cpus": "goes back 4000 ns"}
    assert list(behind.given) == [0, 3]
    assert seen(Cpus({1: -5000})) == {}


class Files:
    """Namespaces by the inodes of their files in /proc/self/ns."""

    F_OK = 0

    def __init__(self, **inodes):
        self.inodes = inodes

    def access(self, path, mode):
        return path.rpartition("/")[2] in self.inodes

    def stat(self, path):
        return SimpleNamespace(st_ino=self.inodes[path.rpartition("/")[2]])


def test_namespaces_of_its_own_are_told_from_those_of_the_kernels_first_process():
    def seen(**inodes):
        return agent_with(os=Files(**inodes))["namespaces"]()

    assert seen(pid=0xF0000123, uts=0xEFFFFFFE, user=0xEFFFFFFD) == {"own_namespaces": ["pid"]}
    assert seen(uts=0xEFFFFFFE) == {"own_namespaces": "none"}
