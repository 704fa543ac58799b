"""The language of a page: what its address asks for, else what was chosen before, else what the browser prefers."""

from __future__ import annotations

from starlette.requests import Request

from vtax.report.renderers.language import Language, codes, language

PARAMETER = "language"
COOKIE = "vtax_language"


def chosen(request: Request) -> Language:
    """Return the language of the answer. Raises BadInput for one in the address that there is not."""
    if PARAMETER in request.query_params:
        return language(request.query_params[PARAMETER][:20])
    there = {code.lower(): code for code in codes()}
    kept = request.cookies.get(COOKIE, "").lower()
    if kept in there:
        return language(there[kept])
    for wanted in request.headers.get("accept-language", "")[:200].split(","):
        code = wanted.partition(";")[0].strip().lower()
        for known, name in there.items():
            if code and (code == known or code.partition("-")[0] == known.partition("-")[0]):
                return language(name)
    return language("en")
