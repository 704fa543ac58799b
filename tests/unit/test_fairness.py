"""The check `fairness`: what is compared, and what a platform's layer explains."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from importlib.resources import files

from vtax.conformance import fair
from vtax.guest.guest import RLIMITS, own_limits

NATIVE = {"limit NOFILE": "20000 20000", "kernel": "6.1", "umask": "022", "memory": "1"}
PROBE = files("vtax.conformance").joinpath("fair_probe.py")


def test_a_difference_is_the_platforms_own_only_where_its_kernel_is_or_where_it_is_declared():
    here = {"limit NOFILE": "1024 20000", "kernel": "6.6", "umask": "022", "CPU time": "2"}
    limit = "limit NOFILE is '1024 20000', native's is '20000 20000'"
    kernel = "kernel is '6.6', native's is '6.1'"
    assert fair.undeclared(here, NATIVE, (), has_own_kernel=False) == [kernel, limit]
    assert fair.undeclared(here, NATIVE, (), has_own_kernel=True) == [limit]
    assert fair.undeclared(here, NATIVE, ("limit NOFILE",), has_own_kernel=True) == []


def test_the_probe_reads_every_limit_and_all_that_a_kernel_explains():
    argv = [sys.executable, "-I", str(PROBE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    limits = [name for name in found if name.startswith("limit ")]
    assert len(limits) == len(
        {n for n in dir(resource) if n.startswith("RLIMIT_")} - {"RLIMIT_OFILE"}
    )
    assert fair.OF_KERNEL - found.keys() <= {"processes in all", "huge pages", "clock source"}
    assert all(isinstance(value, str) and value for name, value in found.items() if name in limits)


def test_limits_of_guests_are_those_of_vtax_without_privileges():
    limits = own_limits()
    assert len(limits) == len(RLIMITS)
    assert limits[resource.RLIMIT_NOFILE] == resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = limits[resource.RLIMIT_NPROC]
    assert 0 < soft <= hard
    assert limits[13] == limits[14] == (0, 0)
