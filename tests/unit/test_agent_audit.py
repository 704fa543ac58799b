"""What the agent tells of its guest, read from files that no host at hand has."""

from pathlib import Path

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
