"""Checks bundles that came back, and adds the run of each to the store, once.

A bundle is loaded into a store that knows a run by its identity, and only then is it written down as collected; so a
controller that is killed between the two loads nothing twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from vtax import __version__
from vtax.campaign.directory import STUDY, Campaign
from vtax.campaign.host_record import MAX_DETAIL, NONE, CampaignHost, Code, HostSession, Reason
from vtax.campaign.prepare import Refused, read_manifest
from vtax.errors import BadInput, StoreError
from vtax.foreign_text import one_line
from vtax.host.digest import sha256_of_file
from vtax.host.foreign_file import copy_foreign
from vtax.store.bundle import A_BUNDLE, Bundle
from vtax.store.bundle_lines import MAX_BYTES
from vtax.store.campaigns import CampaignSession, add_session, has_measured, measured_sessions
from vtax.store.hosts import IMAGE_DIGEST, host_id
from vtax.store.importing import import_bundle
from vtax.store.run import RunHandle
from vtax.store.store import Store
from vtax.study.load import load_smaller
from vtax.study.programs import with_names_of_files

NOTHING_MEASURED = Reason("run-failed", "its run has not ended, or every trial of it failed")
_MAY_COME: tuple[Code, ...] = ("damaged-bundle", "not-stored")


class ForeignBundle(BadInput):
    """A bundle that does not belong to this campaign. code: kind of reason."""

    def __init__(self, code: Code, what: str, hint: str = "") -> None:
        super().__init__(what, hint=hint)
        self.code: Code = code


@dataclass(frozen=True)
class Added:
    """A run that was added to the store.

    run: its name there.
    host: facts of the host that measured it.
    has_measured: it is finished, and not every trial of it failed.
    """

    run: str
    identity: str
    host: Mapping[str, Any]
    tags: tuple[str, ...]
    started_at: float
    has_measured: bool


class Loader:
    """Adds bundles of a campaign to a store. machine_id: of this machine.

    Raises BadInput where every bundle would be another's: for another version of vtax, or a study that was edited.
    """

    def __init__(self, campaign: Campaign, store: Store, machine_id: str) -> None:
        _refuse_changed(campaign)
        self._campaign, self._store, self._machine_id = campaign, store, machine_id
        settings = campaign.settings
        self._declared = _comparable(
            load_smaller(str(campaign.study), settings.scale, settings.blocks).study.declared()
        )

    def load(self, host: CampaignHost, session: HostSession, arrived: Path) -> CampaignHost:
        """Return a host with a session that is collected, or with the reason why it is not. arrived: its bundle."""
        target = self._campaign.bundle(host.name, session.id)
        try:
            if not arrived.is_file():
                raise ForeignBundle("damaged-bundle", "the bundle did not arrive")
            if copy_foreign(arrived, A_BUNDLE, MAX_BYTES, None) != session.bundle_sha256:
                raise ForeignBundle(
                    "damaged-bundle",
                    "the bundle is another one than its host named; it is brought again",
                )
            name = run_name(self._campaign.settings.study_name, host.name, session.number)
            added_run = self.add(arrived, lambda run: _check_host(run, host), name)
            self.note(host.name, session.number, added_run.identity)
        except (BadInput, StoreError) as error:
            code = _code(error)
            return _not_collected(host, session, Reason(code, one_line(error.what, MAX_DETAIL)))
        target.parent.mkdir(parents=True, exist_ok=True)
        arrived.replace(target)
        loaded_session = replace(
            session,
            bundle=str(target.relative_to(self._campaign.root)),
            run=added_run.run,
            run_identity=added_run.identity,
        )
        if added_run.has_measured:
            loaded_session = replace(loaded_session, state="collected", reason=NONE)
        elif session.state == "done":
            loaded_session = replace(loaded_session, state="failed", reason=NOTHING_MEASURED)
        elif session.reason.code in _MAY_COME:
            loaded_session = replace(loaded_session, reason=NONE)
        return host.with_session(loaded_session)

    def add(self, path: Path, check: Callable[[RunHandle], None], name: str = "") -> Added:
        """Add the run of a bundle to the store.

        check: raises BadInput for a run that is not wanted.
        name: of the run in the store; empty for that in the bundle.

        Raises BadInput too for a bundle that is damaged, or of another campaign.
        """
        accepted: list[RunHandle] = []

        def accept(run: RunHandle) -> None:
            self._check(run)
            check(run)
            accepted.append(run)

        bundle = Bundle(path, follows_links=False)
        imported = import_bundle(
            self._store.engine, bundle, self._machine_id, accept=accept, name=name
        )
        (run,) = accepted
        return Added(
            imported.name,
            run.identity,
            run.host,
            run.annotations.tags,
            run.started_at,
            has_measured(self._store.engine, run.identity),
        )

    def note(self, host: str, session: int, identity: str) -> None:
        """Have the store know which session of which host a run is.

        host: its name.
        session: its number.
        identity: of the run.
        """
        add_session(self._store.engine, self._campaign.settings.name, host, session, identity)

    def noted(self) -> list[CampaignSession]:
        """Return the measured sessions of the campaign that the store knows."""
        return measured_sessions(self._store.engine, self._campaign.settings.name)

    def _check(self, run: RunHandle) -> None:
        settings = self._campaign.settings
        if run.study != settings.study_name:
            raise ForeignBundle(
                "other-study", f"the bundle is of the study {run.study}, not {settings.study_name}"
            )
        if run.vtax_version != settings.vtax_version:
            raise ForeignBundle(
                "version", f"vtax {run.vtax_version} measured it, not {settings.vtax_version}"
            )
        if _comparable(run.declared) != self._declared:
            raise ForeignBundle(
                "other-study", f"the bundle is of other settings of the study {run.study}"
            )
        digest = str(run.session.host.get(IMAGE_DIGEST, ""))
        if run.image_key != settings.image_key or digest != settings.image_digest:
            raise ForeignBundle("digest", "the bundle is of an image of other files")


def run_name(study: str, host: str, session: int) -> str:
    """Return how a session of a host is called in the store: `tour-rack1-node03-2`."""
    own_name = re.sub(r"[^A-Za-z0-9]+", "-", host.partition(".")[0] if host[0].isalpha() else host)
    return f"{study[:20]}-{own_name.strip('-')[:32]}-{session}"


def _refuse_changed(campaign: Campaign) -> None:
    made_by, where = campaign.settings.vtax_version, str(campaign.root)
    if made_by != __version__:
        raise BadInput(
            f"vtax {made_by} made this campaign, and this is {__version__}",
            where=where,
            hint="use the version that made it",
        )
    try:
        with ZipFile(campaign.pack) as archive:
            files = read_manifest(archive)[0].files
        for name, (_, digest) in files.items():
            if not name.startswith(f"{STUDY}/"):
                continue
            file = campaign.root / name
            if not file.is_file() or sha256_of_file(file) != digest:
                raise BadInput(
                    "the study of the campaign was changed: its pack has another",
                    where=str(file),
                    hint="put it back as it was; another study is another campaign",
                )
    except (Refused, BadZipFile, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"the pack is damaged: {error}", where=str(campaign.pack)) from error


def _code(error: BadInput | StoreError) -> Code:
    if isinstance(error, ForeignBundle):
        return error.code
    return "not-stored" if isinstance(error, StoreError) else "damaged-bundle"


def _check_host(run: RunHandle, host: CampaignHost) -> None:
    """Raise ForeignBundle for a run of another host."""
    identity = host_id(run.host)
    if host.identity and host.identity != identity:
        raise ForeignBundle("other-host", f"the bundle is of the host {identity}")


def _not_collected(host: CampaignHost, session: HostSession, reason: Reason) -> CampaignHost:
    """Return a host whose session failed for a reason, or stays as it is where its bundle may come again."""
    if reason.code == "damaged-bundle":
        return host.with_session(session.without_bundle(reason))
    state = session.state if reason.code in _MAY_COME else "failed"
    return host.with_session(replace(session, state=state, reason=reason))


def _comparable(declared: Mapping[str, Any]) -> Any:
    """Return what a study declares in the form of a bundle, which does not depend on where the pack is on a host."""
    return with_names_of_files(json.loads(json.dumps(declared)))
