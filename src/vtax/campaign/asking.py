"""Asks hosts by several playbooks at once, whose answers are read by threads.

The threads only read. Answers are taken one by one by the thread that asks, which alone knows the hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from queue import Empty, Queue
from threading import Event, Thread

from vtax.campaign.ansible import Answer, Playbook
from vtax.campaign.host_record import CampaignHost, HostSession

_END_S = 0.2


@dataclass(eq=False)
class Ask:
    """Tasks that hosts carry out.

    did: the tasks in the words of a line of progress.
    last: the task after which a host has given all its answers.
    sessions: name of a host -> the session that it is asked about.
    after: returns a host as it is after an answer.
    then: takes a host that has given all its answers.
    awaited: names of the hosts that have not.
    """

    did: str
    last: str
    sessions: Mapping[str, HostSession]
    after: Callable[[CampaignHost, HostSession, Answer], CampaignHost]
    then: Callable[[CampaignHost], None]
    awaited: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.awaited = set(self.sessions)


class Background:
    """Reads answers, each ask in a thread of its own. At its end what still asks is ended; hosts measure on."""

    def __init__(self, playbook: Playbook) -> None:
        self._playbook = playbook
        self._queue: Queue[tuple[Ask, Answer | BaseException | None]] = Queue()
        self._threads: set[Thread] = set()
        self._has_ended = Event()

    def close(self) -> None:
        """End the playbooks; one that only begins now is met by a later look."""
        self._has_ended.set()
        for thread in self._threads:
            while thread.is_alive():
                self._playbook.end()
                thread.join(_END_S)

    def begin(self, ask: Ask, answers: Generator[Answer]) -> None:
        """Have a thread read the answers of an ask."""
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        thread = Thread(target=self._read, args=(ask, answers), name=f"vtax {ask.did}")
        self._threads.add(thread)
        thread.start()

    def take(self, timeout_s: float) -> tuple[Ask, Answer | None] | None:
        """Return the next answer, with None in its place at the end of an ask; None where none comes in time.

        Raises what ended the reading of an ask.
        """
        try:
            ask, answer = self._queue.get(timeout=timeout_s)
        except Empty:
            return None
        if isinstance(answer, BaseException):
            raise answer
        return ask, answer

    def _read(self, ask: Ask, answers: Generator[Answer]) -> None:
        try:
            with closing(answers):
                for answer in answers:
                    self._queue.put((ask, answer))
                    if self._has_ended.is_set():
                        return
        except BaseException as error:
            self._queue.put((ask, error))
        else:
            self._queue.put((ask, None))
