"""What `vtax host remove` removes of a campaign, and what stays."""

from __future__ import annotations

import json

import pytest
from command_line import output_of
from support import needs_root

from vtax.campaign.host_removal import remove_pack
from vtax.errors import BadInput, Busy
from vtax.host.consents import Consent, recorded_consents
from vtax.host.consents import record_consent as record
from vtax.host.home import Home
from vtax.host.lock import measuring_lock

PACK, OTHER = "ab" * 6, "cd" * 6


def installed(home: Home, pack: str) -> None:
    """A pack of which a program is larger than a block of the disk, and consent to its study."""
    place = home.root / "packs" / pack
    (place / "study").mkdir(parents=True)
    (place / "study/mine.toml").write_bytes(bytes(50_000))
    record(home, Consent(pack, str(place / "study/mine.toml"), (("native", "option", pack),)))


@needs_root  # consents of another user are refused
def test_a_pack_goes_with_the_consents_to_its_study(private_home):
    installed(private_home, PACK)
    installed(private_home, OTHER)
    kept = json.loads(output_of("host", "check", "--json"))["kept"]
    images = [what for what in kept if what.startswith("image ")]
    assert kept == [f"pack {PACK}", f"pack {OTHER}", *images, "2 consents"]
    removal = json.loads(output_of("host", "remove", PACK, "0123456789ab", "--json"))
    assert removal["removed"] == ["1 consent", f"pack {PACK}"]
    assert removal["kept"] == [f"pack {OTHER}", *images, "1 consent"]
    assert removal["freed_bytes"] >= 50_000
    assert [path.name for path in (private_home.root / "packs").iterdir()] == [OTHER]
    assert [consent.digest for consent in recorded_consents(private_home)] == [OTHER]
    assert remove_pack(private_home, PACK, "0123456789ab").removed == ()


@pytest.mark.parametrize("name", ["..", "", "a/b", "AB" * 6, "ab" * 7])
def test_no_other_directory_is_removed(private_home, taken_for_root, name):
    installed(private_home, PACK)
    with pytest.raises(BadInput, match="names no pack"):
        remove_pack(private_home, name, "0123456789ab")


def test_nothing_is_removed_while_a_run_measures(private_home, taken_for_root):
    installed(private_home, PACK)
    with measuring_lock("tour-3"), pytest.raises(Busy):
        remove_pack(private_home, PACK, "0123456789ab")
    assert (private_home.root / "packs" / PACK).is_dir()
