"""A machine that goes on from its saved state: how much sooner it can be used, without what another wrote."""

import shutil
import time
from contextlib import contextmanager

import pytest
from nested.report import keep
from nested.tested import FILES, LOCK, SAVED

from vtax.demo.machines import MACHINES
from vtax.demo.running import booted

pytestmark = pytest.mark.timeout(3600)
LOADS = 3
MIN_RATIO = 3.0
"""How many times as long a boot lasts, until vtax can be used in the machine."""
MAX_CLOCK_S = 30.0
LOOK = "cat /proc/sys/kernel/random/boot_id /root/written; od -A n -N 16 -t x1 /dev/urandom; date +%s"


@contextmanager
def started(name, home, images, is_saved=True):
    """A machine and the seconds until vtax could be used in it."""
    began = time.monotonic()
    with booted(MACHINES[name], home, images, LOCK, FILES, is_saved=is_saved) as nested:
        usable_s = time.monotonic() - began
        how = "from the saved state" if nested.was_saved else "booted and saved" if is_saved else "booted"
        keep(f"saved-{name}.txt", f"{how}: answer {nested.boot_s:.1f} s, usable {usable_s:.1f} s\n", append=True)
        yield nested, usable_s


@pytest.mark.parametrize("name", SAVED)
def test_a_machine_goes_on_from_its_saved_state_many_times_sooner_than_it_boots(nested_images, shared_home, name):
    for state in shared_home.root.glob(f"nested/saved-{name}-*"):
        shutil.rmtree(state)
    with started(name, shared_home, nested_images, is_saved=False) as (_, booted_s):
        pass
    with started(name, shared_home, nested_images) as (nested, _):
        assert not nested.was_saved
        nested.run("sh", "-c", "echo by the first >/root/written")
    [state] = shared_home.root.glob(f"nested/saved-{name}-*")
    mib = sum(file.stat().st_size for file in state.iterdir()) >> 20
    keep(f"saved-{name}.txt", f"the saved state has {mib} MiB\n", append=True)
    loaded_s, boot_ids, drawn = [], [], []
    for _ in range(LOADS):
        with started(name, shared_home, nested_images) as (nested, usable_s):
            assert nested.was_saved
            boot_id, random, now = nested.run("sh", "-c", LOOK, status=None).stdout.splitlines()
            assert abs(int(now) - time.time()) < MAX_CLOCK_S
            assert "no runs" in nested.vtax("list").stdout
        loaded_s.append(usable_s)
        boot_ids.append(boot_id)
        drawn.append(random)
    assert len(set(boot_ids)) == 1
    assert len(set(drawn)) == LOADS
    assert booted_s > MIN_RATIO * max(loaded_s)
