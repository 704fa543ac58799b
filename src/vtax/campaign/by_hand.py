"""A campaign without an engine: a directory that any scheduler can start on a host, and bundles that come back."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtax.campaign.answers import settled
from vtax.campaign.collecting import NOTHING_MEASURED, Added, Loader
from vtax.campaign.directory import PACK, Campaign
from vtax.campaign.host_record import MAX_DETAIL, NONE, CampaignHost, HostSession
from vtax.campaign.host_runs import BUNDLE, DIRECTORY, TAG
from vtax.campaign.making import new_directory
from vtax.campaign.prepare import HOME, PROGRAM, SHORT
from vtax.campaign.settings import MAX_SESSIONS
from vtax.errors import BadInput, StoreError
from vtax.foreign_text import one_line
from vtax.host.foreign_file import copy_foreign
from vtax.host.walking import walk
from vtax.store.bundle import A_BUNDLE
from vtax.store.bundle_lines import MAX_BYTES
from vtax.store.hosts import host_id
from vtax.store.run import RunHandle

SCRIPT = "run-here.sh"
_NAME = re.compile(r"[\w.-]{1,60}", re.ASCII)
_README = """Files of the campaign {name}, to measure {study} on a host without a controller.

    sudo {script} [SESSION]        on each host, from this directory; SESSION is 1 to {last}, 1 if not given

It prepares the host from {pack}, measures until the end, and puts the bundle into bundles/. Called again, it resumes,
or puts the bundle there again. VTAX_HOME moves what it keeps on the host ({home}), VTAX_PYTHON names another python3
(3.11 to 3.13). Where the bundles came back:

    vtax campaign load CAMPAIGN bundles
"""
_RUN_HERE = """#!/bin/sh
# Measures a session of the campaign {name} on this host, and puts its bundle into bundles/ beside this file.
set -eu
session=${{1:-1}}
case $session in
    0* | *[!0-9]* | ????*) echo "$session is no session: it is 1 to {last}" >&2; exit {usage} ;;
esac
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
home=${{VTAX_HOME:-{home}}}
id={name}-s$session
"${{VTAX_PYTHON:-python3}}" "$here/{pack}" --home "$home" --digest {digest} >&2
place=$home/packs/{short}
export VTAX_HOME="$home"
identity=$("$place/{program}" host check --json |
    "${{VTAX_PYTHON:-python3}}" -c 'import json, sys; print(json.load(sys.stdin)["identity"])')
status=0
"$place/{program}" host run "$id" "$place/study/"{study} --foreground --json{options} || status=$?
if [ -f "$home/{runs}/$id/{bundle}" ]; then
    mkdir -p "$here/bundles"
    cp -- "$home/{runs}/$id/{bundle}" "$here/bundles/$(uname -n)-$identity-$id.vtax.gz"
fi
exit "$status"
"""


@dataclass(frozen=True)
class BundleOutcome:
    """Outcome of loading a bundle. host: its name in the campaign; empty where the bundle was not loaded, for `reason`."""

    file: str
    host: str = ""
    run: str = ""
    is_new: bool = False
    reason: str = ""


def write_directory(campaign: Campaign, target: Path) -> None:
    """Write the pack, the script that runs it and a README to a new directory. Raises BadInput where it exists."""
    settings = campaign.settings
    with new_directory(target) as directory:
        try:
            os.link(campaign.pack, directory / PACK)
        except OSError:
            shutil.copyfile(campaign.pack, directory / PACK)
        names = {"name": settings.name, "pack": PACK, "home": HOME, "last": MAX_SESSIONS}
        options = shlex.join(settings.run_options(settings.scale))
        script = directory / SCRIPT
        script.write_text(
            _RUN_HERE.format(
                **names,
                digest=settings.pack_digest,
                short=settings.pack_digest[:SHORT],
                program=PROGRAM,
                runs=DIRECTORY,
                bundle=BUNDLE,
                usage=os.EX_USAGE,
                study=shlex.quote(settings.study),
                options=f" {options}" if options else "",
            )
        )
        script.chmod(0o755)
        (directory / "README").write_text(
            _README.format(**names, study=settings.study_name, script=SCRIPT)
        )


def slurm_line(directory: Path) -> str:
    """Return the command by which Slurm starts the script once on each of HOSTS hosts, alone there."""
    script = shlex.quote(str(directory.absolute() / SCRIPT))
    return f"sbatch --nodes=HOSTS --ntasks-per-node=1 --exclusive --wrap={shlex.quote(f'srun sudo {script} 1')}"


def load_directory(campaign: Campaign, directory: Path, loader: Loader) -> Iterator[BundleOutcome]:
    """Add every bundle below a directory to the store, once; yield what became of each.

    Directories that cannot be read are passed over. Raises BadInput where `directory` is none, and StoreError once
    the store cannot be read any more.
    """
    if not directory.is_dir():
        raise BadInput(f"{directory} is no directory", hint="vtax campaign load DIR BUNDLES")
    hosts = _KnownHosts(campaign, loader)
    names = [name for name, _ in walk(directory, is_strict=False) if name.endswith(".vtax.gz")]
    for path in sorted(directory / name for name in names):
        try:
            digest = _copy_bundle(path)
            if digest in hosts.outcomes:
                yield replace(hosts.outcomes[digest], file=str(path))
                continue
            added_run = loader.add(path, _check)
        except OSError as error:
            yield BundleOutcome(str(path), reason=f"it cannot be read: {error.strerror}")
            continue
        except (BadInput, StoreError) as error:
            if isinstance(error, StoreError):
                loader.noted()  # of a store that is gone no other bundle need be tried
            yield BundleOutcome(str(path), reason=one_line(error.what, MAX_DETAIL))
            continue
        host = hosts.with_run(added_run, path, digest)
        for session in host.sessions:
            if session.run_identity == added_run.identity:
                loader.note(host.name, session.number, added_run.identity)
        is_new = added_run.identity not in hosts.loaded
        hosts.loaded.add(added_run.identity)
        yield BundleOutcome(str(path), host.name, added_run.run, is_new)


class _KnownHosts:
    """The hosts of a campaign while bundles are loaded: a host is known again by its runs and by its identity.

    loaded: identities of the runs that the store has. outcomes: SHA-256 of a bundle that the store has -> its outcome.
    """

    def __init__(self, campaign: Campaign, loader: Loader) -> None:
        self._campaign = campaign
        self._names: set[str] = set()
        self._by_identity: dict[str, CampaignHost] = {}
        self._by_run: dict[str, CampaignHost] = {}
        self.loaded: set[str] = set()
        self.outcomes: dict[str, BundleOutcome] = {}
        runs = {}
        for stored_session in loader.noted():
            self.loaded.add(stored_session.identity)
            runs[stored_session.host, stored_session.session] = stored_session.run
        for host in campaign.hosts():
            self._names.add(host.name)
            if host.identity:
                self._by_identity[host.identity] = host
            for session in host.sessions:
                if not session.run_identity:
                    continue
                self._by_run[session.run_identity] = host
                run = runs.get((host.name, session.number))
                if run is not None:
                    self.outcomes[session.bundle_sha256] = BundleOutcome("", host.name, run)

    def with_run(self, added_run: Added, path: Path, digest: str) -> CampaignHost:
        """Return the host of a run that was added, which is kept with it; a new host where none is known.

        added_run: the run.
        path: its bundle.
        digest: SHA-256 of the bundle.
        """
        if added_run.identity in self._by_run:
            return self._by_run[added_run.identity]
        known_host = self._by_identity.get(host_id(added_run.host))
        host = known_host or _new_host(path, added_run, self._names)
        host = _with_session(self._campaign, host, added_run, path, digest)
        self._campaign.keep(host)
        self._names.add(host.name)
        self._by_identity[host.identity] = self._by_run[added_run.identity] = host
        return host


def _copy_bundle(path: Path, target: Path | None = None) -> str:
    """Return the SHA-256 of a bundle, after it was copied to a target. Raises BadInput, OSError."""
    return copy_foreign(path, A_BUNDLE, MAX_BYTES, target, follows_links=False)


def _check(run: RunHandle) -> None:
    """Raise BadInput for a run that is not at its end, or does not say which host measured it."""
    if run.status != "finished":
        hint = "start run-here.sh there again"
        raise BadInput(f"the run of the bundle is not finished: {run.status}", hint=hint)
    if not host_id(run.host):
        raise BadInput("the bundle does not say which host measured it", hint="it is anonymized")


def _new_host(path: Path, added_run: Added, names: set[str]) -> CampaignHost:
    """Return a host named after the file of its bundle, and by its identity too where `names` has that already."""
    identity = host_id(added_run.host)
    name = _name_in_file(path, identity, added_run.tags)
    if not _NAME.fullmatch(name) or not name.strip("."):
        name = identity
    if name in names:
        name = f"{name}-{identity}"
    return CampaignHost(name, identity=identity, facts=dict(added_run.host))


def _name_in_file(path: Path, identity: str, tags: Sequence[str]) -> str:
    """Return the name of a host in that of its bundle, `NAME-IDENTITY-ID.vtax.gz`; empty for other names."""
    for tag in tags:
        suffix = f"-{tag.removeprefix(TAG)}.vtax.gz"
        if tag.startswith(TAG) and path.name.endswith(suffix):
            return path.name.removesuffix(suffix).removesuffix(f"-{identity}")
    return ""


def _session_number(campaign: str, tags: Sequence[str]) -> int:
    """Return the session that the tag of a run names in the id of its request; 1 where no tag does."""
    for tag in tags:
        match = re.fullmatch(rf"{re.escape(TAG + campaign)}-s([1-9][0-9]{{0,2}})(\.[0-9]+)?", tag)
        if match:
            return int(match[1])
    return 1


def _with_session(
    campaign: Campaign, host: CampaignHost, added_run: Added, path: Path, digest: str
) -> CampaignHost:
    """Return a host with one more collected session: the one that was requested, or the next without a run."""
    settings = campaign.settings
    number = _session_number(settings.name, added_run.tags)
    numbers_with_runs = {session.number for session in host.sessions if session.run}
    while number in numbers_with_runs:
        number += 1
    session = HostSession(
        number,
        settings.run_id(number),
        "collected" if added_run.has_measured else "failed",
        NONE if added_run.has_measured else NOTHING_MEASURED,
        attempts=1,
        started_at=added_run.started_at,
        run=added_run.run,
        run_identity=added_run.identity,
        bundle_sha256=digest,
    )
    target = campaign.bundle(host.name, session.id)
    target.parent.mkdir(parents=True, exist_ok=True)
    _copy_bundle(path, target)
    session = replace(session, bundle=str(target.relative_to(campaign.root)))
    return settled(host.with_session(session), settings, time.time())
