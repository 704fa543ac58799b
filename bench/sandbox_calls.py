"""System calls of the host for one of a sandboxed program: gVisor's open with close, read and write, and native.

    sudo .venv/bin/python bench/sandbox_calls.py --runsc "runsc --platform=systrap --network=none --ignore-cgroups do"

perf(1) counts the tracepoint raw_syscalls:sys_enter on all CPUs, of processes with the names that python3 or the
sandbox have. A short and a long loop of the same program are counted in turn; their difference leaves the start out.
Counts, no times: the tracepoint slows every system call of the host while it counts. Other sandboxes must not run
meanwhile.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile

SHORT, LONG = 1_000, 21_000  # loops
PROGRAMS = {
    "open and close": "import os\nfor _ in range({loops}): os.close(os.open('/etc/hostname', os.O_RDONLY))",
    "read": "import os\nf = os.open('/dev/zero', os.O_RDONLY)\nfor _ in range({loops}): os.read(f, 1)",
    "read of a file": "import os\nf = os.open('{python}', os.O_RDONLY)\nfor _ in range({loops}): os.read(f, 1)",
    "write to a file": "import os, tempfile\nf = tempfile.TemporaryFile(buffering=0)\n"
    "for _ in range({loops}): os.write(f.fileno(), b'x')",
}
CALLS_OF_A_LOOP = {"open and close": 2}  # else 1
NATIVE, SANDBOX = 'comm == "python3"', 'comm ~ "runsc*" || comm == "exe"'
_IN_A_NAMESPACE = 'mount -t tracefs tracefs /sys/kernel/tracing && exec "$@"'


def counted(argv: list[str], names: str) -> int:
    """System calls of processes of these names while a command runs."""
    with tempfile.NamedTemporaryFile("r") as report:
        perf = [
            *f"perf stat -x, -a -o {report.name} -e raw_syscalls:sys_enter --filter".split(),
            names,
            "--",
        ]
        subprocess.run(
            ["unshare", "-m", "sh", "-c", _IN_A_NAMESPACE, "sh", *perf, *argv],
            check=True,
            timeout=120,
        )
        found = re.search(r"^(\d+),,raw_syscalls", report.read(), re.M)
    if found is None:
        sys.exit("perf counted nothing: it needs root and the package linux-perf")
    return int(found[1])


def main() -> None:
    """Print the calls of each loop, native and in the sandbox."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--runsc", default="runsc --platform=systrap --network=none --ignore-cgroups do"
    )
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    python = "/usr/bin/python3"
    for what, program in PROGRAMS.items():
        for where, before, names in (
            ("native", [], NATIVE),
            ("sandbox", shlex.split(arguments.runsc), SANDBOX),
        ):
            found = []
            for _ in range(arguments.rounds):
                short, long = (
                    counted(
                        [*before, python, "-c", program.format(loops=loops, python=python)], names
                    )
                    for loops in (SHORT, LONG)
                )
                found.append((long - short) / (LONG - SHORT) / CALLS_OF_A_LOOP.get(what, 1))
            print(
                f"{what}, {where}: {', '.join(f'{each:.2f}' for each in found)} calls of the host for one",
                flush=True,
            )


if __name__ == "__main__":
    main()
