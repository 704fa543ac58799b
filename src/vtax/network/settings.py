"""What a link of the lab is asked to be: the settings a study may fix or vary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vtax.errors import BadInput

_IPV6 = Path("/proc/sys/net/ipv6")
IPV6_MINIMUM_MTU = 1280
"""RFC 8200, section 5: below it the kernel takes IPv6 off the interface."""

Attachment = Literal["bridge", "veth", "macvtap", "nat"]


class LinkSettings(BaseModel):
    """Settings of every link in a topology."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mtu: int = Field(1500, ge=68, le=65535, description="bytes of the largest IP packet, set on every hop")
    offloads: bool = Field(True, description="checksum and segmentation offloads, on or off at every hop")
    attachment: Attachment = Field("bridge", description="how a guest's card is joined to the lab")
    queues: int = Field(1, ge=1, le=16, description="queues of every guest's card")
    rate_mbit_s: float | None = Field(None, ge=0.1, description="limit of the link in each direction, Mbit/s")
    congestion: str = Field("cubic", description="TCP congestion control of every end")
    cards: int = Field(1, ge=1, le=8, description="cards of each guest, topology multi-nic")
    pairs: int = Field(1, ge=1, le=16, description="pairs of guests, topology vlan-pairs")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a study's values. Raises BadInput that names the setting."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(map(str, first["loc"])) or "link"
            known = ", ".join(cls.model_fields)
            raise BadInput(
                f"link setting {name}: {first['msg']} (it is {first['input']!r})", cure=f"link settings: {known}"
            ) from error

    def structure(self) -> tuple[object, ...]:
        """What cannot change while guests live; two settings with equal structure need no restart between them."""
        return (self.attachment, self.queues, self.cards, self.pairs)

    @property
    def carries_ipv6(self) -> bool:
        """Whether the kernel keeps IPv6 on links of this MTU, and this host has IPv6 at all."""
        return self.mtu >= IPV6_MINIMUM_MTU and _IPV6.exists()
