"""Whether Xen runs below the host's kernel, and whether that is its first domain."""

from __future__ import annotations

from pathlib import Path

_FEATURE_DOM0 = 11  # XENFEAT_dom0 of xen/include/public/features.h


def is_xen(root: Path = Path("/")) -> bool:
    """Return whether Xen runs below this kernel."""
    try:
        return (root / "sys/hypervisor/type").read_text().strip() == "xen"
    except OSError:
        return False


def is_dom0(root: Path = Path("/")) -> bool:
    """Return whether Xen runs below this kernel, as its first domain."""
    try:
        features = (root / "sys/hypervisor/properties/features").read_text().strip()
        return is_xen(root) and bool(int(features, 16) >> _FEATURE_DOM0 & 1)
    except (OSError, ValueError):
        return False
