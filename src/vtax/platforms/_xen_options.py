"""What can be chosen about a Xen domain, and the platforms that ship."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class XenOptions(BaseModel):
    """Options of the driver `xen`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["pv", "pvh"] = Field("pvh", description="type of the domain (xl.cfg: type)")
    tsc_mode: Literal["auto", "default", "always_emulate", "native", "native_paravirt"] = Field(
        "auto",
        description="time stamp counter (xl.cfg: tsc_mode); auto: default, native on emulated CPUs",
    )
    kernel: Literal["image", "host"] = Field("image", description="kernel of the guest: the image's or the host's")

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules the guest needs, without what those depend on."""
        return ("xen_blkfront", "xen_netfront")

    @property
    def root_device(self) -> str:
        """The disk as the guest's kernel calls it."""
        return "/dev/xvda"


VARIANTS: Mapping[str, Mapping[str, Any]] = {"xen-pv": {"type": "pv"}, "xen-pvh": {}}
