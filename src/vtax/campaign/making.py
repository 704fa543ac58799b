"""Makes the directory of a campaign from a pack, which appears whole or not at all."""

from __future__ import annotations

import re
import secrets
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtax.campaign.directory import FILE, PACK, STUDY, Campaign
from vtax.campaign.inventory import read_inventory
from vtax.campaign.prepare import Manifest, Refused, read_manifest, verify
from vtax.campaign.settings import Launch, Settings, Wanted
from vtax.errors import BadInput
from vtax.host.removal import remove_tree
from vtax.study.load import LoadedStudy, load_smaller

CANARY_SCALE = "quick"
_STUDY_CHARS = 15  # of a study's name, in that of its campaign


def check_study(loaded_study: LoadedStudy, request: Wanted) -> None:
    """Raise BadInput for a study that several hosts cannot measure together.

    That is one with sessions of its own, other than those of boots; one whose stopping rule would have every host
    decide for itself when it has enough; one in sequential order, but for one session of one host; and one with boots
    where the user did not consent to reboots.
    """
    study, source = loaded_study.study, loaded_study.source
    if study.design.sessions != 1 and not study.boot:
        hint = "remove it: --sessions says how many each host has"
        raise BadInput(
            "the study has sessions of its own", where=f"{source}: design.sessions", hint=hint
        )
    stands_alone = study.design.order == "sequential"
    if not study.design.rule_class.takes_more or (stands_alone and _has_several_runs(request)):
        raise BadInput(
            "runs of this study cannot be combined",
            where=f"{source}: design",
            hint="--blocks N; or in the study stop = 'fixed', 'open' or 'budget', and a randomized order",
        )
    if study.boot and request.inventory and not request.reboot:
        boots = ", ".join(boot.name for boot in study.boot)
        raise BadInput(
            f"hosts are rebooted into {boots}",
            where=f"{source}: boot",
            hint="--reboot consents to it",
        )


def _has_several_runs(request: Wanted) -> bool:
    """Return whether a campaign has runs that its report would combine. Raises BadInput for its inventory."""
    return request.sessions > 1 or (
        request.inventory != "" and len(read_inventory(Path(request.inventory))) > 1
    )


def campaign_name(study: str) -> str:
    """Return a new name for a campaign of a study. It is unique, since hosts keep runs by it."""
    stem = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")[:_STUDY_CHARS].rstrip("-")
    return f"{stem or 'study'}-{secrets.token_hex(2)}"


def is_pack(path: Path) -> bool:
    """Return whether a file is a zip file, as a pack is and no study."""
    return path.is_file() and zipfile.is_zipfile(path)


def study_called(source: Path) -> str:
    """Return the name of the file of a study, or of the study in a pack, without its ending."""
    if not is_pack(source):
        return source.name.partition(".")[0]
    try:
        with zipfile.ZipFile(source) as archive:
            return Path(read_manifest(archive)[0].study).stem
    except (Refused, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError):
        return ""  # `fill` says what is wrong with it


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a directory that becomes the target when the block ends. Raises BadInput where that exists."""
    if target.exists():
        raise BadInput(f"{target} is there already", hint="choose another place with -o")
    try:
        directory = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
    except OSError as error:
        raise BadInput(
            f"{target} cannot be made: {error.strerror}", hint="choose another place with -o"
        ) from error
    try:
        yield directory
        directory.chmod(0o755)
        directory.rename(target)
    except BaseException:
        remove_tree(directory)
        raise


def fill(directory: Path, name: str, request: Wanted) -> Settings:
    """Write the study and the settings of a campaign beside its pack. Raises BadInput."""
    manifest, digest = _unpack(directory / PACK, directory)
    study = Path(manifest.study)
    loaded_study = load_smaller(str(directory / study), request.scale, request.blocks)
    check_study(loaded_study, request)
    scales = loaded_study.study.scale
    canary = CANARY_SCALE if CANARY_SCALE in scales and request.scale != CANARY_SCALE else ""
    settings = Settings(
        **dict(request),
        name=name,
        study=str(study.relative_to(STUDY)),
        study_name=loaded_study.study.name,
        pack_digest=digest,
        image_key=manifest.image_key,
        image_digest=manifest.image_digest,
        vtax_version=manifest.vtax_version,
        created_at=float(int(time.time())),
        launch=Launch(canary_scale=canary),
    )
    settings.write(directory / FILE)
    return settings


def _unpack(pack: Path, directory: Path) -> tuple[Manifest, str]:
    """Write the study of a pack to a directory; return (the manifest, the digest of the pack). Raises BadInput."""
    try:
        with zipfile.ZipFile(pack) as archive:
            manifest, digest = read_manifest(archive)
            verify(archive, manifest)
            for name in manifest.files:
                if name.startswith(f"{STUDY}/"):
                    archive.extract(name, directory)
    except Refused as error:
        raise BadInput(error.what, hint=error.hint) from error
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"the pack is damaged: {error}", hint="write it again: vtax pack") from error
    return manifest, digest


def open_campaign(directory: Path) -> Campaign:
    """Open a campaign. Raises BadInput where its pack or its study is missing."""
    campaign = Campaign.open(directory)
    for path in (campaign.pack, campaign.study):
        if not path.is_file():
            raise BadInput(
                f"{path.name} of the campaign is missing", where=str(path), hint="vtax campaign new"
            )
    return campaign
