"""Speaks to the hosts of a campaign: looks, prepares, launches, stops, and brings bundles. Called again, it resumes.

Before a host is asked to measure, that is written down; so a controller that is killed at any moment looks next time
what became of it. Which hosts are asked is computed here and passed to Ansible by `--limit`.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vtax.campaign import answers
from vtax.campaign.ansible import MAX_BUNDLE_BYTES, Answer, Playbook, check_version
from vtax.campaign.collecting import Loader
from vtax.campaign.directory import FILE, STUDY, Campaign
from vtax.campaign.host_record import ENDED, CampaignHost, HostSession, InventoryHost, Reason
from vtax.campaign.host_runs import BUNDLE, DIRECTORY
from vtax.campaign.inventory import read_inventory
from vtax.campaign.launching import Due, next_batch, too_many_failed
from vtax.campaign.prepare import MARK, PROGRAM, SHORT
from vtax.campaign.settings import is_open
from vtax.errors import BadInput

Progress = Callable[[str], None]


@contextmanager
def controller(
    campaign: Campaign, progress: Progress, *, aborts: bool = False
) -> Iterator[Controller]:
    """Yield the one controller of a campaign. progress: gets a line for what is done. aborts: nothing more is
    launched, by another one that controls it now either.

    Raises Busy while another one controls it, BadInput without Ansible, and for an inventory that cannot be read.
    """
    if not campaign.settings.inventory:
        hint = "vtax campaign pack, and vtax campaign load; or name one in campaign.toml"
        raise BadInput("this campaign has no inventory", where=str(campaign.root), hint=hint)
    if aborts:
        campaign.abort()
    with campaign.lock() as held:
        check_version()
        inventory = campaign.root / campaign.settings.inventory
        playbook = Playbook(inventory, campaign.log, campaign.settings.launch.forks, held)
        yield Controller(campaign, playbook, merged(campaign, read_inventory(inventory)), progress)


def merged(campaign: Campaign, listed: Iterable[InventoryHost]) -> dict[str, CampaignHost]:
    """Return what is known of the hosts of an inventory; hosts that it has no more stay on disk, as
    skipped ones that are asked nothing."""
    known, found = {host.name: host for host in campaign.hosts()}, dict[str, CampaignHost]()
    for each in listed:
        host = known.pop(each.name, None) or CampaignHost(each.name)
        new = replace(host, **asdict(each))
        if each.skip:
            new = replace(new, state="skipped", reason=Reason("skipped", each.skip))
        elif host.state in ("skipped", "collected"):  # or `sessions` was raised
            new = answers.settled(new, campaign.settings, host.at or 0.0)
        if new != host or host.at is None:
            campaign.keep(new)
        found[each.name] = new
    for host in known.values():
        if not host.skip and host.reason.code != "damaged":
            campaign.keep(replace(host, skip="the inventory has it no more"))
    return found


@dataclass(frozen=True)
class Collected:
    """Bundles that arrived. loaded: into the store. refused: kept out of it, for the reason of their host."""

    loaded: int
    refused: int


class Controller:
    """The controller of a campaign, while it holds the lock. hosts: of the inventory, by name. now: Unix time, in
    seconds."""

    def __init__(
        self,
        campaign: Campaign,
        playbook: Playbook,
        hosts: dict[str, CampaignHost],
        progress: Progress,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.campaign, self.settings, self.hosts = campaign, campaign.settings, hosts
        self._playbook, self._progress, self._now = playbook, progress, now

    def retry(self) -> None:
        """Have hosts tried again that failed or were given up; a failed session begins anew, by another id."""
        for host in self.hosts.values():
            if host.state in ("failed", "given-up", "refused"):
                sessions = tuple(map(self._again, host.sessions))
                kept = replace(host, sessions=sessions, identity="")
                self._keep(answers.settled(kept, self.settings, self._now()))

    def silent(self) -> list[str]:
        """Return the hosts that were launched and do not answer; launching goes on without them."""
        return [
            host.name
            for host in self.hosts.values()
            if host.running and host.state == "unreachable"
        ]

    def look(self) -> None:
        """Ask the hosts that were launched how far they are."""
        self._ask("looked at", ["status"], self._running(), self._of_run)

    def launch(self) -> str:
        """Prepare and launch whoever is due; return why nothing is launched any more, empty while that goes on."""
        self._refuse_aborted()
        refused = [
            host.name
            for host in self.hosts.values()
            if host.state == "refused" and not host.running and self._is_open(host.name)
        ]
        self._check(refused)
        asked = {name for name in refused if self.hosts[name].state != "ready"}
        while due := next_batch([*self.hosts.values()], self.settings, self._now(), asked):
            self._refuse_aborted()
            names = [each.host for each in due]
            asked |= {*names}
            self._check(names)
            self._refuse_aborted()
            ready = {
                name for name in names if self.hosts[name].state == "ready" and self._is_open(name)
            }
            self._launch([each for each in due if each.host in ready])
        return too_many_failed(self.hosts.values(), self.settings)

    def _refuse_aborted(self) -> None:
        if self.campaign.is_aborted:
            raise BadInput(
                "this campaign was aborted",
                where=str(self.campaign.root),
                hint="vtax campaign new makes another one",
            )

    def _is_open(self, name: str) -> bool:
        return is_open(self.hosts[name].window or self.settings.window, self._now())

    def stop(self) -> None:
        """Stop what runs."""
        self.look()
        self._ask(
            "stopped",
            ["command"],
            self._running(),
            self._of_run,
            verb=lambda _, session: ["stop", session.id],
        )
        for host in self.hosts.values():
            self._keep(host)

    def restore_boots(self) -> None:
        """Reboot hosts that measure nothing more, once, from the boot that a run needed into their default."""
        due = {
            host.name: HostSession(0, "")
            for host in self.hosts.values()
            if host.boot and not host.skip and host.state in ENDED and self._is_open(host.name)
        }

        def rebooted(host: CampaignHost, _: HostSession, answer: Answer) -> CampaignHost:
            if answer.task != "reboot":
                return host
            return replace(
                host,
                boot="",
                reason=host.reason if answer.kind == "ok" else Reason("not-rebooted", answer.error),
            )

        if self.settings.reboot:  # fails where another command has the host
            self._ask(
                "rebooted into their default",
                ["command", "reboot"],
                due,
                rebooted,
                verb=lambda *_: ["boot"],
            )

    def collect(self, loader: Loader) -> Collected:
        """Bring the bundles of sessions that ended, and load each once."""
        found: list[bool] = []
        tried: set[str] = set()
        while pending := self._pending(tried):
            tried |= {session.id + name for name, session in pending.items()}
            found += self._fetch(pending, loader)
        return Collected(found.count(True), found.count(False))

    def _running(self) -> dict[str, HostSession]:
        return {
            host.name: session
            for host in self.hosts.values()
            if not host.skip and (session := host.running)
        }

    def _pending(self, tried: set[str]) -> dict[str, HostSession]:
        found: dict[str, HostSession] = {}
        for host in (each for each in self.hosts.values() if not each.skip):
            ends = self.campaign.is_aborted or host.state == "given-up"
            for session in host.sessions:
                ended = ("done", "failed", *(("interrupted", "paused") if ends else ()))
                is_there = session.number and session.bundle_sha256 and session.state in ended
                if is_there and not session.run and session.id + host.name not in tried:
                    found.setdefault(host.name, session)
        return found

    def _fetch(self, pending: Mapping[str, HostSession], loader: Loader) -> list[bool]:
        self.campaign.incoming.mkdir(exist_ok=True)
        loaded: list[bool] = []

        def arrived(host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
            if answer.kind == "unreachable":
                return replace(host, reason=Reason("unreachable", answer.error))
            if answer.task == "size" and answer.kind != "failed":
                return host
            if answer.kind == "failed":
                loaded.append(False)
                why = answer.error
                if answer.result.get("failed_when_result") is True:
                    why = f"it is larger than {MAX_BUNDLE_BYTES >> 20} MiB"
                reason = Reason("damaged-bundle", f"the bundle did not arrive: {why}")
                return answers.settled(
                    host.with_session(replace(session, reason=reason)), self.settings, self._now()
                )
            found = loader.load(host, session, self._target(host.name, session))
            loaded.append(any(each.run for each in found.sessions if each.number == session.number))
            return answers.settled(found, self.settings, self._now())

        self._ask("brought", ["fetch"], pending, arrived)
        return loaded

    def _check(self, names: Sequence[str]) -> None:
        """Prepare hosts and check them; those that may measure are `ready` then."""
        sessions = {name: HostSession(0, "") for name in names}

        def checked(host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
            if answer.task == "prepare":
                return answers.after_prepare(host, answer, self._now())
            return answers.after_check(host, answer, self.settings, self._now())

        for name in names:  # who gives no answer is not ready
            self.hosts[name] = replace(
                self.hosts[name], state="unreachable", reason=Reason("no-answer")
            )
        self._ask("checked", ["prepare", "check"], sessions, checked)
        left = [
            host for host in self.campaign.hosts() if host.sessions and host.name not in self.hosts
        ]
        for host in answers.twins(
            [*self.hosts.values(), *left]
        ):  # one may have another name in the inventory now
            if host.name in self.hosts:
                self._keep(host)

    def _launch(self, due: Sequence[Due]) -> None:
        launched = {}
        for each in due:
            host = self.hosts[each.host]
            session = host.session(each.number) or HostSession(
                each.number, self.settings.run_id(each.number)
            )
            begun = replace(
                session,
                state="running",
                reason=Reason(),
                attempts=session.attempts + 1,
                started_at=session.started_at or self._now(),
            )
            launched[each.host] = begun
            self._keep(answers.settled(host.with_session(begun), self.settings, self._now()))
        self._boot({name: session for name, session in launched.items() if session.next_boot})
        there = self._in_window(
            {n: session for n, session in launched.items() if self.hosts[n].state == "running"}
        )
        self._ask("launched", ["command"], there, self._after_launch, verb=self._run)

    def _boot(self, sessions: Mapping[str, HostSession]) -> None:
        """Reboot hosts into the boots that their runs need; those where that is done run still, by their state.

        The boot is set once more just before the reboot, which fails where another command has the host by then.
        """
        if not sessions:
            return
        if not self.settings.reboot:
            self._hold(
                sessions, Reason("boot-refused", f"reboot = true in {FILE} consents to reboots")
            )
            self._progress(f"no consent to reboots: {len(sessions)} waiting")
            return

        def booted(host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
            received = answers.after_boot if answer.task == "command" else answers.after_reboot
            return received(host, session, answer, self.settings, self._now())

        def set_boot(_: CampaignHost, session: HostSession) -> list[str]:
            return ["boot", session.id]

        self._ask("set to boot", ["command"], sessions, booted, verb=set_boot)
        known = {name: self.hosts[name] for name in sessions}
        due = {
            n: s
            for n, host in known.items()
            if host.state == "running" and (s := host.running) and s.next_boot
        }
        self._refuse_aborted()
        due = self._in_window(due)
        for name, session in due.items():  # before the reboot, in which this process may end
            self._keep(replace(self.hosts[name], boot=session.next_boot))
        self._ask("rebooted", ["command", "reboot", "status"], due, booted, verb=set_boot)
        self._refuse_aborted()

    def _in_window(self, sessions: Mapping[str, HostSession]) -> dict[str, HostSession]:
        """Return those of hosts whose window is open still; the others wait for the next."""
        closed = {name: session for name, session in sessions.items() if not self._is_open(name)}
        self._hold(closed, Reason("window"))
        return {name: session for name, session in sessions.items() if name not in closed}

    def _hold(self, sessions: Mapping[str, HostSession], reason: Reason) -> None:
        """Have sessions wait that were to be launched, and are not; that was no attempt."""
        for name, session in sessions.items():
            held = replace(
                session,
                state="paused",
                reason=reason,
                attempts=session.attempts - 1,
                started_at=session.measured_since,
            )
            self._keep(
                answers.settled(self.hosts[name].with_session(held), self.settings, self._now())
            )

    def _of_run(self, host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
        return answers.after_run(host, session, answer, self.settings, self._now(), is_launch=False)

    def _after_launch(
        self, host: CampaignHost, session: HostSession, answer: Answer
    ) -> CampaignHost:
        return answers.after_run(host, session, answer, self.settings, self._now(), is_launch=True)

    def _run(self, host: CampaignHost, session: HostSession) -> list[str]:
        scale = self.settings.scale if session.number else self.settings.launch.canary_scale
        study = f"{self._place(host)}/{STUDY}/{self.settings.study}"
        return ["run", session.id, study, *self.settings.run_options(scale)]

    def _ask(
        self,
        did: str,
        tasks: Sequence[str],
        sessions: Mapping[str, HostSession],
        received: Callable[[CampaignHost, HostSession, Answer], CampaignHost],
        verb: Callable[[CampaignHost, HostSession], list[str]] = lambda host, session: [],
    ) -> None:
        """Carry out tasks on hosts and keep what each answered. did: what that is called. verb: of `vtax host`."""
        if not sessions:
            return
        asked = [(self.hosts[name], session) for name, session in sessions.items()]
        variables = {
            host.name: self._variables(host, session, verb(host, session))
            for host, session in asked
        }
        with closing(self._playbook.run(tasks, variables)) as found:
            for answer in found:
                if answer.host in sessions:
                    host = self.hosts[answer.host]
                    self._keep(received(host, sessions[answer.host], answer))
        states = Counter(self.hosts[name].state for name in sessions)
        self._progress(
            f"{did}: {', '.join(f'{count} {state}' for state, count in sorted(states.items()))}"
        )

    def _variables(
        self, host: CampaignHost, session: HostSession, verb: Sequence[str]
    ) -> dict[str, Any]:
        """Return the variables of the playbook for a host. Nothing that a host said is in them: Ansible expands
        them."""
        settings = self.settings
        place = self._place(host)
        vtax = ["env", f"VTAX_HOME={host.home}", f"{place}/{PROGRAM}", "host"]
        return {
            "vtax_prepare": shlex.join(
                [str(self.campaign.pack), "--home", host.home, "--digest", settings.pack_digest]
            ),
            "vtax_creates": f"{place}/{MARK}",
            "vtax_python": host.python,
            "vtax_check": [*vtax, "check", "--json"],
            "vtax_command": [*vtax, *verb, "--json"],
            "vtax_status": shlex.join([*vtax, "status", session.id, "--json"]),
            "vtax_most_bytes": MAX_BUNDLE_BYTES,
            "vtax_bundle": f"{host.home}/{DIRECTORY}/{session.id}/{BUNDLE}",
            "vtax_target": str(self._target(host.name, session)),
        }

    def _place(self, host: CampaignHost) -> str:
        return f"{host.home}/packs/{self.settings.pack_digest[:SHORT]}"

    def _target(self, host: str, session: HostSession) -> Path:
        return self.campaign.incoming / self.campaign.bundle(host, session.id).relative_to(
            self.campaign.root
        )

    def _again(self, session: HostSession) -> HostSession:
        if session.state in ("running", "done", "collected"):
            return session
        if session.state == "failed" or session.run:  # loaded once, by that id
            again = session.again + 1
            id_ = self.settings.run_id(session.number, again)
            return HostSession(session.number, id_, again=again)
        return replace(session, attempts=0)

    def _keep(self, host: CampaignHost) -> None:
        if self.campaign.is_aborted and host.state in (
            "new",
            "ready",
            "waiting",
            "busy",
            "refused",
        ):
            host = replace(host, state="aborted")
        self.hosts[host.name] = host
        self.campaign.keep(host)
