"""Attacks on `vtax serve` over loopback: slow clients, many clients, hostile requests, and memory without bound."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from random import Random

import pytest
from a_run import begin, fill
from attack import LONGEST_S
from page_server import served
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from vtax.errors import BadInput
from vtax.host.home import Home
from vtax.host.lock import is_measuring, measuring_lock
from vtax.page.pages import Pages
from vtax.page.server import HEADER_S, MOST_CONNECTIONS, Server, _Complaints
from vtax.store.store import Store

RUNS = 6
MOST_MEMORY = 340 << 20
HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
DOWNLOADS = ("csv", "parquet", "json", "markdown", "latex", "bundle", "benchfmt", "bmf", "ro-crate")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("page")).ensure()
    with Store.open(made.root / "store.sqlite") as store:
        for number in range(1, RUNS + 1):
            fill(
                begin(store, f"tour-{number}", started_at=1.7e9 + number * 86_400),
                blocks=5,
                seed=number,
            )
    return made


@dataclass
class Served:
    """`vtax serve` in a process of its own. errors: the file of its standard error."""

    process: subprocess.Popen[str]
    port: int
    errors: Path

    def open(self, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
        """A connection that has sent this."""
        made = socket.create_connection((address, self.port), timeout=LONGEST_S)
        made.sendall(sent)
        return made

    def get(self, path: str = "/", timeout_s: float = LONGEST_S) -> int:
        """The status of a page that is read whole."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=timeout_s
            ) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.read()
            return error.code

    def cpu_s(self) -> float:
        """CPU time of the server, without its worker, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> dict[int, int]:
        """Process -> its peak memory in bytes, of the server and its children."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = {}
        for pid in (
            self.process.pid,
            *(int(each) for task in tasks for each in task.read_text().split()),
        ):
            with suppress(OSError, TypeError):
                status = Path(f"/proc/{pid}/status").read_text()
                found[pid] = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024  # type: ignore[index]
        return found


@contextmanager
def serving(home: Home, descriptors: int = 0) -> Iterator[Served]:
    """The command until the block ends. descriptors: soft and hard limit; 0 for a soft one of 1024."""
    errors = home.root / "errors.txt"
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = (descriptors or 1024, descriptors or hard)
    with (
        errors.open("w") as file,
        subprocess.Popen(
            [
                "prlimit",
                f"--nofile={limits[0]}:{limits[1]}",
                sys.executable,
                "-m",
                "vtax",
                "serve",
                "--port",
                "0",
            ],
            env={**os.environ, "VTAX_HOME": str(home.root)},
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        ) as process,
    ):
        made = Served(
            process, int(process.stdout.readline().rstrip("/\n").rpartition(":")[2]), errors
        )
        try:
            while made.get("/static/page.css") != 200:
                time.sleep(0.1)
            yield made
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    said = errors.read_text()
    assert "Traceback" not in said, said[-3000:]


def is_closed(connection: socket.socket, within_s: float) -> bool:
    """Whether the other end closes it within this time; what comes before is read."""
    deadline = time.monotonic() + within_s
    while (left_s := deadline - time.monotonic()) > 0:
        connection.settimeout(left_s)
        try:
            if not connection.recv(65536):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


@pytest.mark.parametrize("descriptors", [0, 300])
def test_more_half_headers_than_descriptors_keep_nobody_from_the_page(home, descriptors):
    with serving(home, descriptors) as server, ExitStack() as open_ones:
        for _ in range(1300):
            open_ones.enter_context(server.open(HALF))
        before_s, started_at = server.cpu_s(), time.monotonic()
        while time.monotonic() - started_at < HEADER_S + 3:
            requested_at = time.monotonic()
            assert server.get("/", timeout_s=10) == 200
            assert time.monotonic() - requested_at < 5
            time.sleep(0.5)
        assert (server.cpu_s() - before_s) / (time.monotonic() - started_at) < 0.5
        held = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        assert held < MOST_CONNECTIONS / 2, "what waits is closed"
    assert server.errors.stat().st_size < 1000


@pytest.mark.parametrize("step", [b"a", b""])
def test_a_header_that_is_not_complete_in_time_ends_the_connection(home, step):
    with (
        serving(home) as server,
        server.open(HALF) as slow,
        server.open(WHOLE) as later,
        server.open() as silent,
    ):
        time.sleep(1)
        later.sendall(HALF)  # a second request
        started_at = time.monotonic()
        while not is_closed(slow, 0.5) and time.monotonic() - started_at < 20:
            with suppress(OSError):
                slow.sendall(step)
        assert HEADER_S - 2 < time.monotonic() - started_at < 20
        assert is_closed(later, 3)
        assert is_closed(silent, 3)


def test_connections_that_ask_much_and_read_nothing_delay_nobody_by_all_that_they_ask(
    home, monkeypatch
):
    begun: list[float] = []

    async def slow(self: Pages, request: Request) -> Response:
        begun.append(time.monotonic())
        await run_in_threadpool(time.sleep, 0.02)
        return Response(bytes(1 << 20))

    monkeypatch.setattr(Pages, "report", slow)
    sent = b"GET /runs/tour-1/report HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20
    most = 0
    with served(home) as server, ExitStack() as open_ones:
        assert server.get("/").status == 200
        port = int(server.address.rpartition(":")[2])
        for _ in range(60):
            made = open_ones.enter_context(socket.create_connection(("127.0.0.1", port)))
            made.sendall(sent)
        _until(lambda: len(begun) > 8)
        for _ in range(20):
            before = len(begun)
            assert server.get("/").status == 200
            most = max(most, len(begun) - before)
    assert most < 100  # of the 1200 that they ask for; 25 on a host that does nothing else
    assert server.bugs == []


def test_requests_that_were_sent_ahead_are_all_answered_in_order(home):
    paths = ["/", "/studies", "/none", "/compare", "/runs/tour-1/csv", "/static/page.css"] * 3
    sent = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths)
    with served(home) as server:
        expected = [server.get(path).status for path in paths]
        port = int(server.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as made:
            made.sendall(sent.encode())
            answers = [HTTPResponse(made, method="GET") for _ in paths]
            file = made.makefile("rb")
            statuses = []
            for answer in answers:
                answer.fp = file
                answer.begin()
                statuses.append(answer.status)
                file.read(int(answer.headers["Content-Length"]))
    assert statuses == expected


def test_a_connection_that_asks_in_time_is_kept(home):
    with serving(home) as server, server.open() as kept:
        for _ in range(4):
            kept.sendall(WHOLE)
            assert kept.recv(65536).startswith(b"HTTP/1.1 200")
            assert not is_closed(kept, 2)


def test_that_nothing_can_be_accepted_is_said_once(home):
    with serving(home) as server, ExitStack() as open_ones:
        used = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        limits = (used + 20, resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1])
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
        for _ in range(200):
            open_ones.enter_context(server.open(HALF))
        before_s = server.cpu_s()
        time.sleep(3)
        assert server.cpu_s() - before_s < 1
        assert len(server.errors.read_text().splitlines()) <= 1
        time.sleep(HEADER_S)
        open_ones.close()
        assert server.get("/static/page.css") == 200
        text = server.errors.read_text()
    assert text.count("connections cannot be accepted") == 1, text


@pytest.mark.parametrize("is_ending", [True, False])
def test_a_listener_that_was_closed_meanwhile_is_said_only_while_the_server_goes_on(
    is_ending, caplog
):
    server = Server(app=None)
    server.should_exit = is_ending

    async def accept_again_when_closed() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_Complaints(server))
        listener = socket.socket()
        listener.close()
        loop.call_soon(loop._start_serving, None, listener)
        await asyncio.sleep(0.01)

    asyncio.run(accept_again_when_closed())
    assert ("_start_serving" in caplog.text) == (not is_ending)


def test_the_server_is_idle_class_while_something_measures(home, tmp_path):
    lock = tmp_path / "measuring.lock"
    program = (
        "from pathlib import Path; import vtax.host.lock as l;"
        f"l.HOST_LOCK = Path({str(lock)!r});"
        "from vtax.cli.main import group; group(['serve', '--port', '0'])"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, env={**os.environ, "VTAX_HOME": str(home.root)}, stdout=subprocess.PIPE, text=True
    ) as process:
        address = process.stdout.readline().strip()
        try:
            with urllib.request.urlopen(address, timeout=LONGEST_S):
                pass
            assert _classes(process.pid) == {os.SCHED_OTHER}
            with measuring_lock("run", lock):
                _until(lambda: _classes(process.pid) == {os.SCHED_IDLE})
                with urllib.request.urlopen(address, timeout=LONGEST_S) as answer:
                    assert answer.status == 200
                _until(lambda: _classes(process.pid) == {os.SCHED_IDLE})
            if os.geteuid() == 0:
                _until(lambda: _classes(process.pid) == {os.SCHED_OTHER})
        finally:
            process.terminate()


def _classes(pid: int) -> set[int]:
    """The scheduling classes of all threads of a process."""
    found = set()
    for each in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found.add(os.sched_getscheduler(int(each.name)))
    return found


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_asking_whether_something_measures_refuses_no_run(tmp_path):
    lock, ended = tmp_path / "measuring.lock", threading.Event()
    with measuring_lock("run", lock):
        pass

    def ask() -> None:
        while not ended.is_set():
            is_measuring(lock)

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for each in askers:
        each.start()
    refused = 0
    try:
        for _ in range(2000):
            try:
                with measuring_lock("run", lock):
                    pass
            except BadInput:
                refused += 1
    finally:
        ended.set()
        for each in askers:
            each.join()
    assert refused == 0


@pytest.mark.parametrize(
    "path", ["//evil.example/x", "///evil.example", "/\\evil.example", "/%09/evil.example"]
)
def test_no_address_makes_links_to_another_host(home, path):
    with served(home, token="secret") as server:
        text = server.get(path, {"Authorization": "Bearer secret"}).text
        moved = server.get(f"{path}?token=secret").headers["Location"]
    for link in (*re.findall(r'(?:href|src|action)="([^"]*)"', text), moved):
        assert re.match(r"[#?]|/(?![/\\\t])", link), link


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("Bearer secret", 200),
        ("bearer secret", 200),
        ("BEARER  secret", 200),
        ("secret", 401),
        ("Basic secret", 401),
        ("Bearer", 401),
        ("Bearersecret", 401),
        ("bearer wrong", 403),
    ],
)
def test_the_scheme_of_a_token_is_bearer_in_any_case(home, given, status):
    with served(home, token="secret") as server:
        assert server.get("/", {"Authorization": given}).status == status


def hostile(random: Random) -> bytes:
    """A request as no browser makes it."""
    run, noise = f"tour-{random.randint(1, RUNS)}", random.randbytes(random.randint(1, 200))
    other = f"tour-{random.randint(1, RUNS)}"
    path = random.choice(
        [
            "/",
            "/studies",
            "/studies/tour",
            "/compare",
            f"/runs/{run}",
            f"/runs/{run}/report",
            f"/{noise.hex()}",
            f"/compare?a={run}&b={other}",
            f"/compare?a={noise.hex()}&b={run}:lxc",
            f"/?text={noise.hex()}&language=pt-BR",
            f"/?page={random.randint(-9, 10**9)}",
            f"//{noise.hex()}/x",
            f"/runs/{noise.hex()}",
            f"/runs/{run}/{random.choice(DOWNLOADS)}",
            "/runs/%00",
            f"/runs/{run}/events",
        ]
    )
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
    return random.choice(
        [
            f"{request}Connection: close\r\n\r\n".encode(),
            f"{request}\r\n".encode() * random.randint(1, 20),
            f"{request}X: {'a' * random.randint(0, 100_000)}\r\n\r\n".encode(),
            f"{request}\r\n".encode() + noise,
            noise,
            request.encode(),
            f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n{'a' * 70_000}".encode(),
            f"{request}Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeZZ\r\n".encode() + noise,
            f"{request}Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n".encode(),
            f"{request}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n".encode(),
            f"{request}Range: bytes={random.randint(0, 99)}-,{random.randint(0, 99)}-5\r\n\r\n".encode(),
        ]
    )


def attack(
    server: Served, random: Random, slow: list[socket.socket], outcomes: Counter[str]
) -> None:
    """One request, and a reader who reads it all, a part, or nothing, now or never."""
    made = server.open()
    made.settimeout(LONGEST_S)
    try:
        made.sendall(hostile(random))
        way = random.choice(["whole", "whole", "whole", "part", "gone", "slow"])
        if way == "whole":
            is_closed(made, HEADER_S + 3) if random.random() < 0.02 else made.recv(65536)
        elif way == "part":
            made.recv(random.randint(1, 100))
        elif way == "slow":
            slow.append(made)
            made = slow.pop(0) if len(slow) > 1000 else made
        outcomes[way] += 1
        if way == "slow" and made in slow:
            return
    except (ConnectionError, BrokenPipeError):
        outcomes["closed"] += 1
    made.close()


@pytest.mark.timeout(600)
def test_requests_of_slow_and_hostile_clients(home, attacks, request, notify_attacks):
    count, seed = attacks(400), request.config.getoption("--attack-seed")
    outcomes: Counter[str] = Counter()
    slow: list[socket.socket] = []
    peaks: dict[int, int] = {}
    longest_s, started_at = 0.0, time.monotonic()
    numbers = iter(range(count))
    lock = threading.Lock()

    def work(server: Served) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            attack(server, Random(f"{seed}-{number}"), slow, outcomes)

    with serving(home) as server:
        attackers = [threading.Thread(target=work, args=(server,)) for _ in range(16)]
        for each in attackers:
            each.start()
        while any(each.is_alive() for each in attackers):
            requested_at = time.monotonic()
            assert server.get("/") == 200
            longest_s = max(longest_s, time.monotonic() - requested_at)
            for pid, peak in server.memory().items():
                peaks[pid] = max(peaks.get(pid, 0), peak)
            time.sleep(0.2)
        for each in attackers:
            each.join()
        of_server = peaks.pop(server.process.pid)
        for each in slow:
            each.close()
        assert server.get("/") == 200
    of_worker = max(peaks.values(), default=0)
    failed = longest_s >= LONGEST_S or max(of_server, of_worker) > MOST_MEMORY
    notify_attacks(
        f"the page: {count} requests in {time.monotonic() - started_at:.0f} s, others waited "
        f"{longest_s:.1f} s at most, server {of_server >> 20} MiB, worker {of_worker >> 20} MiB ({dict(outcomes)})",
        {
            "failures": int(failed),
            "slowest_s": longest_s,
            "growth": max(of_server, of_worker),
            "outcomes": outcomes,
        },
    )
    assert longest_s < LONGEST_S
    assert max(of_server, of_worker) <= MOST_MEMORY
