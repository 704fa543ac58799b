"""Who may see the page of `vtax serve`, and where it listens. Figures are invented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from a_run import begin, fill
from click.testing import CliRunner
from page_server import PageServer, served

from vtax.cli.main import group
from vtax.host.home import Home
from vtax.page.access import is_own_name
from vtax.store.store import Store


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a finished run."""
    home = Home(tmp_path_factory.mktemp("page")).ensure()
    with Store.open(home.root / "store.sqlite") as store:
        fill(begin(store), blocks=2)
    return home


@pytest.fixture(scope="module")
def server(filled: Home) -> Iterator[PageServer]:
    with served(filled) as made:
        yield made
    assert made.bugs == []


def test_beyond_this_host_every_request_needs_the_token(filled):
    with served(filled, token="secret") as server:
        absent, wrong = server.get("/"), server.get("/?token=guess")
        assert (absent.status, wrong.status) == (401, 403)
        assert absent.headers["WWW-Authenticate"].startswith("Bearer")
        assert "tour" not in absent.text + wrong.text
        assert server.get("/static/page.css").status == 401
        given = server.get("/?status=finished&token=secret")
        assert (given.status, given.headers["Location"]) == (303, "/?status=finished")
        cookie = given.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert server.get("/", {"Cookie": cookie.partition(";")[0]}).status == 200
        assert server.get("/", {"Authorization": "Bearer secret"}).status == 200
        assert server.get("/", {"Authorization": "Bearer secre"}).status == 403
        assert (
            server.get("//evil.example/?token=secret")
            .headers["Location"]
            .startswith("/evil.example")
        )


def test_a_name_that_is_not_this_hosts_is_refused(server):
    answer = server.get("/", {"Host": "evil.example"})
    assert answer.status == 421
    assert "tour" not in answer.text
    assert server.get("/", {"Host": "localhost:9999"}).status == 200


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("localhost:80", True),
        ("LOCALHOST", True),
        ("127.0.0.1:8", True),
        ("[::1]:80", True),
        ("192.0.2.7", True),
        ("evil.example", False),
        ("", False),
        ("localhost.evil.example:80", False),
        ("[evil.example]", False),
    ],
)
def test_addresses_and_own_names_are_no_rebinding(host, is_own):
    assert is_own_name(host, frozenset({"localhost"})) is is_own


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(server, method):
    answer = server.get("/runs/tour-1", method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.fixture
def run_once(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """In place of serving: what would be served."""
    given: list[Any] = []
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, sockets: given.append((self.config.app, sockets))
    )
    return given


@pytest.mark.usefixtures("private_home", "run_once")
def test_the_address_has_a_token_beyond_this_host_alone():
    here = CliRunner().invoke(group, ["serve", "--port", "0"])
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", here.stdout)
    everywhere = CliRunner().invoke(group, ["serve", "--host", "0.0.0.0", "--port", "0"])
    assert re.fullmatch(r"(http://[^/]+:\d+/\?token=[\w-]{32}\n)+", everywhere.stdout)
    assert "not encrypted" in everywhere.stderr


@pytest.mark.usefixtures("private_home", "run_once")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--host", "no host"], "'no host' is no address"),
        (["--host", "192.0.2.7"], "this host has no address"),
    ],
)
def test_an_address_that_this_host_does_not_have_is_bad_input(options, error):
    found = CliRunner().invoke(group, ["serve", "--port", "0", *options])
    assert error in str(found.exception)


@pytest.mark.usefixtures("private_home", "run_once")
def test_a_port_in_use_is_bad_input(server):
    found = CliRunner().invoke(group, ["serve", "--port", server.address.rpartition(":")[2]])
    assert "is in use" in str(found.exception)
    assert "--port" in str(found.exception)
