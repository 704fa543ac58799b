"""From an attachment's name to the segment that makes it."""

from __future__ import annotations

from vtax.network.macvlan import MacvlanSegment
from vtax.network.namespace import Namespace
from vtax.network.segment import BridgeSegment, Segment, VethSegment
from vtax.network.settings import LinkSettings


def segment(namespace: Namespace, number: int, settings: LinkSettings) -> Segment:
    """Return the network of this number in a namespace of the lab, as its attachment says; see also `translation`."""
    if settings.attachment == "veth":
        return VethSegment(namespace)
    if settings.attachment == "macvtap":
        return MacvlanSegment(namespace)
    return BridgeSegment(namespace, f"br{number}", settings.mtu)
