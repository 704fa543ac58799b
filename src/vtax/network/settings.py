"""Settings of a link of the lab: those that every topology has.

A topology with settings of its own derives a class from `LinkSettings` in its own module. A study's values become an
instance once, when the plan is made; from there to the interface they travel as that instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from vtax.errors import BadInput
from vtax.study.refusals import validated

_CONGESTION = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_IPV6 = Path("/proc/sys/net/ipv6")
IPV6_MIN_MTU = 1280
"""RFC 8200, section 5: below it the kernel takes IPv6 off the interface."""
MAX_MBIT_S = 400_000.0
"""The fastest rate that tc-tbf(8) limits to: it counts the bytes that wait, a twentieth of a second's, in 32 bits."""

CHANGE_LIVE = (
    "mtu",
    "offloads",
    "rate_mbit_s",
    "delay_us",
    "jitter_us",
    "loss",
    "congestion",
    "packet_bytes",
)
"""Settings that change while guests live. Every other one, a topology's own too, needs a fresh guest."""
Attachment = Literal["bridge", "veth", "macvtap", "nat", "own-nat"]


Elsewhere = Annotated[
    str,
    Field(
        description="another machine for this end: ssh:HOST/NIC:NIC_THERE, or a [[platform]] with uplinks"
    ),
]
"""The setting of a topology that is named after a native end; empty for this host."""


class LinkSettings(BaseModel):
    """Settings of every link, in every topology."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    ABSENT: ClassVar[tuple[str, ...]] = ("delay_us", "jitter_us", "loss", "packet_bytes")
    """Settings that are no part of what defines a cell while they have no value: it stays as small as it is."""

    mtu: int = Field(
        1500, ge=68, le=65535, description="bytes of the largest IP packet, set on every hop"
    )
    offloads: bool = Field(
        True, description="checksum and segmentation offloads, on or off at every hop"
    )
    attachment: Attachment = Field(
        "bridge", description="how a guest's interface is joined to the lab"
    )
    queues: int = Field(1, ge=1, le=16, description="queues of every guest's interface")
    rate_mbit_s: float | None = Field(
        None, ge=0.1, le=MAX_MBIT_S, description="limit of the link in each direction, Mbit/s"
    )
    delay_us: float = Field(
        0, ge=0, le=60e6, description="delay of the link in each direction, microseconds"
    )
    jitter_us: float = Field(
        0, ge=0, le=60e6, description="by how much that delay varies around itself"
    )
    loss: float = Field(
        0, ge=0, le=100, description="share of the packets that the link loses, percent"
    )
    packet_bytes: int | None = Field(
        None,
        ge=68,
        le=65535,
        description="size of the IP packets that figures are about, headers included; a trial of others says so",
    )
    congestion: str = Field(
        "cubic", description="TCP congestion control of every end, of this host's kernel"
    )

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.jitter_us > self.delay_us:
            raise ValueError(
                f"jitter_us {self.jitter_us:g} is more than delay_us {self.delay_us:g}"
            )
        if self.packet_bytes is not None and self.packet_bytes > self.mtu:
            raise ValueError(
                f"an mtu of {self.mtu} carries no packet of packet_bytes {self.packet_bytes}"
            )
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from a study's values. Raises RefusedStudy: which setting, its value, what it may be."""
        return validated(cls, values, "link setting", "vtax topologies explains them")

    @model_serializer(mode="wrap")
    def _without_absent(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value or key not in self.ABSENT}

    def structure(self) -> tuple[tuple[str, Any], ...]:
        """Return the settings that cannot change while guests live; where they are equal no restart is needed."""
        return tuple((name, value) for name, value in self if name not in CHANGE_LIVE)

    @property
    def carries_ipv6(self) -> bool:
        """Whether the kernel keeps IPv6 on links of this MTU, and this host has IPv6 at all."""
        return self.mtu >= IPV6_MIN_MTU and _IPV6.exists()


def check_congestion(settings: LinkSettings) -> None:
    """Raise BadInput for a congestion control that this host's kernel does not have: native ends must have it."""
    controls = _CONGESTION.read_text().split() if _CONGESTION.exists() else [settings.congestion]
    if settings.congestion not in controls:
        raise BadInput(
            f"link setting congestion: this host's kernel has no {settings.congestion!r}",
            hint=f"it has {', '.join(sorted(controls))}; modprobe tcp_NAME loads another if there is one",
        )
