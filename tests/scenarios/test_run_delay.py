"""A program's wait for a CPU, as the agent reads it before the program is collected."""

import sys
from pathlib import Path

import pytest
from local_agent import LocalAgent

SPIN = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
end = time.process_time() + 0.3
while time.process_time() < end: pass
"""


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").is_file(), reason="the kernel has no /proc/PID/schedstat"
)
def test_a_program_beside_another_on_its_cpu_has_waited_for_it():
    argv = [sys.executable, "-ISc", SPIN]
    with LocalAgent() as local:
        local.guest.hello(10)
        handle = local.guest.start(argv)
        found = local.guest.run(argv)
        local.guest.stop(handle)
    waited_s = found.usage["run_delay_s"]
    assert 0.05 < waited_s < found.outside_s
    assert found.cpu_s + waited_s == pytest.approx(found.outside_s, abs=0.25 * found.outside_s)
