"""Options of a Xen domain, which choices go together, and the platforms that ship."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from vtax.platforms.options import DriverOptions
from vtax.study.declared import Example


class XenOptions(DriverOptions):
    """Options of the driver `xen`."""

    type: Literal["pv", "pvh", "hvm"] = Field(
        "pvh", description="type of the domain (xl.cfg: type)"
    )
    devices: Literal["pv", "emulated"] = Field(
        "pv",
        description="paravirtual disk and interfaces, or the emulated ones of a domain of type hvm",
    )
    nic: Literal["e1000", "rtl8139"] = Field(
        "e1000", description="NIC model of emulated interfaces"
    )
    tsc_mode: Literal["auto", "default", "always_emulate", "native", "native_paravirt"] = Field(
        "auto",
        description="time stamp counter (xl.cfg: tsc_mode); auto: default, native on emulated CPUs",
    )
    cpupool: Annotated[str, Example("Pool-node0")] = Field(
        "",
        pattern=r"^[A-Za-z0-9_.-]*$",
        description="CPU pool of the domain (xl.cfg: pool), on whose CPUs it runs; empty: Xen's default pool, on the "
        "study's CPUs",
    )
    kernel: Literal["image", "host"] = Field(
        "image", description="kernel of the guest: the image's or the host's"
    )

    @model_validator(mode="after")
    def _choices_go_together(self) -> Self:
        if self.devices == "emulated" and self.type != "hvm":
            raise ValueError(
                f"type {self.type} has no emulated devices; use type hvm, or devices pv"
            )
        if self.type == "hvm" and self.kernel == "host":
            raise ValueError("type hvm boots the image's kernel; kernel host needs type pv or pvh")
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules the guest needs, without what those depend on."""
        if self.devices == "pv":
            return ("xen_blkfront", "xen_netfront")
        return ("ahci", "sd_mod", {"e1000": "e1000", "rtl8139": "8139cp"}[self.nic])

    @property
    def root_device(self) -> str:
        """The disk as the guest's kernel calls it."""
        return "/dev/xvda" if self.devices == "pv" else "/dev/sda"


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "xen-pv": {"type": "pv"},
    "xen-pvh": {},
    "xen-hvm": {"type": "hvm", "devices": "emulated"},
    "xen-hvm-pv": {"type": "hvm"},
}
"""`xen-hvm` is a domain with emulated devices alone, as the papers measured it; `xen-hvm-pv` has PV drivers."""
