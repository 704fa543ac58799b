"""The agent: runs inside every guest and does what the controller asks over one byte stream.

Sent over that stream by `guest.bootstrap`, with the globals READ and WRITE (file descriptors). Standard library only,
Python 3.11 or later under `-I -S -B`. Its start is part of every guest's start and emulated CPUs run it up to thirty
times slower, so it imports next to nothing: `posix` because `os` makes the classes of collections, `_signal` because
`signal` builds enums, no `json` because that brings `re`. What is asked after the start only (background
programs, files, ports, the audit) is `agent_more`, sent by the request `extend`.

Stream: frames as in `guest.protocol`, one request and one answer at a time. When the stream ends, everything the
agent started is killed and the agent ends; as PID 1 it also reaps orphans, and turns the machine off.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import posix as os
import select
import time
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

READ: int = globals()["READ"]
WRITE: int = globals()["WRITE"]
MAGIC = b"\xabvtx"
MAX_HEADER = 1 << 20
MAX_PAYLOAD = 1 << 26
CHUNK = 1 << 16
LITERALS = {"__builtins__": {}, "true": True, "false": False, "null": None}
KILL_GRACE_S = 5.0
POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF, reboot(2)


class Disconnected(Exception):
    """The controller's end of the stream is closed."""


# The stream


def receive(size: int) -> bytes:
    """Exactly size bytes from the controller."""
    parts = []
    while size:
        try:
            part = os.read(READ, min(size, CHUNK))
        except BlockingIOError:
            select.select([READ], [], [])
            continue
        except OSError:
            raise Disconnected from None
        if not part:
            raise Disconnected
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send(data: bytes) -> None:
    """All of data to the controller."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(WRITE, view[:CHUNK]) :]
        except BlockingIOError:
            select.select([], [WRITE], [])
        except OSError:
            raise Disconnected from None


def receive_request() -> tuple[dict[str, Any], bytes]:
    """Return the next request: header (a dict) and payload (bytes). Malformed: nothing after it can fit either."""
    head = receive(16)
    lengths = head[4:12]
    header_size = int.from_bytes(lengths[:4], "little")
    payload_size = int.from_bytes(lengths[4:], "little")
    if head[:4] != MAGIC or header_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
        raise Disconnected
    header = receive(header_size)
    payload = receive(payload_size)
    if crc32(payload, crc32(header, crc32(lengths))) != int.from_bytes(head[12:], "little"):
        raise Disconnected
    # JSON as the controller writes it is a Python expression but for three names; it sent this program as well.
    return eval(header.decode(), dict(LITERALS)), payload


def send_answer(header: dict[str, Any], payload: bytes = b"") -> None:
    """Answer the current request."""
    text = to_json(header).encode()
    lengths = len(text).to_bytes(4, "little") + len(payload).to_bytes(4, "little")
    check = crc32(payload, crc32(text, crc32(lengths)))
    send(MAGIC + lengths + check.to_bytes(4, "little") + text + payload)


def to_json(value: object) -> str:
    """Return a value of None, bool, int, float, str, list or dict as ASCII JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(to_json(str(k)) + ":" + to_json(v) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(to_json, value)) + "]"
    text = str(value)
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return '"' + text + '"'
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return (
        '"'
        + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\u{c:04x}" for c in codes)
        + '"'
    )


# Programs


class Job:
    """A program this agent started: its pipes, what it wrote (bounded), and how it ended."""

    def __init__(self, argv: list[str], environment: dict[str, str], cwd: str, limit: int) -> None:
        self.limit = limit
        self.texts = [bytearray(), bytearray()]
        self.truncated = False
        self.status: int | None = None
        self.usage: list[float] = []
        self.run_delay_s: float | None = None
        self.seconds = 0.0
        read_ends, write_ends = zip(os.pipe(), os.pipe(), strict=True)
        program_files = (os.open("/dev/null", os.O_RDONLY), *write_ends)
        try:
            os.chdir(cwd)
            self.started_at = time.monotonic()
            self.pid = os.posix_spawn(
                find_program(argv[0], environment.get("PATH", "")),
                argv,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(program_files)
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=range(1, 32),
            )
        except BaseException:
            for fd in read_ends:
                os.close(fd)
            raise
        finally:
            os.chdir("/")
            for fd in program_files:
                os.close(fd)
        for fd in read_ends:
            os.set_blocking(fd, False)
        self.outputs = dict(zip(read_ends, self.texts, strict=True))

    def take(self, fd: int) -> bool:
        """Read what is there from one output; False when nothing more is there now."""
        try:
            part = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        text = self.outputs[fd]
        room = self.limit - len(text)
        self.truncated |= len(part) > room
        text += part[:room]
        if not part:
            os.close(fd)
            del self.outputs[fd]
        return bool(part)

    def signal(self, number: int) -> None:
        """Signal the program and all of its process group."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            return

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; True when it ended in time."""
        deadline = time.monotonic() + timeout_s
        while self.status is None and (remaining_s := deadline - time.monotonic()) > 0:
            pump(remaining_s)
        return self.status is not None

    def finish(self) -> None:
        """After its end: take the last output, close the pipes."""
        for fd in list(self.outputs):
            while self.take(fd):
                pass
        for fd in self.outputs:
            os.close(fd)
        self.outputs = {}


JOBS: dict[int, Job] = {}  # number -> Job
FILES: dict[str, int] = {}  # path -> descriptor, of what is read around every trial


def find_program(name: str, path: str) -> str:
    """Return the file to execute. posix_spawnp would search the agent's own PATH instead of the program's."""
    if "/" in name:
        return name
    for directory in path.split(":"):
        candidate = directory + "/" + name
        if os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(2, "no such program", name)


def reap() -> None:
    """Collect every child that ended: our own, and as PID 1 everyone's orphans."""
    while True:
        try:
            exit_info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if exit_info is None:
            return
        ended_at = time.monotonic()
        job = next(
            (job for job in JOBS.values() if job.pid == exit_info.si_pid and job.status is None),
            None,
        )
        run_delay_s = None if job is None else run_delay(exit_info.si_pid)
        _, status, usage = os.wait4(exit_info.si_pid, 0)
        if job is not None:
            job.seconds = ended_at - job.started_at
            job.run_delay_s = run_delay_s
            job.status = status
            job.usage = list(usage)


def run_delay(pid: int) -> float | None:
    """Seconds in which the main thread of a process that ended, and was not waited for, had waited for a CPU."""
    try:
        return int(read_file(f"/proc/{pid}/schedstat", 80).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def pump(timeout_s: float | None, request: bool = False) -> bool:
    """Wait for something to happen and deal with it; True when a request is there (looked for only if `request`)."""
    poll = select.poll()
    poll.register(READ, select.POLLIN if request else 0)
    poll.register(WAKE_READ, select.POLLIN)
    owners = {}
    for job in JOBS.values():
        for fd in job.outputs:
            poll.register(fd, select.POLLIN)
            owners[fd] = job
    requested = False
    for fd, _ in poll.poll(None if timeout_s is None else min(timeout_s * 1000, 86400000)):
        if fd == READ:
            if not request:
                raise Disconnected
            requested = True
        elif fd == WAKE_READ:
            os.read(WAKE_READ, CHUNK)
            reap()
        else:
            owners[fd].take(fd)
    return requested


# Requests: each takes the header and the payload and returns the answer's header, or header and payload


def start(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Start a program in the background; answers its handle."""
    handle = max(JOBS, default=0) + 1
    environment = requested["environment"]
    if b"VTAX_MARK" in os.environ:
        environment["VTAX_MARK"] = os.environ[b"VTAX_MARK"].decode()
    JOBS[handle] = Job(requested["argv"], environment, requested["cwd"], requested["limit"])
    return {"handle": handle}


def run(requested: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Run a program to its end, or kill its process group at the timeout."""
    handle = start(requested, payload)["handle"]
    timed_out = not JOBS[handle].wait(requested["timeout_s"])
    return collect(handle, timed_out)


def collect(handle: int, timed_out: bool = False) -> tuple[dict[str, Any], bytes]:
    """Return the answer about a job that is over, or is killed now; the job is forgotten."""
    job = JOBS[handle]
    if job.status is None:
        job.signal(signal.SIGKILL)
        if not job.wait(KILL_GRACE_S):
            raise TimeoutError(f"process {job.pid} does not end after SIGKILL")
    job.finish()
    del JOBS[handle]
    outcome = {
        "status": os.waitstatus_to_exitcode(job.status or 0),
        "timed_out": timed_out,
        "truncated": job.truncated,
        "inside_s": job.seconds,
        "usage": job.usage,
        "delay_s": job.run_delay_s,
        "stdout_size": len(job.texts[0]),
    }
    return outcome, bytes(job.texts[0] + job.texts[1])


def sample(requested: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Both clocks, and up to `limit` bytes of several files of /proc, read by descriptors that stay open.

    Sizes in order, null for a file that cannot be read; began_s: the monotonic clock before the first.
    """
    began_s = time.monotonic()
    texts: list[bytes | None] = []
    for path in requested["paths"]:
        try:
            if path not in FILES:
                FILES[path] = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            texts.append(read_from(FILES[path], requested["limit"]))
        except OSError:
            texts.append(None)
    sizes = [None if t is None else len(t) for t in texts]
    data = b"".join(t for t in texts if t)
    wall_s = time.time()
    return {
        "sizes": sizes,
        "began_s": began_s,
        "monotonic_s": time.monotonic(),
        "wall_s": wall_s,
    }, data


def read_file(path: str, limit: int, offset: int = 0) -> bytes:
    """Up to limit bytes of a file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return read_from(fd, limit, offset)
    finally:
        os.close(fd)


def read_from(fd: int, limit: int, offset: int = 0) -> bytes:
    """Up to limit bytes of an open file."""
    parts = []
    while limit > 0 and (part := os.pread(fd, min(limit, CHUNK), offset)):
        parts.append(part)
        offset += len(part)
        limit -= len(part)
    return b"".join(parts)


def extend(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Run more source in this module: functions it puts into REQUESTS can be asked from then on."""
    exec(compile(payload, requested["name"], "exec"), globals())
    return {}


def shutdown(requested: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Answer, then end; as PID 1 turn the machine off."""
    send_answer({"id": requested["id"], "ok": True})
    raise Disconnected


REQUESTS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (run, start, sample, extend, shutdown)
}


# Life


def main() -> None:
    """Answer requests until the stream ends."""
    try:
        while True:
            if not pump(None, request=True):
                continue
            requested, payload = receive_request()
            try:
                answer = REQUESTS[requested["op"]](requested, payload)
            except Disconnected:
                raise
            except Exception as error:
                reason = getattr(error, "strerror", None) or type(error).__name__
                answer = (
                    {
                        "ok": False,
                        "error": f"{reason}: {getattr(error, 'filename', None) or error}"[:2000],
                    },
                    b"",
                )
            header, data = answer if isinstance(answer, tuple) else (answer, b"")
            send_answer({"id": requested["id"], "ok": True, **header}, data)
    except Disconnected:
        pass
    except BaseException as error:
        os.write(2, f"vtax agent: {error!r}\n".encode())
    end()


def end() -> NoReturn:
    """Kill what was started and end; as PID 1 turn the machine off (a container just ends)."""
    for job in JOBS.values():
        if job.status is None:
            job.signal(signal.SIGKILL)
    if os.getpid() == 1:
        import ctypes

        ctypes.CDLL(None).reboot(POWER_OFF)
    os._exit(0)


while (
    _spare := os.open("/dev/null", os.O_RDWR)
) <= 2:  # or a pipe could become a program's standard stream
    pass
os.close(_spare)
os.chdir("/")
WAKE_READ, _wake_write = os.pipe()
os.set_blocking(WAKE_READ, False)
os.set_blocking(_wake_write, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.signal(signal.SIGTERM, lambda *_: end())
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.set_wakeup_fd(_wake_write, warn_on_full_buffer=False)
main()
