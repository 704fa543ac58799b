"""Runs external programs: argv lists, a timeout, captured output, one error type.

Every child has a tag in its environment (`VTAX_MARK`): `vtax clean` finds and terminates it even when vtax was killed
before it recorded the PID. Long-lived programs (`spawn`) have a tag that the journal registers; programs that
vtax waits for (`run`) have one made of its PID and start time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vtax.errors import CommandFailed

TAG_VARIABLE = "VTAX_MARK"
DEFAULT_TIMEOUT_S = 60.0
_GUEST_VARIABLES = ("PATH", "HOME")
_SHOWN_TAIL = 600


@dataclass(frozen=True)
class Result:
    """Result of a finished program: argv, exit status, stdout and stderr as text."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


def start_time_of(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot (proc(5), stat field 22); None when it is not alive."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def cpu_s_of(stat: str) -> float:
    """Return the CPU seconds of a process from its stat (proc(5), fields 14 and 15). Raises ValueError or IndexError."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tag_of_run(pid: int, start_time: int | None) -> str:
    """Return the default tag of programs run by the vtax process with this PID and start time."""
    return f"vtax-run-{pid}-{start_time}"


@cache
def _own_tag(pid: int) -> str:
    return tag_of_run(pid, start_time_of(pid))


def find_program(name: str) -> str | None:
    """Return the absolute path of a program, or None; the sbin directories are searched too, as PATH often lacks them."""
    return shutil.which(name, path=_search_path())


def _search_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def child_environment(
    extra: Mapping[str, str] | None = None,
    tag: str | None = None,
    *,
    inherited_names: Collection[str] | None = None,
) -> dict[str, str]:
    """Return the environment of a child: the C locale (output is parsed), the full PATH, the tag.

    extra: further variables.
    tag: of the child, in TAG_VARIABLE.
    inherited_names: of variables of this process; all when absent.
    """
    environment = {}
    for name, value in os.environ.items():
        is_inherited = inherited_names is None or name in inherited_names
        if is_inherited and name != "LANG" and not name.startswith("LC_"):
            environment[name] = value
    environment["LC_ALL"] = "C.UTF-8"
    environment["PATH"] = _search_path()
    environment.update(extra or {})
    if tag:
        environment[TAG_VARIABLE] = tag
    return environment


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    check: bool = True,
    input_text: str | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    network_namespace: str | None = None,
    tag: str | None = None,
) -> Result:
    """Run a program to its end.

    network_namespace: a name under /run/netns to enter first (through nsenter, which, unlike `ip netns exec`,
    leaves /sys and the cgroups visible).
    tag: replaces the tag of this process, for programs with their own registration.
    Raises CommandFailed when the program is missing, cannot be started, outlives timeout_s (it is killed), or, with
    check, exits with a status other than 0.
    """
    command = [str(part) for part in argv]
    if network_namespace:
        command = ["nsenter", f"--net=/run/netns/{network_namespace}", "--", *command]
    try:
        process = subprocess.run(
            command,
            check=False,
            input=input_text,
            stdin=subprocess.DEVNULL if input_text is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=child_environment(environment, tag or _own_tag(os.getpid())),
            cwd=cwd,
        )
    except OSError as error:
        raise _not_started(command[0], error) from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{' '.join(command)} did not end within {timeout_s:g} s") from error
    result = Result(tuple(command), process.returncode, process.stdout, process.stderr)
    if check and result.status != 0:
        tail = (result.stderr.strip() or result.stdout.strip())[-_SHOWN_TAIL:]
        raise CommandFailed(f"{' '.join(command)} failed with status {result.status}: {tail}")
    return result


def spawn(
    argv: Sequence[str | Path],
    *,
    tag: str,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    before_exec: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a long-lived program in its own session; the caller has registered `tag` (resources.TaggedProcesses).

    It belongs to a guest or a daemon and inherits only PATH and HOME. cwd: its working directory, where runtimes
    create files (conmon its `oom`); that of vtax when absent.
    pass_fds stay open in the child under their numbers. before_exec runs in the child between fork and exec: joining
    cgroups and namespaces, nothing that allocates much. Unset streams are /dev/null. Raises CommandFailed when the
    program is missing or does not start.
    """
    command = [str(part) for part in argv]
    try:
        return subprocess.Popen(
            command,
            stdin=_or_null(stdin),
            stdout=_or_null(stdout),
            stderr=_or_null(stderr),
            env=child_environment(environment, tag, inherited_names=_GUEST_VARIABLES),
            cwd=cwd,
            pass_fds=pass_fds,
            preexec_fn=before_exec,  # noqa: PLW1509 - beside it only a thread without locks runs (cli.streams)
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(command[0], error) from error


def _or_null(stream: int | None) -> int:
    return subprocess.DEVNULL if stream is None else stream


def _not_started(program: str, error: OSError) -> CommandFailed:
    if isinstance(error, FileNotFoundError) and error.filename == program:
        return CommandFailed(
            f"{program} is not installed", hint=f"install the package that provides {program}"
        )
    return CommandFailed(
        f"{program} cannot be started: {error.strerror}", where=str(error.filename or "")
    )
