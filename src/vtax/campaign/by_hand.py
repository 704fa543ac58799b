"""A campaign without an engine: a directory that any scheduler can start on a host, and bundles that come back."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vtax.campaign.answers import settled
from vtax.campaign.collecting import Added, Loader
from vtax.campaign.directory import PACK, Campaign
from vtax.campaign.host_record import MAX_DETAIL, CampaignHost, HostSession
from vtax.campaign.host_runs import BUNDLE, DIRECTORY, TAG
from vtax.campaign.making import new_directory
from vtax.campaign.prepare import HOME, PROGRAM, SHORT
from vtax.campaign.settings import MAX_SESSIONS
from vtax.errors import BadInput, StoreError
from vtax.foreign_text import one_line
from vtax.host.foreign_file import copied
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
class Found:
    """A bundle that was looked at. host: its name in the campaign; empty where it was not loaded, for that reason."""

    file: str
    host: str = ""
    run: str = ""
    is_new: bool = False
    reason: str = ""


def write_directory(campaign: Campaign, target: Path) -> None:
    """Write the pack, the script and ten lines to a new directory. Raises BadInput where it exists."""
    settings = campaign.settings
    with new_directory(target) as made:
        try:
            os.link(campaign.pack, made / PACK)
        except OSError:
            shutil.copyfile(campaign.pack, made / PACK)
        names = {"name": settings.name, "pack": PACK, "home": HOME, "last": MAX_SESSIONS}
        options = "".join(f" {shlex.quote(each)}" for each in settings.run_options(settings.scale))
        script = made / SCRIPT
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
                options=options,
            )
        )
        script.chmod(0o755)
        (made / "README").write_text(
            _README.format(**names, study=settings.study_name, script=SCRIPT)
        )


def slurm_line(directory: Path, hosts: str = "HOSTS") -> str:
    """Return the command by which Slurm starts the script once on each of so many hosts, alone there."""
    script = shlex.quote(str(directory.absolute() / SCRIPT))
    return f"sbatch --nodes={hosts} --ntasks-per-node=1 --exclusive --wrap={shlex.quote(f'srun sudo {script} 1')}"


def load_directory(campaign: Campaign, directory: Path, loader: Loader) -> Iterator[Found]:
    """Add every bundle below a directory to the store, once; yield what became of each.

    Raises BadInput for no directory, and StoreError once the store cannot be read any more.
    """
    if not directory.is_dir():
        raise BadInput(f"{directory} is no directory", hint="vtax campaign load DIR BUNDLES")
    hosts = campaign.hosts()
    by_identity = {host.identity: host for host in hosts if host.identity}
    sessions = [(host, each) for host in hosts for each in host.sessions if each.run_identity]
    by_run = {each.run_identity: host for host, each in sessions}
    before = loader.noted()
    loaded = {each.identity for each in before}
    noted = {(each.host, each.session): each.run for each in before}
    by_content = {
        each.bundle_sha256: (host.name, noted[place])
        for host, each in sessions
        if (place := (host.name, each.number)) in noted
    }
    for path in sorted(_bundles_below(directory)):
        try:
            digest = _copied(path)
            if (known := by_content.get(digest)) is not None:
                yield Found(str(path), *known)
                continue
            added = loader.add(path, _check)
        except OSError as error:
            yield Found(str(path), reason=f"it cannot be read: {error.strerror}")
            continue
        except (BadInput, StoreError) as error:
            if isinstance(error, StoreError):
                loader.noted()  # of a store that is gone no other bundle need be tried
            yield Found(str(path), reason=one_line(error.what, MAX_DETAIL))
            continue
        if (host := by_run.get(added.identity)) is None:
            host = by_identity.get(host_id(added.host)) or _host(
                path, added, {each.name for each in hosts}
            )
            host = _with_run(campaign, host, added, path, digest)
            campaign.keep(host)
            hosts.append(host)
            by_identity[host.identity] = by_run[added.identity] = host
        for each in host.sessions:
            if each.run_identity == added.identity:
                loader.note(host.name, each.number, added.identity)
        yield Found(str(path), host.name, added.run, is_new=added.identity not in loaded)
        loaded.add(added.identity)


def _bundles_below(directory: Path) -> Iterator[Path]:
    """Yield what is called as a bundle, however deep it lies; links to directories lead nowhere."""
    waiting = [directory]
    while waiting:
        try:
            entries = [*os.scandir(waiting.pop())]
        except OSError:  # not to be read, or its path is too long: no bundle is loaded from there
            continue
        for entry in entries:
            if entry.name.endswith(".vtax.gz"):
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))


def _copied(path: Path, target: Path | None = None) -> str:
    """Return the SHA-256 of a bundle that was found, after it was copied to a target. Raises BadInput, OSError."""
    return copied(path, A_BUNDLE, MAX_BYTES, target, follows_links=False)


def _check(run: RunHandle) -> None:
    """Raise BadInput for a run that is not at its end, or does not say which host measured it."""
    if run.status != "finished":
        hint = "start run-here.sh there again"
        raise BadInput(f"the run of the bundle is not finished: {run.status}", hint=hint)
    if not host_id(run.host):
        raise BadInput("the bundle does not say which host measured it", hint="it is anonymized")


def _host(path: Path, added: Added, names: set[str]) -> CampaignHost:
    """Return a new host, called as the file of its bundle says; with its identity where another one is called so."""
    identity = host_id(added.host)
    ids = [tag.removeprefix(TAG) for tag in added.tags if tag.startswith(TAG)]
    stems = [
        path.name.removesuffix(f"-{id_}.vtax.gz")
        for id_ in ids
        if path.name.endswith(f"-{id_}.vtax.gz")
    ]
    stem = stems[0].removesuffix(f"-{identity}") if stems else ""
    name = stem if _NAME.fullmatch(stem) and stem.strip(".") else identity
    return CampaignHost(
        f"{name}-{identity}" if name in names else name, identity=identity, facts=dict(added.host)
    )


def _number(name: str, tag: str) -> int | None:
    """Return the session that a tag names as the id of a campaign's run does; None for any other tag."""
    found = re.fullmatch(rf"{re.escape(TAG + name)}-s([1-9][0-9]{{0,2}})(\.[0-9]+)?", tag)
    return int(found[1]) if found else None


def _with_run(
    campaign: Campaign, host: CampaignHost, added: Added, path: Path, digest: str
) -> CampaignHost:
    """Return a host with one more session that is collected, of the number that its run was requested by."""
    settings = campaign.settings
    number = next(filter(None, (_number(settings.name, tag) for tag in added.tags)), 1)
    while (there := host.session(number)) is not None and there.run:
        number += 1
    session = HostSession(
        number,
        settings.run_id(number),
        "collected",
        attempts=1,
        started_at=added.started_at,
        run=added.run,
        run_identity=added.identity,
        bundle_sha256=digest,
    )
    target = campaign.bundle(host.name, session.id)
    target.parent.mkdir(parents=True, exist_ok=True)
    _copied(path, target)
    session = replace(session, bundle=str(target.relative_to(campaign.root)))
    return settled(host.with_session(session), settings, time.time())
