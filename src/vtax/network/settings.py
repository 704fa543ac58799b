"""What a link of the lab is asked to be: the settings a study may fix or vary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from vtax.errors import BadInput
from vtax.study.keys import refusal

_CONGESTION = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_IPV6 = Path("/proc/sys/net/ipv6")
IPV6_MINIMUM_MTU = 1280
"""RFC 8200, section 5: below it the kernel takes IPv6 off the interface."""
FASTEST_MBIT_S = 400_000.0
"""What tc-tbf(8) can limit to: it counts the bytes that wait, a twentieth of a second's, in 32 bits."""

_NIC = r"^[^\s/]{0,15}$"  # names that Linux allows
STRUCTURE = ("attachment", "queues", "cards", "pairs", "peer", "nic", "peer_nic")
"""Settings that need fresh guests."""
_PEER = ("peer", "nic", "peer_nic")
Attachment = Literal["bridge", "veth", "macvtap", "nat"]


class LinkSettings(BaseModel):
    """Settings of every link in a topology."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mtu: int = Field(1500, ge=68, le=65535, description="bytes of the largest IP packet, set on every hop")
    offloads: bool = Field(True, description="checksum and segmentation offloads, on or off at every hop")
    attachment: Attachment = Field("bridge", description="how a guest's card is joined to the lab")
    queues: int = Field(1, ge=1, le=16, description="queues of every guest's card")
    rate_mbit_s: float | None = Field(
        None, ge=0.1, le=FASTEST_MBIT_S, description="limit of the link in each direction, Mbit/s"
    )
    congestion: str = Field("cubic", description="TCP congestion control of every end, of this host's kernel")
    cards: int = Field(1, ge=1, le=8, description="cards of each guest, topology multi-nic")
    pairs: int = Field(1, ge=1, le=16, description="pairs of guests, topology vlan-pairs")
    peer: str = Field(
        "", description="another machine for the other end, ssh:HOST or a [[platform]] of driver ssh; point-to-point"
    )
    nic: str = Field("", pattern=_NIC, description="with peer: the network card of this host that leads to it")
    peer_nic: str = Field("", pattern=_NIC, description="with peer: the network card of that machine")

    @model_validator(mode="after")
    def _a_peer_has_two_cards(self) -> Self:
        if self.peer and not (self.nic and self.peer_nic):
            raise ValueError("with peer, both nic and peer_nic name the network cards that join the two machines")
        if not self.peer and (self.nic or self.peer_nic):
            raise ValueError("nic and peer_nic belong to peer, which is not set")
        return self

    @model_serializer(mode="wrap")
    def _without_absent_peer(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Links within the lab look as if there were no machines: what defines a cell stays as small as it is."""
        return {key: value for key, value in dump(self).items() if value != "" or key not in _PEER}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a study's values. Raises BadInput: which setting, what it is, what it may be."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise BadInput(refusal(cls, error, "link setting")[1], cure="vtax topologies explains them") from error

    def structure(self) -> tuple[object, ...]:
        """What cannot change while guests live; two settings with equal structure need no restart between them."""
        return tuple(getattr(self, name) for name in STRUCTURE)

    @property
    def carries_ipv6(self) -> bool:
        """Whether the kernel keeps IPv6 on links of this MTU, and this host has IPv6 at all."""
        return self.mtu >= IPV6_MINIMUM_MTU and _IPV6.exists()


def check_congestion(settings: LinkSettings) -> None:
    """Raise BadInput for a congestion control that this host's kernel does not have: native ends must have it."""
    known = _CONGESTION.read_text().split() if _CONGESTION.exists() else [settings.congestion]
    if settings.congestion not in known:
        raise BadInput(
            f"link setting congestion: this host's kernel has no {settings.congestion!r}",
            cure=f"it has {', '.join(sorted(known))}; modprobe tcp_NAME loads another if there is one",
        )
