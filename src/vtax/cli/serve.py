"""`vtax serve`: serves the runs in the store as a read-only web page."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
from contextlib import suppress
from urllib.parse import urlencode

import click

from vtax.cli.arguments import listed
from vtax.cli.output import notify
from vtax.errors import BadInput, CommandFailed, NotFound
from vtax.foreign_data import parse_json
from vtax.host.home import Home
from vtax.host.process import run

LOOPBACK = "127.0.0.1"
_WITHOUT_TOKEN = (LOOPBACK, "::1")
_ALL = ("0.0.0.0", "::")
_PORT = 8420
_TOKEN_BYTES = 24


@click.command("serve")
@click.option(
    "--host",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="Listen on this address (0.0.0.0: all); on any but 127.0.0.1 and ::1, the page needs a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Listen on this port; 0 chooses a free one.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    callback=listed,
    metavar="HOST,...",
    help="Also answer to this host name, such as that of a proxy.",
)
def command(host: str, port: int, names: tuple[str, ...]) -> None:
    """Serve the runs of the store as a read-only web page, until Ctrl-C.

    The page shows runs and studies, a run while it is measured, reports, comparisons, histories and
    downloads, in English or Portuguese. With another --host, the printed address contains a token.
    The page is not encrypted, so use a tunnel from another machine: ssh -L 8420:127.0.0.1:8420 HOST
    """
    from vtax.cli.bugs import report
    from vtax.page.access import TOKEN, Access, own_names
    from vtax.page.app import make_app
    from vtax.page.server import Server
    from vtax.store.store import Store

    home = Home.existing()
    with suppress(NotFound):  # there is no store yet; one that cannot be read is refused here
        Store.existing(home.store_url).close()
    listening = _listen(host, port)
    with listening:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        if listening.getsockname()[0] in _WITHOUT_TOKEN:
            token = ""
        access = Access(own_names(host, *names), token)
        app = make_app(home.store_url, home, access, lambda error: notify(f"vtax: {report(error)}"))
        server = Server(app, is_polite=True)
        signal.signal(signal.SIGHUP, lambda *_: setattr(server, "should_exit", True))
        for name in own_addresses() if host in _ALL else [host]:
            address = _address(name, listening.getsockname()[1])
            click.echo(f"{address}?{urlencode({TOKEN: token})}" if token else address)
        if token:
            notify(
                "whoever has this address sees every run; the page is not encrypted; Ctrl-C ends it"
            )
        server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises BadInput."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server((address[0], port), family=family)
    except socket.gaierror as error:
        raise BadInput(f"{host!r} is no address: {error.strerror}", where="--host") from error
    except UnicodeError as error:  # a name that IDNA cannot encode
        raise BadInput(
            f"{host!r} is no address: {error.__class__.__name__}", where="--host"
        ) from error
    except OSError as error:
        known_errors = {
            errno.EADDRINUSE: (
                f"port {port} of {host} is in use",
                "choose another port with --port; 0 takes a free one",
            ),
            errno.EADDRNOTAVAIL: (
                f"this host has no address {host}",
                "ip address shows those it has; 0.0.0.0 is all",
            ),
            errno.EACCES: (f"only root may listen on port {port}", "choose a port from 1024 on"),
        }
        what, hint = known_errors.get(
            error.errno or 0, (f"{host} port {port}: {error.strerror}", "")
        )
        raise BadInput(what, where="--host, --port", hint=hint) from error


def own_addresses() -> list[str]:
    """Return the IPv4 addresses by which other machines reach this host; its name where ip(8) shows none."""
    argv = ["ip", "-j", "-4", "address", "show", "up", "scope", "global"]
    addresses = []
    try:
        for link in parse_json(run(argv, timeout_s=5).stdout):
            addresses += [entry["local"] for entry in link.get("addr_info", ())]
    except (CommandFailed, ValueError):
        addresses = []
    return addresses or [socket.gethostname()]


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
