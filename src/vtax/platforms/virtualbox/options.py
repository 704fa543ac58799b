"""Options of a VirtualBox machine, which choices go together, and the platforms that ship."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vtax.platforms.options import DriverOptions

_DISK_MODULES = {"sata": ("ahci", "sd_mod"), "ide": ("ata_piix", "sd_mod")}
_NIC_MODULES = {
    "82540EM": ("e1000",),
    "virtio": ("virtio_pci", "virtio_net"),
    "Am79C973": ("pcnet32",),
}


class VirtualBoxOptions(DriverOptions):
    """Options of the driver `virtualbox`; values as VBoxManage calls them."""

    nic: Literal["82540EM", "virtio", "Am79C973"] = Field(
        "82540EM",
        description="NIC model (modifyvm --nic-type): Intel PRO/1000, virtio-net, PCnet-FAST III",
    )
    disk: Literal["sata", "ide"] = Field(
        "sata", description="controller of the disk: AHCI, or PIIX4"
    )
    chipset: Literal["piix3", "ich9"] = Field("piix3", description="chipset (modifyvm --chipset)")
    paravirt_provider: Literal["default", "none", "legacy", "minimal", "hyperv", "kvm"] = Field(
        "default",
        description="interface for paravirtualized clocks and hypercalls (modifyvm --paravirt-provider)",
    )
    nested_paging: bool = Field(
        True, description="second-level address translation by the processor (EPT, NPT)"
    )
    large_pages: bool = Field(
        True, description="guest memory in pages of 2 MiB; needs nested_paging"
    )
    kernel: Literal["image", "host"] = Field(
        "image", description="kernel of the guest: the image's or the host's"
    )

    @model_validator(mode="after")
    def _choices_go_together(self) -> Self:
        if self.nic == "Am79C973" and self.kernel == "image":
            raise ValueError("the image's initrd has no driver of nic Am79C973; use kernel host")
        if self.large_pages and not self.nested_paging:
            raise ValueError("large_pages needs nested_paging; turn both off")
        return self

    @property
    def modules(self) -> tuple[str, ...]:
        """Kernel modules the guest needs, without what those depend on."""
        return (*_DISK_MODULES[self.disk], *_NIC_MODULES[self.nic])

    @property
    def root_device(self) -> str:
        """The disk as the guest's kernel calls it."""
        return "/dev/sda"

    @property
    def max_interfaces(self) -> int:
        """How many interfaces a machine of the chipset has at most."""
        return {"piix3": 8, "ich9": 36}[self.chipset]


VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "virtualbox": {},
    "virtualbox-virtio": {"nic": "virtio"},
    "virtualbox-pcnet": {"nic": "Am79C973", "kernel": "host"},
}
