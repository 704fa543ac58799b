"""Packages that a host can do without that only measures, and the extra of vtax that brings each."""

from __future__ import annotations

from importlib.util import find_spec

from vtax.errors import BadInput

EXTRAS = {
    "babel": "report",
    "jinja2": "report",
    "pyarrow": "report",
    "vl_convert": "report",
    "starlette": "page",
    "uvicorn": "page",
    "psycopg": "postgresql",
}
"""Module -> extra of pyproject.toml. They are imported where they are used, by commands that nothing else needs."""


def is_installed(module: str) -> bool:
    """Whether a module of EXTRAS is there; it is not imported."""
    return find_spec(module) is not None


def install_hint(module: str) -> str:
    """Return the command that installs the extra of a module."""
    return (
        f"install the wheel of vtax with its extra: pipx install --force 'WHEEL[{EXTRAS[module]}]'"
    )


def missing_extra(error: ModuleNotFoundError) -> BadInput | None:
    """Return the error for a package of an extra that is not installed; None when another module is missing."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS or is_installed(module):
        return None
    what = f"this needs the Python package {module}, which a host that only measures does without"
    return BadInput(what, hint=install_hint(module))
