"""Only a guest with its own kernel gets huge pages inside: a shared kernel is that of the host, which is restored."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from vtax.guest.guest import Guest
from vtax.runner import tuning


class Inside:
    """Runs commands of a guest as processes of this host, with another boot id where set."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id

    def run(self, argv: Sequence[str], **limits: Any) -> None:
        own = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        subprocess.run([word.replace(own, self._boot_id or own) for word in argv], check=False)


@pytest.mark.parametrize(
    ("boot_id", "level", "policy"),
    [
        ("", "pinned+hugepages", "madvise"),
        ("of-another-kernel", "pinned+hugepages", "always"),
        ("of-another-kernel", "pinned", "madvise"),
        ("of-another-kernel", "", "madvise"),
    ],
)
def test_the_policy_of_a_guests_own_kernel_is_set_at_its_level(
    tmp_path, monkeypatch, boot_id, level, policy
):
    enabled = tmp_path / "enabled"
    enabled.write_text("madvise")
    monkeypatch.setattr(tuning, "_POLICY", enabled)
    tuning.apply_inside(level, cast(Guest, Inside(boot_id)))
    assert enabled.read_text().strip() == policy
