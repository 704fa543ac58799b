"""What a shell offers when Tab is pressed: names of runs, platforms and studies. Nothing is started to find them.

`_VTAX_COMPLETE`, by which a shell asks, is click's; docs/completion.md says how to turn it on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

ASKED = "_VTAX_COMPLETE"


def complete(group: click.Group) -> NoReturn:
    """Answer a shell. Whatever goes wrong, nothing but completions is written into its prompt."""
    status = 1
    try:
        group.main(args=[], prog_name="vtax", complete_var=ASKED)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except Exception:
        status = 1
    sys.stdout.flush()
    sys.exit(status)


def run_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """The runs in the store, the newest first."""
    return _beginning(incomplete, ["last", *_runs()])


def unfinished_runs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """The runs that were not finished."""
    return _beginning(incomplete, _runs("interrupted", "failed", "running"))


def platforms_of_run(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The platforms of the run that the command names."""
    return _beginning(incomplete, _platforms(str(context.params.get("run_name") or "last")))


def sides(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """What `vtax contrast` takes: runs, and the platforms of the last one."""
    return _beginning(incomplete, [*_platforms("last"), *_runs()])


def platform_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """The platforms that ship."""
    from vtax.platforms.registry import names

    return _beginning(incomplete, names())


def platforms_and_drivers(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The platforms that ship, and the drivers."""
    from vtax.platforms.registry import drivers

    found = [*platform_names(context, parameter, incomplete), *_beginning(incomplete, drivers())]
    return list(dict.fromkeys(found))


def study_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The studies that ship; files where none of them begins so."""
    from click.shell_completion import CompletionItem

    from vtax.study.load import shipped

    names = [] if os.sep in incomplete else _beginning(incomplete, shipped())
    return list(map(CompletionItem, names)) or [CompletionItem(incomplete, type="file")]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _runs(*statuses: str) -> list[str]:
    from vtax.host.home import Home
    from vtax.store import glance

    return glance.run_names(Home.from_environment().store_url, statuses)


def _platforms(run_name: str) -> list[str]:
    from vtax.host.home import Home
    from vtax.store import glance

    names = _runs()[:1] if run_name == "last" else [run_name]
    return glance.platform_names(Home.from_environment().store_url, names[0]) if names else []
