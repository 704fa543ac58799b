"""What the agent learns after its start: files, ports, the audit. Sent by the request `extend`; runs in its module.

Kept out of `agent` because a guest's start waits for that one to be read and compiled. Same rules: standard library
only, few imports, names shared with `agent` (`REQUESTS`, `JOBS`, `pump`, `read_file`).
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vtax.guest.agent import JOBS, MAX_PAYLOAD, REQUESTS, pump, read_file


def wait_port(asked: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Wait until a TCP port is listened on; gives up when the program `handle` ends or the time is over."""
    job = JOBS.get(asked["handle"])
    deadline = time.monotonic() + asked["timeout_s"]
    pause_s = 0.001
    while not listening(asked["port"]):
        if time.monotonic() > deadline or (job is not None and job.status is not None):
            return {"listening": False}
        pump(pause_s)
        pause_s = min(pause_s * 1.5, 0.02)
    return {"listening": True}


def listening(port: int) -> bool:
    """Whether a TCP socket listens on a port (proc(5), /proc/net/tcp: state 0A)."""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = read_file(path, MAX_PAYLOAD).decode().splitlines()
        except OSError:
            continue
        for fields in map(str.split, lines[1:]):
            if fields[3] == "0A" and fields[1].endswith(f":{port:04X}"):
                return True
    return False


def put(asked: dict[str, Any], payload: bytes) -> dict[str, Any]:
    """Write a file, its directories included."""
    os.makedirs(os.path.dirname(asked["path"]) or "/", exist_ok=True)  # noqa: PTH103, PTH120
    fd = os.open(asked["path"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, asked["mode"])
    try:
        view = memoryview(payload)
        while view:
            view = view[os.write(fd, view) :]
        os.fchmod(fd, asked["mode"])
    finally:
        os.close(fd)
    return {}


def get(asked: dict[str, Any], payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Read a file of at most `limit` bytes."""
    data = read_file(asked["path"], asked["limit"] + 1)
    if len(data) > asked["limit"]:
        raise OSError(f"{asked['path']} is larger than {asked['limit']} bytes")
    return {}, data


REQUESTS.update({f.__name__: f for f in (wait_port, put, get)})
