"""Who may see the page, and what a browser may do with it.

Three checks stand before every page. The `Host` of a request must be an address, or a name of this host: a name that
an attacker made point to this host (DNS rebinding) is refused. Beyond the loopback interface a token is needed, which
the first request carries in its address and later ones in a cookie, or as `Authorization: Bearer`. And nothing but
GET and HEAD is answered.

Every answer has a content security policy (https://www.w3.org/TR/CSP3/): no script and no style but the page's own
files, nothing from elsewhere, no frame around it. A response may bring a policy of its own.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vtax.page.report_file import hash_of
from vtax.report.renderers.html import colour_styles

TOKEN = "token"
"""Name of the parameter that carries the token."""
_COOKIE = "vtax_token"
_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::\d*)?", re.ASCII)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "private, no-cache",
}


@dataclass(frozen=True)
class Access:
    """Who may see the page. names: that `Host` may have, beside addresses. token: of every request; empty for none."""

    names: frozenset[str] = frozenset({"localhost"})
    token: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why a request is refused. reason: `host`, `method`, `no-token` or `wrong-token`. status: of HTTP."""

    reason: str
    status: int


class Guard:
    """Lets requests through to an application, or answers them with the page of a refusal."""

    def __init__(
        self, app: ASGIApp, access: Access, answer_refusal: Callable[[Request, Refusal], Response]
    ) -> None:
        self._app = app
        self._access = access
        self._answer_refusal = answer_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (*_HEADERS.items(), ("Content-Security-Policy", policy())):
                    headers.setdefault(name, value)
            await send(message)

        with suppress(CancelledError):  # the server ends
            await self._answer(Request(scope))(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> ASGIApp:
        if refusal := self._refusal(request):
            response = self._answer_refusal(request, refusal)
            if refusal.reason == "method":
                response.headers["Allow"] = "GET, HEAD"
            if refusal.reason == "no-token":
                response.headers["WWW-Authenticate"] = 'Bearer realm="vtax"'
            return response
        if self._access.token and TOKEN in request.query_params:
            return self._with_cookie(request)
        return self._app

    def _refusal(self, request: Request) -> Refusal | None:
        if not is_own_name(request.headers.get("host", ""), self._access.names):
            return Refusal("host", 421)
        if request.method not in ("GET", "HEAD"):
            return Refusal("method", 405)
        if not self._access.token:
            return None
        tokens = [
            request.query_params.get(TOKEN, ""),
            request.cookies.get(_cookie(request), ""),
            _bearer(request.headers.get("authorization", "")),
        ]
        if not any(tokens):
            return Refusal("no-token", 401)
        own_token = self._access.token.encode()
        if not any(hmac.compare_digest(token.encode(), own_token) for token in tokens):
            return Refusal("wrong-token", 403)
        return None

    def _with_cookie(self, request: Request) -> Response:
        """Redirect to the same address without the token, which the cookie carries from now on."""
        path = own_path(request)
        others = without_parameter(request, TOKEN)
        if others:
            path += f"?{urlencode(others)}"
        response = RedirectResponse(path, status_code=303)
        # `strict` would keep it from a link in another page, and from the way back out of a report's sandbox; other
        # methods than GET and HEAD are refused, so `lax` allows nothing more
        response.set_cookie(
            _cookie(request), self._access.token, httponly=True, samesite="lax", path="/"
        )
        return response


def without_parameter(request: Request, name: str) -> list[tuple[str, str]]:
    """Return the parameters of the address of a request, without those of a name."""
    parameters = request.query_params.multi_items()
    return [(key, value) for key, value in parameters if key != name]


def own_path(request: Request) -> str:
    """Return the path of a request as a link: one that begins with two slashes would lead to another host."""
    return "/" + quote(request.scope["path"].lstrip("/"))


def _bearer(authorization: str) -> str:
    """Return the token of a header; empty for any other scheme. Its name is in any case (RFC 9110, 11.1)."""
    scheme, _, token = authorization.partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""


def _cookie(request: Request) -> str:
    """Return the name of the cookie: browsers share cookies among all ports of a host (RFC 6265, 8.5)."""
    return f"{_COOKIE}_{(request.scope.get('server') or ('', 0))[1]}"


def is_own_name(host: str, names: frozenset[str]) -> bool:
    """Return whether a `Host` is an address or one of these names, with or without a port."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["address"] or match["name"]
    if name.lower().rstrip(".") in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def own_names(*others: str) -> frozenset[str]:
    """Return the names of this host, and some others."""
    host = socket.gethostname()
    names = {"localhost", host, host.partition(".")[0], f"{host}.local", *others}
    return frozenset(name.lower() for name in names if name)


@cache
def policy() -> str:
    """Return the content security policy of pages. The colours of platforms are attributes, allowed one by one."""
    styles = " ".join(map(hash_of, colour_styles()))
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"style-src-attr 'unsafe-hashes' {styles}; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
