"""Bases of the options of drivers: where /scratch lies, and how a guest is held to its CPUs: on CPUs of its own, or on
all of the host's with a limit of CPU time.
"""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vtax.host.cgroups import CpuTime
from vtax.study.fields import Duration, Scratch

Choice = tuple[str, str, str]
"""Name of an option, the level that a guest has, and another, as the baseline has it or that costs less."""
_PLACES = {"layer": "layer", "memory": "memory", "overlay": "layer", "tmpfs": "memory"}
"""Place or file system of /scratch -> level of the option `scratch`; all others are volumes."""


class DriverOptions(BaseModel):
    """Base of the options of a driver, and those of one that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        """Return the option that a fact of the audit depends on; None where there is none.

        fact: its name.
        value, baseline: those of a guest and of the baseline, which differ, as texts.
        """
        return None

    def cpu_room_s(self, vcpus: int) -> float:
        """Return how much CPU time, in seconds, a guest may use beyond what its vCPUs have in any time."""
        return 0.0


class Scratched(DriverOptions):
    """Options of drivers that can choose where /scratch of a guest lies."""

    scratch: Scratch | None = Field(
        None,
        description="where /scratch lies: a directory of the host (volume), the guest's own writable layer (layer) or "
        "its memory (memory); absent: where the study's key scratch says",
    )

    @classmethod
    def choice_behind(cls, fact: str, value: str, baseline: str) -> Choice | None:
        guest_place, baseline_place = (_PLACES.get(place, "volume") for place in (value, baseline))
        is_place = fact.startswith("scratch") and guest_place != baseline_place
        return ("scratch", guest_place, baseline_place) if is_place else None


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

    def time(self, vcpus: int) -> CpuTime | None:
        """Return the limit of a guest of so many vCPUs; None for CPUs of its own."""
        quota = CpuTime(vcpus, round(self.cpu_period * 1e6), round(self.cpu_burst * 1e6))
        limits = {"quota": quota, "weight": CpuTime(weight=vcpus), "none": CpuTime()}
        return limits.get(self.cpu_limit)

    def cpu_room_s(self, vcpus: int) -> float:
        time = self.time(vcpus)
        if time is None:
            return 0.0
        if time.count is None:
            return math.inf
        return (time.count * time.period_us + time.burst_us) / 1e6  # of a period cut by the trial
