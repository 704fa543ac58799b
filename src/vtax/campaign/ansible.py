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
_SAID_BEFORE = re.compile(r"\A(Task failed: |Failed to connect to the host via ssh: )+")
_BEGUN = re.compile(r"(ok|changed|fatal|skipping): \[(.+?)\](?:: (UNREACHABLE|FAILED)!)? => ")
MAX_ANSWER_BYTES = ANSWER.size_bytes
"""Bound of either stream that a host prints: Ansible needs a hundred times as much memory for short lines."""
MAX_LOGGED_BYTES = LOGGED.size_bytes
"""Bound of the line in which Ansible logs an answer, with what was printed twice."""
MAX_BUNDLE_BYTES = FETCHED.size_bytes
"""Bound of a bundle that Ansible brings."""
_LIMITED = (124, 137)
"""Exit statuses of timeout(1), which ends every command on the host itself."""
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
    "ANSIBLE_SSH_USETTY": "false",
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
        """Return the JSON object that a command printed, without what the login printed before it.

        Raises ValueError where the command printed anything else.
        """
        stdout = self._text("stdout")
        document = parse_json(stdout[max(stdout.find("{"), 0) :])
        if not isinstance(document, dict):
            raise ValueError("no object")
        return document

    @property
    def error(self) -> str:
        """The error on one line: that of vtax on the host, or else what the command or Ansible printed."""
        if self.result.get("rc") in _LIMITED:
            return "it took too long, and was ended on the host"
        output = _CLOSED.sub("", self._text("stderr")) or self._text("stdout")
        _, marker, error_of_vtax = output.rpartition("vtax: ")
        if marker:
            output = error_of_vtax
        elif not output:
            output = self._text("module_stderr") or _SAID_BEFORE.sub("", self._text("msg"))
        return one_line(output, MAX_DETAIL)

    @property
    def status(self) -> int:
        """Exit status of the command; -1 where there is none, or its limit ended it."""
        status = self.result.get("rc")
        return status if isinstance(status, int) and status not in _LIMITED else -1

    def _text(self, key: str) -> str:
        return str(self.result.get(key) or "")


def needed_program(name: str) -> str:
    """Return the path of a program of Ansible. Raises BadInput where it is not on PATH."""
    path = find_program(name)
    if not path:
        raise BadInput(
            f"{name} is not on PATH",
            hint=f"{packages_hint('ansible-core')}; or without it: vtax campaign pack",
        )
    return path


def check_version() -> None:
    """Raise BadInput for an Ansible that is missing, or older than this needs."""
    command = [needed_program("ansible-playbook"), "--version"]
    first_line, _, _ = run(command, environment=ENVIRONMENT).stdout.partition("\n")
    version = re.search(r"core (\d+)\.(\d+)", first_line)
    if version is None or (int(version[1]), int(version[2])) < OLDEST:
        raise BadInput(
            f"this ansible-playbook is too old: {one_line(first_line, 60)}",
            hint=f"vtax needs ansible-core {OLDEST[0]}.{OLDEST[1]} or newer: {packages_hint('ansible-core')}",
        )


@dataclass(frozen=True)
class Playbook:
    """Runs tasks of the playbook on hosts.

    inventory: of Ansible.
    log: file that gets what Ansible prints.
    forks: how many hosts Ansible speaks to at once.
    lock: descriptor of the campaign's lock, which Ansible holds too while it runs.
    processes: of Ansible, while they run.
    """

    inventory: Path
    log: Path
    forks: int
    lock: int
    processes: set[subprocess.Popen[bytes]] = field(default_factory=set, init=False)

    def end(self) -> None:
        """End what runs, called by another thread than reads its answers."""
        for process in [*self.processes]:
            _end(process)

    def run(
        self, tasks: Sequence[str], variables: Mapping[str, Mapping[str, Any]]
    ) -> Generator[Answer]:
        """Carry out tasks on hosts, and yield the answers as they come. variables: host -> its variables.

        Raises VtaxError where ansible-playbook itself fails. The program is ended when the iterator is closed.
        """
        with TemporaryDirectory(prefix="vtax-campaign-") as directory, self.log.open("ab") as log:
            inventory, limit = Path(directory, "vtax.json"), Path(directory, "limit")
            inventory.write_text(json.dumps({"all": {"hosts": variables}}))
            limit.write_text("".join(f"{name}\n" for name in variables))
            command = [
                needed_program("ansible-playbook"),
                "-v",
                "-i",
                str(self.inventory),
                "-i",
                str(inventory),
                "--forks",
                str(self.forks),
                "--limit",
                f"@{limit}",
                "--tags",
                ",".join(tasks),
                str(PLAYBOOK),
            ]
            secret = token_hex(16)
            with _pipe() as (log_pipe, write_fd):
                log_settings = {"ANSIBLE_LOG_PATH": f"/dev/fd/{write_fd}", "LOGNAME": secret}
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(self.lock, write_fd),
                    env=_environment(log_settings),
                    cwd=self.inventory.parent,
                    start_new_session=True,
                )
            self.processes.add(process)
            try:
                has_answer = False
                for answer in parse_answers(log_pipe, secret):
                    has_answer = True
                    yield answer
                status = process.wait()
                if not has_answer:
                    raise VtaxError(
                        f"ansible-playbook ended with exit status {status}, without an answer",
                        where=str(self.log),
                        hint="read the end of that file",
                    )
            finally:
                log_pipe.close()
                _end(process)
                self.processes.discard(process)


@contextmanager
def _pipe() -> Iterator[tuple[IO[bytes], int]]:
    """Yield the reading end of a new pipe, and the descriptor of its other end, which a program opens by /dev/fd.

    A named pipe would not do: a program that opens one waits for a reader, for ever where this process was killed.
    """
    read_fd, write_fd = os.pipe()
    try:
        yield os.fdopen(read_fd, "rb"), write_fd
    finally:
        os.close(write_fd)


def _environment(log_settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ansible-playbook, in which connections of ssh are bounded."""
    environment = child_environment({**ENVIRONMENT, **log_settings})
    path = environment["PATH"]
    return environment | {
        "VTAX_SSH_PATH": path,
        "VTAX_MOST_BYTES": str(MAX_ANSWER_BYTES),
        "VTAX_MOST_FILE_BYTES": str(MAX_BUNDLE_BYTES),
        "VTAX_PYTHON": sys.executable,
        "PATH": f"{BOUNDED}:{path}",
    }


def parse_answers(log: IO[bytes], secret: str) -> Iterator[Answer]:
    """Yield the answers in what Ansible logs. secret: the user that it runs as, in its log.

    A line that is too long becomes a failed answer that says so; the rest of the line is passed over.
    """
    task, began = "", time.time()
    answer_times: dict[str, float] = {}
    entry, is_whole = re.compile(_ENTRY.format(secret=secret)), True
    while line := log.readline(MAX_LOGGED_BYTES):
        is_start, is_whole = is_whole, line.endswith(b"\n")
        pattern = _RESULT
        if not is_whole:
            line, pattern = line[:_BEGIN_BYTES], _BEGUN
        text = line.decode(errors="replace").rstrip("\n")
        start = entry.match(text)
        if start is None or not is_start:
            continue
        text = text[start.end() :]
        if banner := _BANNER.match(text):
            task = banner[1]
        elif match := pattern.match(text):
            host, at = match[2], time.time()
            kind, result = _kind(match[1], match[3]), dict[str, Any]()
            if is_whole:
                result = _object(match[4])
            if not is_whole or _is_cut(result):
                kind, result = "failed", {"msg": TOO_LONG}
            yield Answer(host, task, kind, result, answer_times.get(host, began), at)
            answer_times[host] = at


def _is_cut(result: Mapping[str, Any]) -> bool:
    """Return whether a host printed more than it may, of which the rest was never read."""
    outputs = [str(result.get(f"{origin}{stream}", "")) for origin, stream in _PRINTED]
    return any(len(output.encode(errors="replace")) >= MAX_ANSWER_BYTES for output in outputs)


def _kind(word: str, failure: str | None) -> Kind:
    if word == "fatal":
        return "unreachable" if failure == "UNREACHABLE" else "failed"
    return "skipped" if word == "skipping" else "ok"


def _object(text: str | None) -> dict[str, Any]:
    with suppress(ValueError):
        value = parse_json(text or "{}")
        if isinstance(value, dict):
            return value
    return {}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End ansible-playbook and what it started, where it still runs. A task that is cut off is repeated later."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
