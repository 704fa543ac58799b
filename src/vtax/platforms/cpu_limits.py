"""How a guest is held to its CPUs: on CPUs of its own, or on all of the host's with a limit of CPU time."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from vtax.host.cgroups import CpuTime
from vtax.platforms.options import DriverOptions
from vtax.study.fields import Duration

BOUNDED = ("cpuset", "quota")
_PERIOD_S = CpuTime().period_us / 1e6


class CpuLimited(DriverOptions):
    """Options of drivers whose guests, or the process of whose machine, are in a cgroup of their own."""

    cpu_limit: Literal["cpuset", "quota", "weight", "none"] = Field(
        "cpuset",
        description="what holds a guest to its vCPUs: host CPUs of its own (cpuset, or as a study's tuning says); or "
        "on all of them a quota of the time of as many, the weight of as many, or nothing",
    )
    cpu_period: Duration = Field(
        _PERIOD_S,
        ge=0.001,
        le=1,
        description="period of the quota, e.g. '10ms': what it leaves ends with it",
    )
    cpu_burst: Duration = Field(
        0.0,
        ge=0,
        le=1,
        description="unused quota that a later period may have more, at most a period, e.g. '50ms'",
    )

    @model_validator(mode="after")
    def _periods_are_of_a_quota(self) -> Self:
        if self.cpu_limit != "quota" and (self.cpu_period, self.cpu_burst) != (_PERIOD_S, 0):
            raise ValueError("cpu_period and cpu_burst need cpu_limit quota")
        if self.cpu_burst > self.cpu_period:
            raise ValueError("cpu_burst is at most cpu_period")
        return self

    @property
    def bounded(self) -> bool:
        """Whether a guest can use no more CPU time than its vCPUs have, none of which others leave idle."""
        return self.cpu_limit in BOUNDED

    def time(self, vcpus: int) -> CpuTime | None:
        """Return the limit of a guest of so many vCPUs; None for CPUs of its own."""
        quota = CpuTime(vcpus, round(self.cpu_period * 1e6), round(self.cpu_burst * 1e6))
        limits = {"quota": quota, "weight": CpuTime(weight=vcpus), "none": CpuTime()}
        return limits.get(self.cpu_limit)
