"""Speaks to the hosts of a campaign: looks, prepares, launches, stops, and brings bundles. Called again, it resumes.

Before a host is asked to measure, that is written down; so a controller that is killed at any moment looks next time
what became of it. Which hosts are asked is computed here and passed to Ansible by `--limit`.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vtax.campaign import answers
from vtax.campaign.ansible import MAX_BUNDLE_BYTES, Answer, Playbook, check_version
from vtax.campaign.collecting import Loader
from vtax.campaign.directory import FILE, STUDY, Campaign
from vtax.campaign.host_record import (
    ENDED,
    MAX_DAMAGED,
    CampaignHost,
    HostSession,
    InventoryHost,
    Reason,
)
from vtax.campaign.host_runs import BUNDLE, DIRECTORY
from vtax.campaign.inventory import read_inventory
from vtax.campaign.launching import Due, next_batch, too_many_failed
from vtax.campaign.prepare import MARK, PROGRAM, SHORT
from vtax.campaign.settings import is_open
from vtax.errors import BadInput
from vtax.store.hosts import HARDWARE_ID

Progress = Callable[[str], None]
_ABORTABLE = ("new", "ready", "waiting", "busy", "refused")


@contextmanager
def controller(
    campaign: Campaign, progress: Progress, *, aborts: bool = False
) -> Iterator[Controller]:
    """Yield the one controller of a campaign.

    campaign: with an inventory.
    progress: is called with a line for each step.
    aborts: nothing more is launched, not even by another controller that runs now.

    Raises Busy while another controller runs, BadInput without Ansible, and for an inventory that cannot be read.
    """
    if not campaign.settings.inventory:
        hint = "vtax campaign pack, and vtax campaign load; or name one in campaign.toml"
        raise BadInput("this campaign has no inventory", where=str(campaign.root), hint=hint)
    if aborts:
        campaign.abort()
    with campaign.lock() as lock:
        check_version()
        inventory = campaign.root / campaign.settings.inventory
        playbook = Playbook(inventory, campaign.log, campaign.settings.launch.forks, lock)
        hosts = merge_inventory(campaign, read_inventory(inventory))
        yield Controller(campaign, playbook, hosts, progress)


def merge_inventory(
    campaign: Campaign, inventory: Iterable[InventoryHost]
) -> dict[str, CampaignHost]:
    """Return the hosts of an inventory by name, with what is known of them; the campaign keeps them.

    Known hosts that the inventory has no more stay on disk, as skipped ones.
    """
    known = {host.name: host for host in campaign.hosts()}
    hosts: dict[str, CampaignHost] = {}
    for listed in inventory:
        host = known.pop(listed.name, None) or CampaignHost(listed.name)
        merged = replace(host, **asdict(listed))
        if listed.skip:
            merged = replace(merged, state="skipped", reason=Reason("skipped", listed.skip))
        elif host.state in ("skipped", "collected"):  # or `sessions` was raised
            merged = answers.settled(merged, campaign.settings, host.at or 0.0)
        if merged != host or host.at is None:
            campaign.keep(merged)
        hosts[listed.name] = merged
    for host in known.values():
        if not host.skip and host.reason.code != "damaged":
            campaign.keep(replace(host, skip="the inventory has it no more"))
    return hosts


@dataclass(frozen=True)
class Collected:
    """Bundles that arrived. loaded: into the store. refused: kept out of it, for the reason of their host."""

    loaded: int
    refused: int


class Controller:
    """The controller of a campaign, while it holds the lock.

    campaign: whose lock is held.
    playbook: of its inventory.
    hosts: of the inventory, by name.
    progress: is called with a line for each step.
    now: returns the Unix time, in seconds.
    """

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
                sessions = tuple(map(self._retried, host.sessions))
                self._settle(replace(host, sessions=sessions, identity=""))

    def unreachable(self) -> list[str]:
        """Return the names of the hosts that were launched and do not answer; launching goes on without them."""
        unreachable = [host for host in self.hosts.values() if host.state == "unreachable"]
        return [host.name for host in unreachable if host.running]

    def look(self) -> None:
        """Ask the hosts that were launched how far they are."""
        self._ask("looked at", ["status"], self._running(), self._after_status)

    def launch(self) -> str:
        """Prepare and launch whoever is due; return why nothing is launched any more, empty while that goes on."""
        self._refuse_aborted()
        refused = [host for host in self.hosts.values() if host.state == "refused"]
        idle = [host.name for host in refused if not host.running]
        rechecked = [name for name in idle if self._is_open(name)]
        self._check(rechecked)
        asked = {name for name in rechecked if self.hosts[name].state != "ready"}
        while batch := next_batch([*self.hosts.values()], self.settings, self._now(), asked):
            self._refuse_aborted()
            names = [due.host for due in batch]
            asked.update(names)
            self._check(names)
            self._refuse_aborted()
            ready = [due for due in batch if self.hosts[due.host].state == "ready"]
            self._launch([due for due in ready if self._is_open(due.host)])
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
            self._after_status,
            verb=lambda _, session: ["stop", session.id],
        )
        for host in self.hosts.values():
            self._keep(host)

    def restore_boots(self) -> None:
        """Reboot hosts that measure nothing more, once, from the boot that a run needed into their default."""
        due = {}
        for host in self.hosts.values():
            has_ended = not host.skip and host.state in ENDED
            if host.boot and has_ended and self._is_open(host.name):
                due[host.name] = HostSession(0, "")

        def rebooted(host: CampaignHost, _: HostSession, answer: Answer) -> CampaignHost:
            if answer.task != "reboot":
                return host
            if answer.kind != "ok":
                host = replace(host, reason=Reason("not-rebooted", answer.error))
            return replace(host, boot="")

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
        loaded: list[bool] = []
        tried: set[tuple[str, str]] = set()
        while pending := self._pending(tried):
            tried.update((name, session.id) for name, session in pending.items())
            loaded += self._fetch(pending, loader)
        return Collected(loaded.count(True), loaded.count(False))

    def _running(self) -> dict[str, HostSession]:
        running = {}
        for host in self.hosts.values():
            if host.running and not host.skip:
                running[host.name] = host.running
        return running

    def _pending(self, tried: Collection[tuple[str, str]]) -> dict[str, HostSession]:
        """Return the next session of each host whose bundle is to be brought. tried: names and sessions to leave."""
        pending: dict[str, HostSession] = {}
        for host in self.hosts.values():
            if host.skip:
                continue
            states = ["done", "failed"]
            if self.campaign.is_aborted or host.state == "given-up":
                states += ["interrupted", "paused"]
            for session in host.sessions:
                has_bundle = session.number and session.bundle_sha256 and not session.run
                has_bundle = has_bundle and session.damaged < MAX_DAMAGED
                is_untried = (host.name, session.id) not in tried
                if has_bundle and is_untried and session.state in states:
                    pending.setdefault(host.name, session)
        return pending

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
                host = host.with_session(session.without_bundle(reason))
            else:
                host = loader.load(host, session, self._target(host.name, session))
                collected = host.session(session.number)
                loaded.append(collected is not None and bool(collected.run))
            return answers.settled(host, self.settings, self._now())

        self._ask("brought", ["fetch"], pending, arrived)
        return loaded

    def _check(self, names: Sequence[str]) -> None:
        """Prepare hosts and check them; those that may measure are `ready` then."""
        sessions = {name: HostSession(0, "") for name in names}
        hardware = Counter(host.facts.get(HARDWARE_ID) for host in self.hosts.values())
        shared = frozenset(str(each) for each, count in hardware.items() if each and count > 1)

        def checked(host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
            if answer.task == "prepare":
                return answers.after_prepare(host, answer, self._now())
            return answers.after_check(host, answer, self.settings, self._now(), shared)

        for name in names:  # who gives no answer is not ready
            self.hosts[name] = replace(
                self.hosts[name], state="unreachable", reason=Reason("no-answer")
            )
        self._ask("checked", ["prepare", "check"], sessions, checked)
        hosts = [*self.hosts.values()]
        for host in self.campaign.hosts():  # it may have another name in the inventory now
            if host.sessions and host.name not in self.hosts:
                hosts.append(host)
        for host in answers.twins(hosts):
            if host.name in self.hosts:
                self._keep(host)

    def _launch(self, batch: Sequence[Due]) -> None:
        launched = {}
        for due in batch:
            host = self.hosts[due.host]
            session = host.session(due.number)
            if session is None:
                session = HostSession(due.number, self.settings.run_id(due.number))
            begun = replace(
                session,
                state="running",
                reason=Reason(),
                attempts=session.attempts + 1,
                started_at=session.started_at or self._now(),
            )
            launched[due.host] = begun
            self._settle(host.with_session(begun))
        self._boot({name: session for name, session in launched.items() if session.next_boot})
        running = [name for name in launched if self.hosts[name].state == "running"]
        sessions = self._in_window({name: launched[name] for name in running})
        self._ask("launched", ["command"], sessions, self._after_launch, verb=self._run)

    def _boot(self, sessions: Mapping[str, HostSession]) -> None:
        """Reboot hosts into the boots that their runs need; hosts that were rebooted keep the state `running`.

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
            after = answers.after_boot if answer.task == "command" else answers.after_reboot
            return after(host, session, answer, self.settings, self._now())

        def set_boot(_: CampaignHost, session: HostSession) -> list[str]:
            return ["boot", session.id]

        self._ask("set to boot", ["command"], sessions, booted, verb=set_boot)
        due = {}
        for name in sessions:
            host = self.hosts[name]
            if host.state == "running" and host.running and host.running.next_boot:
                due[name] = host.running
        self._refuse_aborted()
        due = self._in_window(due)
        for name, session in due.items():  # before the reboot, in which this process may end
            self._keep(replace(self.hosts[name], boot=session.next_boot))
        self._ask("rebooted", ["command", "reboot", "status"], due, booted, verb=set_boot)
        self._refuse_aborted()

    def _in_window(self, sessions: Mapping[str, HostSession]) -> dict[str, HostSession]:
        """Return the sessions of hosts whose window is still open; the others wait for the next window."""
        due, closed = {}, {}
        for name, session in sessions.items():
            if self._is_open(name):
                due[name] = session
            else:
                closed[name] = session
        self._hold(closed, Reason("window"))
        return due

    def _hold(self, sessions: Mapping[str, HostSession], reason: Reason) -> None:
        """Have sessions wait that were to be launched and are not; this does not count as an attempt."""
        for name, session in sessions.items():
            waiting = replace(
                session,
                state="paused",
                reason=reason,
                attempts=session.attempts - 1,
                started_at=session.measured_since,
            )
            self._settle(self.hosts[name].with_session(waiting))

    def _after_status(
        self, host: CampaignHost, session: HostSession, answer: Answer
    ) -> CampaignHost:
        return answers.after_run(host, session, answer, self.settings, self._now(), is_launch=False)

    def _after_launch(
        self, host: CampaignHost, session: HostSession, answer: Answer
    ) -> CampaignHost:
        return answers.after_run(host, session, answer, self.settings, self._now(), is_launch=True)

    def _run(self, host: CampaignHost, session: HostSession) -> list[str]:
        scale = self.settings.scale if session.number else self.settings.launch.canary_scale
        study = f"{self._unpacked(host)}/{STUDY}/{self.settings.study}"
        return ["run", session.id, study, *self.settings.run_options(scale)]

    def _ask(
        self,
        did: str,
        tasks: Sequence[str],
        sessions: Mapping[str, HostSession],
        after: Callable[[CampaignHost, HostSession, Answer], CampaignHost],
        verb: Callable[[CampaignHost, HostSession], list[str]] = lambda host, session: [],
    ) -> None:
        """Carry out tasks on hosts, and keep each host as it is after its answers.

        did: the tasks in the words of a line of progress.
        tasks: of the playbook.
        sessions: name of a host -> the session that it is asked about.
        after: returns a host as it is after an answer.
        verb: arguments of `vtax host`.
        """
        if not sessions:
            return
        variables = {}
        for name, session in sessions.items():
            host = self.hosts[name]
            variables[name] = self._variables(host, session, verb(host, session))
        with closing(self._playbook.run(tasks, variables)) as received:
            for answer in received:
                if answer.host in sessions:
                    host = self.hosts[answer.host]
                    self._keep(after(host, sessions[answer.host], answer))
        states = Counter(self.hosts[name].state for name in sessions)
        counts = [f"{count} {state}" for state, count in sorted(states.items())]
        self._progress(f"{did}: {', '.join(counts)}")

    def _variables(
        self, host: CampaignHost, session: HostSession, verb: Sequence[str]
    ) -> dict[str, Any]:
        """Return the variables of the playbook for a host.

        Nothing that a host sent is in them: Ansible expands templates in them.
        """
        pack, digest = str(self.campaign.pack), self.settings.pack_digest
        unpacked = self._unpacked(host)
        vtax = ["env", f"VTAX_HOME={host.home}", f"{unpacked}/{PROGRAM}", "host"]
        return {
            "vtax_prepare": shlex.join([pack, "--home", host.home, "--digest", digest]),
            "vtax_creates": f"{unpacked}/{MARK}",
            "vtax_python": host.python,
            "vtax_check": [*vtax, "check", "--json"],
            "vtax_command": [*vtax, *verb, "--json"],
            "vtax_status": shlex.join([*vtax, "status", session.id, "--json"]),
            "vtax_most_bytes": MAX_BUNDLE_BYTES,
            "vtax_bundle": f"{host.home}/{DIRECTORY}/{session.id}/{BUNDLE}",
            "vtax_target": str(self._target(host.name, session)),
        }

    def _unpacked(self, host: CampaignHost) -> str:
        return f"{host.home}/packs/{self.settings.pack_digest[:SHORT]}"

    def _target(self, host: str, session: HostSession) -> Path:
        bundle = self.campaign.bundle(host, session.id)
        return self.campaign.incoming / bundle.relative_to(self.campaign.root)

    def _retried(self, session: HostSession) -> HostSession:
        if session.state in ("running", "done", "collected"):
            return session
        if session.state == "failed" or session.run:  # loaded once, by that id
            again = session.again + 1
            id_ = self.settings.run_id(session.number, again)
            return HostSession(session.number, id_, again=again)
        return replace(session, attempts=0)

    def _settle(self, host: CampaignHost) -> None:
        """Keep a host in the state that follows from its sessions."""
        self._keep(answers.settled(host, self.settings, self._now()))

    def _keep(self, host: CampaignHost) -> None:
        if self.campaign.is_aborted and host.state in _ABORTABLE:
            host = replace(host, state="aborted")
        self.hosts[host.name] = host
        self.campaign.keep(host)
