"""Runs the shipped playbook by the `ansible-playbook` of this machine, and reads what each host answered.

Ansible is a program that is found on PATH, never imported. Answers are read as they come from its log, one line of
JSON a result, so that a controller that is killed has lost nothing that was said. Texts of hosts are in it with their
line ends, in which a host could write as if it were another one; but each entry begins with the name of a user, which
is a secret of this run. Connections are not shared (`ControlPath=none`): once a task has ended nothing of Ansible is
on the host.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import IO, Any, Literal

from vtax.campaign.host_record import MAX_DETAIL
from vtax.errors import BadInput, VtaxError
from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.host.packages import packages_hint
from vtax.host.process import child_environment, find_program, run
from vtax.limits import ANSWER, FETCHED, LOGGED

PLAYBOOK = Path(__file__).with_name("playbook.yml")
OLDEST = (2, 14)
_ENTRY = r"\S+ \S+ p=\d+ u={secret} n=\S+ \w*\| "
_BANNER = re.compile(r"TASK \[(\w+)\]")
_RESULT = re.compile(
    r"(ok|changed|fatal|skipping): \[(.+?)\](?:: (UNREACHABLE|FAILED)!)?(?: => (\{.*\}))?\Z"
)
_CLOSED = re.compile(
    r"(Shared c|C)onnection to .* closed\.\s*"
)  # by ssh, where the command has a terminal
_BEGUN = re.compile(r"(ok|changed|fatal|skipping): \[(.+?)\](?:: (UNREACHABLE|FAILED)!)? => ")
MAX_ANSWER_BYTES = ANSWER.size_bytes
"""Bound of either stream that a host prints: Ansible needs a hundred times as much memory for short lines."""
MAX_LOGGED_BYTES = LOGGED.size_bytes
"""Bound of the line in which Ansible logs an answer, with what was printed twice."""
MAX_BUNDLE_BYTES = FETCHED.size_bytes
"""Bound of a bundle that Ansible brings, which it holds in memory where it becomes another user of the host."""
_SLURPED_BYTES = (
    MAX_BUNDLE_BYTES // 3 * 4 + MAX_ANSWER_BYTES
)  # of a bundle in base64, and what is around it
BOUNDED = Path(__file__).with_name("bounded")
"""Programs in place of ssh, sftp and scp that pass on a bounded number of bytes."""
_STOP_S = 30.0
TOO_LONG = f"its answer is larger than {MAX_ANSWER_BYTES >> 20} MiB"
_PRINTED = tuple(product(("", "module_"), ("stdout", "stderr")))
_BEGIN_BYTES = 4096  # of a line that is too long
ENVIRONMENT = {
    "ANSIBLE_STDOUT_CALLBACK": "default",
    "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
    "ANSIBLE_CALLBACK_FORMAT_PRETTY": "false",
    "ANSIBLE_DISPLAY_OK_HOSTS": "true",
    "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "true",
    "ANSIBLE_DISPLAY_FAILED_STDERR": "false",
    "ANSIBLE_DISPLAY_ARGS_TO_STDOUT": "false",
    "ANSIBLE_CHECK_MODE_MARKERS": "false",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_FORCE_COLOR": "false",
    "ANSIBLE_NO_LOG": "false",
    "ANSIBLE_NOCOWS": "1",
    "ANSIBLE_RETRY_FILES_ENABLED": "false",
    "ANSIBLE_DEPRECATION_WARNINGS": "false",
    "ANSIBLE_DIFF_ALWAYS": "false",
    "ANSIBLE_LOG_FILTER": "none",
    "ANSIBLE_LOCALHOST_WARNING": "false",
    "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_SSH_CONTROL_PATH": "none",
    "ANSIBLE_INJECT_FACT_VARS": "false",
    "ANSIBLE_CACHE_PLUGIN": "memory",
}
"""Settings that Ansible's output and connections depend on, and that keep facts of a host from replacing variables;
the rest is as its user configured it."""
Kind = Literal["ok", "failed", "unreachable", "skipped"]


@dataclass(frozen=True)
class Answer:
    """The result of a task on a host. result: as Ansible prints it; what a host said in it is untrusted.

    since, at: Unix times of this machine that it was given between: when the answer before it of that host was read,
    or the playbook began, and when it was read itself.
    """

    host: str
    task: str
    kind: Kind
    result: Mapping[str, Any] = field(default_factory=dict)
    since: float = 0.0
    at: float = 0.0

    def json(self) -> Mapping[str, Any]:
        """Return the JSON that a command printed, after what a login may print. Raises ValueError for anything
        else."""
        said = str(self.result.get("stdout", ""))
        found = parse_json(said[max(said.find("{"), 0) :])
        if not isinstance(found, dict):
            raise ValueError("no object")
        return found

    @property
    def error(self) -> str:
        """The error on one line, as vtax said it there, or else as Ansible says."""
        said = _CLOSED.sub("", str(self.result.get("stderr") or "")) or str(
            self.result.get("stdout") or ""
        )
        _, found, own = said.rpartition("vtax: ")
        text = (
            own
            if found
            else said or str(self.result.get("module_stderr") or self.result.get("msg") or "")
        )
        return one_line(text, MAX_DETAIL)

    @property
    def status(self) -> int:
        """Exit status of the command; -1 where there is none."""
        found = self.result.get("rc")
        return found if isinstance(found, int) else -1


def needed_program(name: str) -> str:
    """Return the path of a program of Ansible. Raises BadInput where it is not on PATH."""
    if found := find_program(name):
        return found
    raise BadInput(
        f"{name} is not on PATH",
        hint=f"{packages_hint('ansible-core')}; or without it: vtax campaign pack",
    )


def check_version() -> None:
    """Raise BadInput for an Ansible that is missing, or older than this needs."""
    said = run([needed_program("ansible-playbook"), "--version"], environment=ENVIRONMENT).stdout
    found = re.search(r"core (\d+)\.(\d+)", said.partition("\n")[0])
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise BadInput(
            f"this ansible-playbook is too old: {one_line(said.partition(chr(10))[0], 60)}",
            hint=f"vtax needs ansible-core {OLDEST[0]}.{OLDEST[1]} or newer: {packages_hint('ansible-core')}",
        )


@dataclass(frozen=True)
class Playbook:
    """Runs of the playbook. inventory: Ansible's. log: gets what it prints. held: a lock's descriptor."""

    inventory: Path
    log: Path
    forks: int
    held: int

    def run(
        self, tasks: Sequence[str], variables: Mapping[str, Mapping[str, Any]]
    ) -> Generator[Answer]:
        """Carry out tasks on hosts, and yield the answers as they come. variables: host -> those of the tasks.

        Raises VtaxError where ansible-playbook itself fails. The program is ended when the iterator is closed.
        """
        with TemporaryDirectory(prefix="vtax-campaign-") as made, self.log.open("ab") as log:
            own, limit = Path(made, "vtax.json"), Path(made, "limit")
            own.write_text(json.dumps({"all": {"hosts": variables}}))
            limit.write_text("".join(f"{name}\n" for name in variables))
            command = [
                needed_program("ansible-playbook"),
                "-v",
                "-i",
                str(self.inventory),
                "-i",
                str(own),
                "--forks",
                str(self.forks),
                "--limit",
                f"@{limit}",
                "--tags",
                ",".join(tasks),
                str(PLAYBOOK),
            ]
            secret = token_hex(16)
            with _pipe() as (printed, writing):
                own_log = {"ANSIBLE_LOG_PATH": f"/dev/fd/{writing}", "LOGNAME": secret}
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(self.held, writing),
                    env=_environment(tasks, own_log),
                    cwd=self.inventory.parent,
                    start_new_session=True,
                )
            try:
                any_answer = False
                for answer in answers_of(printed, secret):
                    any_answer = True
                    yield answer
                status = process.wait()
                if not any_answer:
                    raise VtaxError(
                        f"ansible-playbook ended with exit status {status}, without an answer",
                        where=str(self.log),
                        hint="read the end of that file",
                    )
            finally:
                printed.close()
                _end(process)


@contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], int]]:
    """Make a pipe; yield what reads it, and a descriptor for a program, which opens it by /dev/fd.

    It has no name of its own: to open such a one waits for a reader, for ever where this process was killed.
    """
    reading, writing = os.pipe()
    try:
        yield os.fdopen(reading, "rb"), writing
    finally:
        os.close(writing)


def _environment(tasks: Sequence[str], own_log: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ansible-playbook, in which connections of ssh are bounded for these tasks."""
    found = child_environment({**ENVIRONMENT, **own_log})
    most_bytes = _SLURPED_BYTES if "fetch" in tasks else MAX_ANSWER_BYTES
    found |= {"VTAX_SSH_PATH": found["PATH"], "VTAX_MOST_BYTES": str(most_bytes)}
    found["VTAX_PYTHON"] = sys.executable
    return found | {"PATH": f"{BOUNDED}:{found['PATH']}"}


def answers_of(printed: IO[bytes], secret: str) -> Iterator[Answer]:
    """Yield the answers of what Ansible logs. secret: the user that it runs as, in its log.

    A line that is too long is a failure that says so, to its end.
    """
    task, began = "", time.time()
    before: dict[str, float] = {}
    entry, is_whole = re.compile(_ENTRY.format(secret=secret)), True
    while line := printed.readline(MAX_LOGGED_BYTES):
        is_start, is_whole = is_whole, line.endswith(b"\n")
        text = (line if is_whole else line[:_BEGIN_BYTES]).decode(errors="replace").rstrip("\n")
        if not (is_start and (start := entry.match(text))):
            continue
        text = text[start.end() :]
        if banner := _BANNER.match(text):
            task = banner[1]
        elif found := (_RESULT if is_whole else _BEGUN).match(text):
            host, at = found[2], time.time()
            kind, result = _kind(found[1], found[3]), _object(found[4]) if is_whole else {}
            if not is_whole or _is_cut(result):
                kind, result = "failed", {"msg": TOO_LONG}
            yield Answer(host, task, kind, result, before.get(host, began), at)
            before[host] = at


def _is_cut(result: Mapping[str, Any]) -> bool:
    """Return whether a host printed more than it may, of which the rest was never read."""
    printed = [str(result.get(f"{origin}{stream}", "")) for origin, stream in _PRINTED]
    return any(len(each.encode(errors="replace")) >= MAX_ANSWER_BYTES for each in printed)


def _kind(word: str, failure: str | None) -> Kind:
    if word == "fatal":
        return "unreachable" if failure == "UNREACHABLE" else "failed"
    return "skipped" if word == "skipping" else "ok"


def _object(text: str | None) -> Mapping[str, Any]:
    with suppress(ValueError):
        found = parse_json(text or "{}")
        if isinstance(found, dict):
            return found
    return {}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End ansible-playbook and what it started, if it runs still; what it began on a host may be repeated."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
