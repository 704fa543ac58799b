"""Options that hold a guest to its vCPUs: what a driver is asked for then, and what goes with nothing else."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from drivers import SHARE_A_KERNEL

from vtax.benchmarks.base import Context
from vtax.benchmarks.checks import check_cpu
from vtax.errors import BadInput, BenchmarkError
from vtax.guest.results import CommandResult
from vtax.host.cgroups import CpuTime
from vtax.messages import Note
from vtax.platforms import registry
from vtax.platforms.base import GuestSpec, Resources
from vtax.runner import tuning

SPEC = GuestSpec("vtax-1", None, Resources(2, 64 << 20, (3, 2)), Path("/"), None)
LIMITED = (*SHARE_A_KERNEL, "gvisor", "qemu")


@pytest.fixture(autouse=True)
def four_cpus(set_cpus):
    set_cpus({0, 1, 2, 3})


def asked(monkeypatch, **options):
    """What the driver of a platform with these options is to give a guest of two vCPUs."""
    platform = registry.make("mine", "podman", options)
    given = SimpleNamespace()
    monkeypatch.setattr(
        type(platform.driver), "start", lambda self, options, spec: setattr(given, "spec", spec)
    )
    platform.start(SPEC)
    return given.spec.resources


@pytest.mark.parametrize(
    ("options", "time"),
    [
        ({"cpu_limit": "quota"}, CpuTime(2)),
        (
            {"cpu_limit": "quota", "cpu_period": "10ms", "cpu_burst": "5ms"},
            CpuTime(2, 10_000, 5_000),
        ),
        ({"cpu_limit": "weight"}, CpuTime(weight=2)),
        ({"cpu_limit": "none"}, CpuTime()),
    ],
)
def test_a_limit_of_time_is_on_all_cpus_of_the_host(options, time, monkeypatch):
    given = asked(monkeypatch, **options)
    assert (given.cpus, given.pinned, given.limited, given.time) == (
        (0, 1, 2, 3),
        False,
        time,
        time,
    )


def test_without_the_option_guests_are_on_cpus_of_their_own_and_vms_are_not_limited(monkeypatch):
    assert asked(monkeypatch) == SPEC.resources
    assert SPEC.resources.time == CpuTime()
    unpinned = replace(SPEC.resources).unpinned()
    assert (unpinned.time, unpinned.limited) == (CpuTime(2), None)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"cpu_period": "10ms"}, "need cpu_limit quota"),
        ({"cpu_limit": "weight", "cpu_burst": "10ms"}, "need cpu_limit quota"),
        ({"cpu_limit": "quota", "cpu_burst": "200ms"}, "at most cpu_period"),
        ({"cpu_limit": "quota", "cpu_period": "2s"}, "a duration from 1ms to 1s"),
        (
            {"cpu_limit": "quota", "cpu_period": "0.5ms"},
            "cpu_period is 0.5ms; it must be a duration from 1ms to 1s",
        ),
        (
            {"cpu_limit": "quota", "cpu_period": "10"},
            "option cpu_period: '10' has no unit; write for example 500ms",
        ),
        ({"cpu_limit": "quota", "cpu_burst": "-5ms"}, "option cpu_burst: '-5ms' is not understood"),
        ({"cpu_limit": "share"}, "cpu_limit"),
    ],
)
def test_what_no_kernel_or_no_quota_takes_is_refused(options, what):
    with pytest.raises(BadInput) as refused:
        registry.make("mine", "podman", options)
    assert what in f"{refused.value} {refused.value.where} {refused.value.hint}"


@pytest.mark.parametrize("name", LIMITED)
def test_every_driver_with_a_cgroup_of_its_guest_has_the_option(name):
    assert registry.make("mine", name, {"cpu_limit": "quota"}).options.time(1) == CpuTime(1)


@pytest.mark.parametrize("name", ["xen", "virtualbox"])
def test_a_hypervisor_that_no_cgroup_holds_has_none(name):
    with pytest.raises(BadInput, match="cpu_limit"):
        registry.make("mine", name, {"cpu_limit": "quota"})


LARGE_BURST = {"cpu_limit": "quota", "cpu_period": "500ms", "cpu_burst": "500ms"}


@pytest.mark.parametrize(
    ("options", "used_s", "is_possible"),
    [
        ({"cpu_limit": "cpuset"}, 1.14, True),
        ({"cpu_limit": "cpuset"}, 1.2, False),
        ({"cpu_limit": "quota"}, 1.24, True),
        ({"cpu_limit": "quota"}, 1.3, False),
        ({"cpu_limit": "quota", "cpu_burst": "100ms"}, 1.34, True),
        ({"cpu_limit": "quota", "cpu_burst": "100ms"}, 1.4, False),
        (LARGE_BURST, 2.1, True),
        ({"cpu_limit": "weight"}, 1.9, True),
        ({"cpu_limit": "none"}, 1.9, True),
    ],
)
def test_a_limit_allows_what_is_left_of_a_period_and_a_burst(options, used_s, is_possible):
    room_s = registry.make("mine", "podman", options).options.cpu_room_s(1)
    used = CommandResult(("sysbench",), 0, "", "", outside_s=1.0, inside_s=1.0, cpu_s=used_s)
    context = Context(1, 64 << 20, cpu_room_s=room_s)
    if is_possible:
        check_cpu("sysbench", used, context)
        return
    with pytest.raises(BenchmarkError, match=rf"sysbench used {used_s:.2f} s of CPU time"):
        check_cpu("sysbench", used, context)


def test_a_platform_that_limits_cpus_itself_is_not_tested_where_the_study_does():
    limited, plain = (
        registry.make("mine", "podman", options) for options in ({"cpu_limit": "none"}, {})
    )
    refused = tuning.tuning_obstacle(limited, "pinned", "study.toml")
    assert refused.what == Note("tuning-and-cpu-limit", name="mine")
    assert tuning.tuning_obstacle(limited, "", "study.toml") is None
    assert tuning.tuning_obstacle(plain, "pinned", "study.toml") is None
