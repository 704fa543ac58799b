"""The page of `vtax serve` on a port of its own, in a thread of the test, and requests to it."""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

from vtax.host.home import Home
from vtax.page.access import Access, own_names
from vtax.page.app import make_app
from vtax.page.server import Server

PRELOADED = ("page.worker", "report.analysis.source", "report.chapters", "report.renderers.html")


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    headers: Message
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class PageServer:
    """address: without the last slash. bugs: exceptions that were reported."""

    address: str
    bugs: list[BaseException] = field(default_factory=list)

    def get(
        self,
        path: str = "/",
        headers: Mapping[str, str] | None = None,
        method: str = "GET",
        timeout_s: float = 60.0,
    ) -> Answer:
        """An answer; one that is being prepared is asked for until it is there. Redirections are not followed."""
        deadline = time.monotonic() + timeout_s
        while (
            answer := self._get(path, headers or {}, method)
        ).status == 202 and time.monotonic() < deadline:
            time.sleep(0.1)
        return answer

    def _get(self, path: str, headers: Mapping[str, str], method: str) -> Answer:
        request = urllib.request.Request(self.address + path, headers=dict(headers), method=method)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=60) as found:
                return Answer(found.status, found.headers, found.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@contextmanager
def served(
    home: Home, token: str = "", place: str | Path = "", start_method: str = "forkserver"
) -> Iterator[PageServer]:
    """A server of the store of a home, or of another one, until the block ends.

    Its workers, dozens of them, are forked from a process that has imported what they need; vtax has `spawn`.
    """
    multiprocessing.set_forkserver_preload([f"vtax.{module}" for module in PRELOADED])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = PageServer(f"http://127.0.0.1:{listening.getsockname()[1]}")
        app = make_app(
            place or home.root / "store.sqlite",
            home,
            Access(own_names(), token),
            made.bugs.append,
            start_method,
        )
        server = Server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.02)
            yield made
        finally:
            server.should_exit = True
            thread.join(20)
