"""What share of a CPU vtax itself uses while a trial runs: the controller, and the programs it runs meanwhile.

Whole trials of sysbench through the real session and store, with the counters before and after: all the CPU time of
this process and of its children that ended, over the trial's wall time. The guest's own processes, its agent among
them, are not the controller's. What a trial costs is mostly at its two ends, so longer trials have smaller shares.

    sudo .venv/bin/python bench/controller_cpu.py [--platform native ...] [--seconds 10] [--trials 5]

The promise (docs/promises.md): at most 0.2 % of one CPU. Exits 1 when it is broken.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import cleanup
from by_hand import through_vtax

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.image.build import find
from vtax.runner.plan import Plan, make_plan
from vtax.study.load import LoadedStudy, validate

LIMIT = 0.002


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def plan_for(platform: str, seconds: int) -> Plan:
    """A study of one cell."""
    image = find(Home.from_environment())
    if image is None:
        raise BadInput("the guest image is not built yet", hint="sudo vtax image build")
    declared = {
        "name": "controller-cpu",
        "baseline": platform,
        "platforms": [platform],
        "benchmark": [{"name": "sysbench-cpu", "parameters": {"duration_s": seconds}}],
    }
    return make_plan(LoadedStudy(validate(declared, __file__), __file__), image=image, seed=1)


def shares(platform: str, seconds: int, trials: int) -> list[float]:
    """The controller's share of one CPU in each trial."""
    found = []
    with through_vtax(plan_for(platform, seconds)) as measure:
        for _ in range(trials):
            started_at, used_s = time.monotonic(), cpu_s()
            measure()
            found.append((cpu_s() - used_s) / (time.monotonic() - started_at))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--platform", action="append", help="repeat for several; default native")
    parser.add_argument("--seconds", type=int, default=10, help="of a trial")
    parser.add_argument("--trials", type=int, default=5)
    arguments = parser.parse_args()
    broken = False
    for platform in arguments.platform or ["native"]:
        found = shares(platform, arguments.seconds, arguments.trials)
        median = statistics.median(found)
        broken |= median > LIMIT
        print(
            f"{platform:<16} {arguments.trials} trials of {arguments.seconds} s: median {median:.3%} of a CPU, "
            f"{min(found):.3%} to {max(found):.3%} (at most {LIMIT:.1%})"
        )
    return int(broken)


if __name__ == "__main__":
    cleanup.run(main)
