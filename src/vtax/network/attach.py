"""From an attachment's name to the segment that makes it."""

from __future__ import annotations

from vtax.network.macvlan import MacvlanSegment
from vtax.network.namespace import Namespace
from vtax.network.segment import BridgeSegment, Segment, VethSegment
from vtax.network.settings import LinkSettings


def segment(namespace: Namespace, number: int, settings: LinkSettings) -> Segment:
    """Return a new network of the lab, of the kind that the attachment of the settings names.

    namespace: of the lab.
    number: of the network in its topology.
    settings: of its links. The attachments of address translation are made by `translation` instead.
    """
    if settings.attachment == "veth":
        return VethSegment(namespace)
    if settings.attachment == "macvtap":
        return MacvlanSegment(namespace)
    return BridgeSegment(namespace, f"br{number}", settings.mtu)
