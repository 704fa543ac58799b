"""The environment of a host that only measures: a wheel is built, installed alone, and measured with.

    .venv/bin/python bench/core_environment.py [--study FILE]

It downloads the packages of the core with pip. Promised (docs/promises.md): at most 300 MB as pipx makes it, without
a pip of its own; `vtax --help`, `vtax doctor` and `vtax show` work, and `vtax run` with --study, which needs root and
an image. What draws is refused with the command that installs it. Exits 1 when it is broken.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cleanup

LIMIT_MB = 300
CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLE = CHECKOUT / "docs/examples/tour.vtax.gz"


def megabytes(directory: Path) -> int:
    """Size on the disk, as du counts it."""
    return int(
        subprocess.run(
            ["du", "-sm", directory], check=True, capture_output=True, text=True
        ).stdout.split()[0]
    )


def installed(place: Path) -> Path:
    """The environment with nothing but the wheel and what it requires; its command."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place],
        cwd=CHECKOUT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    wheel = next(place.glob("*.whl"))
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", place / "core"], check=True)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            place / "core/bin/python3",
            "install",
            "--quiet",
            wheel,
        ],
        check=True,
    )
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    return place / "core/bin/vtax"


def statuses(vtax: Path, home: Path, study: str) -> dict[str, tuple[int, int]]:
    """Command -> exit status and the one it must have."""
    environment = {**os.environ, "VTAX_HOME": str(home), "LC_ALL": "C.UTF-8"}
    wanted = {
        ("--help",): 0,
        ("doctor",): 0,
        ("import", str(EXAMPLE)): 0,
        ("show",): 0,
        ("report", "-o", str(home / "report.html")): 2,
        ("serve", "--port", "0"): 2,
    }
    if study:
        wanted |= {("run", study, "--name", "core"): 0, ("show", "core"): 0}
    found = {}
    for arguments, status in wanted.items():
        done = subprocess.run(
            [vtax, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        found[" ".join(arguments)] = (done.returncode, status)
        if done.returncode != status:
            print(done.stderr, file=sys.stderr)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--study", default="", help="run this study, too, in VTAX_HOME, which has an image"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        vtax = installed(place)
        home = Path(os.environ["VTAX_HOME"]) if arguments.study else place / "home"
        found = statuses(vtax, home, arguments.study)
        size = megabytes(place / "core")
    print(f"environment: {size} MB (at most {LIMIT_MB})")
    for command, (status, wanted) in found.items():
        print(
            f"vtax {command}: exit status {status}{'' if status == wanted else f', not {wanted}'}"
        )
    return int(size > LIMIT_MB or any(status != wanted for status, wanted in found.values()))


if __name__ == "__main__":
    cleanup.run(main)
