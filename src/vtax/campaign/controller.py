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
from secrets import token_hex
from typing import Any, Literal

from vtax.campaign import answers
from vtax.campaign.ansible import MAX_BUNDLE_BYTES, Answer, Playbook, check_version
from vtax.campaign.asking import Ask, Background
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
Stage = Literal["boot", "reboot", "run"]
"""Next step of a launch that has begun: set a boot entry, reboot, or `vtax host run`."""
_ABORTABLE = ("new", "ready", "waiting", "busy", "refused")
_CHECKED_S = 3600.0
"""How long a host that was found ready is launched without another check."""
_SLOW_CHECK_S = 120.0
"""How long a host that is checked is waited for where it is to measure before the others."""


COPY = f"""[ -f "$1" ] || {{ echo "it is not there" >&2; exit 1; }}
[ "$(stat -Lc %s "$1")" -le {MAX_BUNDLE_BYTES} ] || {{ echo "it is larger than {MAX_BUNDLE_BYTES >> 30} GiB" >&2; exit 1; }}
head -c {MAX_BUNDLE_BYTES} "$1" > "$2"
"""
"""Script of the shell that copies a bundle, unless it is too large."""


def no_rest(host: CampaignHost) -> float:
    """Return that any host is asked again at once, when its answers have come."""
    return 0.0


@contextmanager
def controller(
    campaign: Campaign,
    progress: Progress,
    *,
    aborts: bool = False,
    rest_s: Callable[[CampaignHost], float] | None = None,
) -> Iterator[Controller]:
    """Yield the one controller of a campaign.

    campaign: with an inventory.
    progress: is called with a line for each step.
    aborts: nothing more is launched, not even by another controller that runs now.
    rest_s: for how long a host that has answered is left alone; hosts are asked in the background then.

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
        if rest_s is None:
            yield Controller(campaign, playbook, hosts, progress)
            return
        with closing(Background(playbook)) as background:
            yield Controller(
                campaign, playbook, hosts, progress, background=background, rest_s=rest_s
            )


def merge_inventory(
    campaign: Campaign, inventory: Iterable[InventoryHost]
) -> dict[str, CampaignHost]:
    """Return the hosts of an inventory by name, with what is known of them; the campaign keeps them.

    Known hosts that the inventory has no more stay on disk, as skipped ones.
    """
    known_hosts = {host.name: host for host in campaign.hosts()}
    hosts: dict[str, CampaignHost] = {}
    for inventory_host in inventory:
        host = known_hosts.pop(inventory_host.name, None) or CampaignHost(inventory_host.name)
        merged_host = replace(host, **asdict(inventory_host))
        if inventory_host.skip:
            merged_host = replace(
                merged_host, state="skipped", reason=Reason("skipped", inventory_host.skip)
            )
        elif host.state in ("skipped", "collected"):  # or `sessions` was raised
            merged_host = answers.settled(merged_host, campaign.settings, host.at or 0.0)
        if merged_host != host or host.at is None:
            campaign.keep(merged_host)
        hosts[inventory_host.name] = merged_host
    for host in known_hosts.values():
        if not host.skip and host.reason.code != "damaged":
            campaign.keep(replace(host, skip="the inventory has it no more"))
    return hosts


@dataclass(frozen=True)
class Collected:
    """Bundles that arrived. loaded: into the store. refused: kept out of it, for the reason of their host."""

    loaded: int
    refused: int


@dataclass(frozen=True)
class Emptied:
    """Outcome of `clean` on a host. removed: empty where nothing was there. error: why nothing was removed."""

    host: str
    removed: str = ""
    error: str = ""


class Controller:
    """The controller of a campaign, while it holds the lock.

    campaign: whose lock is held.
    playbook: of its inventory.
    hosts: of the inventory, by name.
    progress: is called with a line for each step.
    now: returns the Unix time, in seconds.
    background: reads the answers. Every step only begins then, and is called again after `take`, until it finds
        nothing more to do; no host waits for another. Without it, a step ends with its slowest host.
    rest_s: for how long a host that has answered is left alone.
    """

    def __init__(
        self,
        campaign: Campaign,
        playbook: Playbook,
        hosts: dict[str, CampaignHost],
        progress: Progress,
        now: Callable[[], float] = time.time,
        background: Background | None = None,
        rest_s: Callable[[CampaignHost], float] = no_rest,
    ) -> None:
        self.campaign, self.settings, self.hosts = campaign, campaign.settings, hosts
        self._playbook, self._progress, self.now = playbook, progress, now
        self._background, self._rest_s = background, rest_s
        self._asked: dict[str, float] = {}  # names of hosts that are asked now -> since when
        self._rests: dict[str, float] = {}  # names of hosts -> until when they are left alone
        self._checked: dict[str, float] = {}  # names of hosts that were found ready -> when
        self._stages: dict[str, Stage] = {}
        self._others: list[CampaignHost] | None = None
        self._loads: list[bool] = []  # of bundles that came, whether each was loaded

    @property
    def asked(self) -> Collection[str]:
        """The names of the hosts that are asked something now."""
        return self._asked

    def take(self, timeout_s: float) -> bool:
        """Take an answer that the background has read; return whether there was one in time."""
        assert self._background is not None
        event = self._background.take(timeout_s)
        if event is None:
            return False
        ask, answer = event
        if answer is None:
            self._end(ask)
        else:
            self._take(ask, answer)
        return True

    def has_answered(self, name: str) -> bool:
        """Return whether a host has answered, or was given up as silent, since this controller began."""
        return name in self._rests

    def has_bundle(self, host: CampaignHost) -> bool:
        """Return whether a bundle of a host is to be brought."""
        return self._next_bundle(host, ()) is not None

    def retry(self, names: Collection[str] | None = None) -> None:
        """Have hosts tried again that failed or were given up; a failed session begins anew, by another id.

        names: of the hosts that may be meant; any host for None.
        """
        for host in self.hosts.values():
            if names is not None and host.name not in names:
                continue
            if host.state in ("failed", "given-up", "refused"):
                sessions = tuple(map(self._retry_session, host.sessions))
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
        refused_hosts = [host for host in self.hosts.values() if host.state == "refused"]
        idle = [host.name for host in refused_hosts if not host.running]
        self._check([name for name in idle if self._is_free(name) and self._is_open(name)])
        names_asked = {name for name in idle if not self._is_checked(name)}
        while True:
            batch = self._next_batch(names_asked)
            self._refuse_aborted()
            names_asked.update(due.host for due in batch)
            self._check([due.host for due in batch if not self._is_checked(due.host)])
            self._refuse_aborted()
            self._begin([due for due in batch if self._is_free(due.host)])
            self._advance()
            if not batch:
                return too_many_failed(self.hosts.values(), self.settings)

    def _next_batch(self, names_asked: Collection[str]) -> Sequence[Due]:
        """Return what is to be launched now of hosts that are not asked anything. names_asked: others to leave out."""
        excluded_names = {name for name in self.hosts if not self._is_free(name)}.union(names_asked)
        slow_since = self.now() - _SLOW_CHECK_S
        checking = {name for name, begun in self._asked.items() if begun > slow_since}
        return next_batch(
            [*self.hosts.values()], self.settings, self.now(), excluded_names, checking=checking
        )

    def _refuse_aborted(self) -> None:
        if self.campaign.is_aborted:
            raise BadInput(
                "this campaign was aborted",
                where=str(self.campaign.root),
                hint="vtax campaign new makes another one",
            )

    def _is_open(self, name: str) -> bool:
        return is_open(self.hosts[name].window or self.settings.window, self.now())

    def _is_free(self, name: str) -> bool:
        return name not in self._asked and self.now() >= self._rests.get(name, 0.0)

    def _is_checked(self, name: str) -> bool:
        """Return whether a host was found ready and may be launched."""
        is_recent = self.now() - self._checked.get(name, -_CHECKED_S) < _CHECKED_S
        return is_recent and self.hosts[name].state == "ready"

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
            has_ended = not host.skip and host.state in ENDED and self._is_free(host.name)
            if host.boot and has_ended and self._is_open(host.name):
                due[host.name] = HostSession(0, "")

        def take_reboot(host: CampaignHost, _: HostSession, answer: Answer) -> CampaignHost:
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
                take_reboot,
                verb=lambda *_: ["boot"],
            )

    def clean(self) -> list[Emptied]:
        """Remove this campaign's pack, its image, and consents to its study from the hosts where nothing is to come."""
        outcomes = []
        due = {}
        for host in self.hosts.values():
            why = host.skip
            if host.skip and not host.kept:
                continue
            if host.running:
                why = "it may measure still"
            elif self.has_bundle(host):
                why = "its bundle is not collected"
            if why:
                outcomes.append(Emptied(host.name, error=why))
            else:
                due[host.name] = HostSession(0, "")

        def take_removal(host: CampaignHost, _: HostSession, answer: Answer) -> CampaignHost:
            try:
                host, what = answers.after_removal(host, answer)
                outcomes.append(Emptied(host.name, what))
            except BadInput as error:
                outcomes.append(Emptied(host.name, error=error.what))
            return host

        digest, key = self.settings.pack_digest[:SHORT], self.settings.image_key
        self._ask(
            "cleaned", ["command"], due, take_removal, verb=lambda *_: ["remove", digest, key]
        )
        answered_names = {outcome.host for outcome in outcomes}
        outcomes += [Emptied(name, error="no answer") for name in due if name not in answered_names]
        return sorted(outcomes, key=lambda outcome: outcome.host)

    def collect(self, loader: Loader) -> Collected:
        """Bring the bundles of sessions that ended, and load each once."""
        tried_sessions: set[tuple[str, str]] = set()
        while pending := self._pending(tried_sessions):
            tried_sessions.update((name, session.id) for name, session in pending.items())
            self._fetch(pending, loader)
        return Collected(self._loads.count(True), self._loads.count(False))

    def _running(self) -> dict[str, HostSession]:
        """Return the session of each host that may be asked how far it is."""
        sessions = {}
        for host in self.hosts.values():
            is_launched = host.running and host.name not in self._stages
            if host.running and is_launched and not host.skip and self._is_free(host.name):
                sessions[host.name] = host.running
        return sessions

    def _pending(self, tried_sessions: Collection[tuple[str, str]]) -> dict[str, HostSession]:
        """Return the next session of each host whose bundle is to be brought. tried_sessions: names and sessions to leave."""
        sessions: dict[str, HostSession] = {}
        for host in self.hosts.values():
            session = self._next_bundle(host, tried_sessions) if self._is_free(host.name) else None
            if session is not None:
                sessions[host.name] = session
        return sessions

    def _next_bundle(
        self, host: CampaignHost, tried_sessions: Collection[tuple[str, str]]
    ) -> HostSession | None:
        """Return the next session of a host whose bundle is to be brought; None when there is none."""
        if host.skip:
            return None
        states = ["done", "failed"]
        if self.campaign.is_aborted or host.state == "given-up":
            states += ["interrupted", "paused"]
        for session in host.sessions:
            has_bundle = session.number and session.bundle_sha256 and not session.run
            has_bundle = has_bundle and session.damaged < MAX_DAMAGED
            is_untried = (host.name, session.id) not in tried_sessions
            if has_bundle and is_untried and session.state in states:
                return session
        return None

    def _fetch(self, pending: Mapping[str, HostSession], loader: Loader) -> None:
        self.campaign.incoming.mkdir(exist_ok=True)

        def take_bundle(host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
            if answer.kind == "unreachable":
                return replace(host, reason=Reason("unreachable", answer.error))
            if answer.kind == "failed":
                self._loads.append(False)
                reason = Reason("damaged-bundle", f"the bundle did not arrive: {answer.error}")
                host = host.with_session(session.without_bundle(reason))
            elif answer.task != "fetch":
                return host
            else:
                host = loader.load(host, session, self._target(host.name, session))
                collected = host.session(session.number)
                self._loads.append(collected is not None and bool(collected.run))
            return answers.settled(host, self.settings, self.now())

        self._ask("brought", ["fetch"], pending, take_bundle)

    def _check(self, names: Sequence[str]) -> None:
        """Prepare hosts and check them; those that may measure are `ready` then."""
        sessions = {name: HostSession(0, "") for name in names}
        hardware = Counter(host.facts.get(HARDWARE_ID) for host in self.hosts.values())
        repeated_ids = [id_ for id_, count in hardware.items() if count > 1]
        shared_hardware = frozenset(str(id_) for id_ in repeated_ids if id_)

        def take_check(host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
            if answer.task == "prepare":
                return answers.after_prepare(host, answer, self.now())
            after = answers.after_check(host, answer, self.settings, self.now(), shared_hardware)
            if after.state == "ready":
                self._checked[host.name] = self.now()
            return after

        self._ask("checked", ["prepare", "check"], sessions, take_check)

    def _refuse_twins(self) -> None:
        if self._others is None:  # of another name in the inventory now
            measured_hosts = [host for host in self.campaign.hosts() if host.sessions]
            self._others = [host for host in measured_hosts if host.name not in self.hosts]
        for host in answers.twins([*self.hosts.values(), *self._others]):
            if host.name in self.hosts:
                self._keep(host)

    def _begin(self, batch: Sequence[Due]) -> None:
        """Write down that hosts are launched, of those that were found ready and are in their window."""
        if not any(self._is_checked(due.host) for due in batch):
            return
        self._refuse_twins()
        for due in batch:
            if not (self._is_checked(due.host) and self._is_open(due.host)):
                continue
            host = self.hosts[due.host]
            del self._checked[due.host]
            session = host.session(due.number)
            if session is None:
                session = HostSession(due.number, self.settings.run_id(due.number))
            begun = replace(
                session,
                state="running",
                reason=Reason(),
                attempts=session.attempts + 1,
                started_at=session.started_at or self.now(),
            )
            self._stages[due.host] = "boot" if begun.next_boot else "run"
            self._settle(host.with_session(begun))

    def _advance(self) -> None:
        """Do what launches that have begun need next: set boots, reboot, run."""
        self._set_boots(self._at("boot"))
        self._reboot(self._at("reboot"))
        sessions = self._with_room(self._in_window(self._at("run")))
        for name in sessions:
            del self._stages[name]
        self._ask("launched", ["command"], sessions, self._after_launch, verb=self._run)

    def _at(self, stage: Stage) -> dict[str, HostSession]:
        sessions = {}
        for name, at in self._stages.items():
            session = self.hosts[name].running
            if at == stage and session is not None and self._is_free(name):
                sessions[name] = session
        return sessions

    def _set_boots(self, sessions: Mapping[str, HostSession]) -> None:
        """Set the boots that runs need next."""
        if sessions and not self.settings.reboot:
            self._hold(
                sessions, Reason("boot-refused", f"reboot = true in {FILE} consents to reboots")
            )
            self._progress(f"no consent to reboots: {len(sessions)} waiting")
            return

        def set_before(host: CampaignHost) -> None:
            needs_reboot = host.running is not None and bool(host.running.next_boot)
            self._move(host, "reboot" if needs_reboot else "run")

        self._ask(
            "set to boot", ["command"], sessions, self._booted, verb=_set_boot, take_host=set_before
        )

    def _reboot(self, sessions: dict[str, HostSession]) -> None:
        """Reboot hosts into the boots that their runs need; hosts that were rebooted keep the state `running`.

        The boot is set once more just before the reboot, which fails where another command has the host by then.
        """
        if not sessions:
            return
        self._refuse_aborted()
        due = self._with_room(self._in_window(sessions))
        for name, session in due.items():  # before the reboot, in which this process may end
            self._keep(replace(self.hosts[name], boot=session.next_boot))
        self._ask(
            "rebooted",
            ["command", "reboot", "status"],
            due,
            self._booted,
            verb=_set_boot,
            take_host=lambda host: self._move(host, "run"),
        )
        self._refuse_aborted()

    def _booted(self, host: CampaignHost, session: HostSession, answer: Answer) -> CampaignHost:
        after = answers.after_boot if answer.task == "command" else answers.after_reboot
        return after(host, session, answer, self.settings, self.now())

    def _move(self, host: CampaignHost, stage: Stage) -> None:
        """Have a launch go on with a stage; it ends for a host that is not `running`."""
        if host.state == "running":
            self._stages[host.name] = stage
        else:
            self._stages.pop(host.name, None)

    def _in_window(self, sessions: Mapping[str, HostSession]) -> dict[str, HostSession]:
        """Return the sessions of hosts whose window is still open; the others wait for the next window."""
        due_sessions, closed_sessions = {}, {}
        for name, session in sessions.items():
            if self._is_open(name):
                due_sessions[name] = session
            else:
                closed_sessions[name] = session
        self._hold(closed_sessions, Reason("window"))
        return due_sessions

    def _hold(self, sessions: Mapping[str, HostSession], reason: Reason) -> None:
        """Have sessions wait that were to be launched and are not; this does not count as an attempt."""
        for name, session in sessions.items():
            self._stages.pop(name, None)
            paused_session = replace(
                session,
                state="paused",
                reason=reason,
                attempts=session.attempts - 1,
                started_at=session.measured_since,
            )
            self._settle(self.hosts[name].with_session(paused_session))

    def _after_status(
        self, host: CampaignHost, session: HostSession, answer: Answer
    ) -> CampaignHost:
        return answers.after_run(host, session, answer, self.settings, self.now(), is_launch=False)

    def _after_launch(
        self, host: CampaignHost, session: HostSession, answer: Answer
    ) -> CampaignHost:
        return answers.after_run(host, session, answer, self.settings, self.now(), is_launch=True)

    def _run(self, host: CampaignHost, session: HostSession) -> list[str]:
        scale = self.settings.scale if session.number else self.settings.launch.canary_scale
        study = f"{self._pack_directory(host)}/{STUDY}/{self.settings.study}"
        return ["run", session.id, study, *self.settings.run_options(scale)]

    def _ask(
        self,
        what: str,
        tasks: Sequence[str],
        sessions: Mapping[str, HostSession],
        after: Callable[[CampaignHost, HostSession, Answer], CampaignHost],
        verb: Callable[[CampaignHost, HostSession], list[str]] = lambda host, session: [],
        take_host: Callable[[CampaignHost], None] = lambda host: None,
    ) -> None:
        """Carry out tasks on hosts, and keep each host as it is after its answers.

        With a background it is only begun, and not on more hosts than Ansible may speak to at once.

        what: the tasks in the words of a line of progress.
        tasks: of the playbook.
        sessions: name of a host -> the session that it is asked about.
        after: returns a host as it is after an answer.
        verb: arguments of `vtax host`.
        take_host: takes a host that has given all its answers.
        """
        sessions = self._with_room(sessions)
        if not sessions:
            return
        variables = {}
        for name, session in sessions.items():
            host = self.hosts[name]
            variables[name] = self._variables(host, session, verb(host, session))
        ask = Ask(what, tasks[-1], sessions, after, take_host)
        self._asked.update(dict.fromkeys(sessions, self.now()))
        answers_of_playbook = self._playbook.run(tasks, variables)
        if self._background is not None:
            self._background.begin(ask, answers_of_playbook)
            return
        with closing(answers_of_playbook):
            for answer in answers_of_playbook:
                self._take(ask, answer)
        self._end(ask)

    def _with_room(self, sessions: Mapping[str, HostSession]) -> dict[str, HostSession]:
        """Return the first sessions of as many hosts as may be asked now."""
        if self._background is None:
            return dict(sessions)
        room = max(self.settings.launch.forks - len(self._asked), 0)
        return dict(list(sessions.items())[:room])

    def _take(self, ask: Ask, answer: Answer) -> None:
        name = answer.host
        if name not in ask.awaited:
            return
        self._keep(ask.after(self.hosts[name], ask.sessions[name], answer))
        if answer.task == ask.last or answer.kind in ("failed", "unreachable"):
            self._release(ask, name)

    def _end(self, ask: Ask) -> None:
        for name in [*ask.awaited]:  # what is known of it on disk stays
            self.hosts[name] = replace(
                self.hosts[name], state="unreachable", reason=Reason("no-answer")
            )
            self._release(ask, name)
        states = Counter(self.hosts[name].state for name in ask.sessions)
        counts = [f"{count} {state}" for state, count in sorted(states.items())]
        self._progress(f"{ask.did}: {', '.join(counts)}")

    def _release(self, ask: Ask, name: str) -> None:
        """Take a host as one that has given all its answers."""
        ask.awaited.remove(name)
        del self._asked[name]
        ask.then(self.hosts[name])
        self._rests[name] = self.now() + self._rest_s(self.hosts[name])

    def _variables(
        self, host: CampaignHost, session: HostSession, verb: Sequence[str]
    ) -> dict[str, Any]:
        """Return the variables of the playbook for a host.

        Nothing that a host sent is in them: Ansible expands templates in them.
        """
        pack, digest = str(self.campaign.pack), self.settings.pack_digest
        pack_directory = self._pack_directory(host)
        vtax = ["env", f"VTAX_HOME={host.home}", f"{pack_directory}/{PROGRAM}", "host"]
        bundle = f"{host.home}/{DIRECTORY}/{session.id}/{BUNDLE}"
        place = f"/var/tmp/vtax-{token_hex(8)}"
        return {
            "vtax_prepare": shlex.join([pack, "--home", host.home, "--digest", digest]),
            "vtax_creates": f"{pack_directory}/{MARK}",
            "vtax_python": host.python,
            "vtax_check": [*vtax, "check", "--json"],
            "vtax_command": [*vtax, *verb, "--json"],
            "vtax_status": shlex.join([*vtax, "status", session.id, "--json"]),
            "vtax_place": place,
            "vtax_copy": shlex.join(["sh", "-c", COPY, "sh", bundle, f"{place}/bundle"]),
            "vtax_target": str(self._target(host.name, session)),
        }

    def _pack_directory(self, host: CampaignHost) -> str:
        return f"{host.home}/packs/{self.settings.pack_digest[:SHORT]}"

    def _target(self, host: str, session: HostSession) -> Path:
        bundle = self.campaign.bundle(host, session.id)
        return self.campaign.incoming / bundle.relative_to(self.campaign.root)

    def _retry_session(self, session: HostSession) -> HostSession:
        if session.state in ("running", "done", "collected"):
            return session
        if session.state == "failed" or session.run:  # loaded once, by that id
            repetition = session.again + 1
            id_ = self.settings.run_id(session.number, repetition)
            return HostSession(session.number, id_, again=repetition)
        return replace(session, attempts=0)

    def _settle(self, host: CampaignHost) -> None:
        """Keep a host in the state that follows from its sessions."""
        self._keep(answers.settled(host, self.settings, self.now()))

    def _keep(self, host: CampaignHost) -> None:
        if self.campaign.is_aborted and host.state in _ABORTABLE:
            host = replace(host, state="aborted")
        self.hosts[host.name] = host
        self.campaign.keep(host)


def _set_boot(host: CampaignHost, session: HostSession) -> list[str]:
    """Return the arguments of `vtax host` that set the boot which a session needs next."""
    return ["boot", session.id]
