"""Shell completion of names of runs, platforms and studies. It starts no guests and no probes.

click reads the environment variable `_VTAX_COMPLETE`, which the shell sets; docs/completion.md explains the setup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from vtax.store.glance import Glance

COMPLETE_VARIABLE = "_VTAX_COMPLETE"
_FACTORS = ("platform", "benchmark", "metric", "topology")
_PARTS = ("block", "session", "host")


def complete(group: click.Group) -> NoReturn:
    """Print completions. Errors are not printed, since the output goes into the shell's prompt."""
    status = 1
    try:
        group.main(args=[], prog_name="vtax", complete_var=COMPLETE_VARIABLE)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except Exception:
        status = 1
    sys.stdout.flush()
    sys.exit(status)


def run_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the runs in the store, the newest first."""
    return _with_prefix(incomplete, ["last", *_runs()])


def unfinished_runs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the runs that were not finished."""
    return _with_prefix(incomplete, _runs("interrupted", "failed", "running", "paused"))


def studies_with_runs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the studies of which a run is stored."""
    return _with_prefix(incomplete, _glance().studies())


def tags_of_runs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the tags of the runs in the store."""
    return _with_prefix(incomplete, _glance().tags())


def factors_of_run(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the factors of the run in the command line."""
    factors = _glance().factors(_named_run(context))
    return _with_prefix(incomplete, dict.fromkeys([*_FACTORS, *factors, *_PARTS]))


def metrics_of_run(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the metrics of the run in the command line."""
    return _with_prefix(incomplete, _glance().metrics(_named_run(context)))


def conditions_on_runs(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return `tag=` and `study=` with what the runs in the store have; the other keys alone."""
    conditions = [f"tag={tag}" for tag in _glance().tags()]
    conditions += [f"study={name}" for name in _glance().studies()]
    conditions += ["platform=", "status=", "origin=", "note=", "host=", "since="]
    return _with_prefix(incomplete, conditions)


def platforms_of_run(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the platforms of the run in the command line."""
    return _last_of(incomplete, _platforms(_argument(context, "run_name") or "last"))


def sides(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return arguments of `vtax compare`: runs, and platforms of the last run."""
    return _with_prefix(incomplete, [*_platforms("last"), *_runs()])


def platform_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the shipped platforms, the last of several between commas."""
    from vtax.platforms.registry import names

    return _last_of(incomplete, names())


def _last_of(incomplete: str, names: Iterable[str]) -> list[str]:
    """Return what completes the last of several names between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _with_prefix(last, names)]


def platforms_and_drivers(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the shipped platforms and the drivers."""
    from vtax.platforms.registry import drivers

    names = [*platform_names(context, parameter, incomplete), *_with_prefix(incomplete, drivers())]
    return list(dict.fromkeys(names))


def topology_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the topologies."""
    from vtax.network.registry import topologies

    return _with_prefix(incomplete, topologies())


def study_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the shipped studies; files when no study has this prefix."""
    from click.shell_completion import CompletionItem

    from vtax.study.load import shipped

    names = [] if os.sep in incomplete else _with_prefix(incomplete, shipped())
    return list(map(CompletionItem, names)) or [CompletionItem(incomplete, type="file")]


def scales_of_study(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the scales of the study in the command line."""
    return _with_prefix(incomplete, _declared_names(context, "scale"))


def protocols_of_study(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the protocols of the study in the command line."""
    return _with_prefix(incomplete, _declared_names(context, "protocol"))


def _declared_names(context: click.Context, table: str) -> list[str]:
    """Return the names of the tables of this kind in the study of the command line; none without a study."""
    from vtax.study.load import load

    study = _argument(context, "study")
    return list(getattr(load(study).study, table)) if study else []


def _argument(context: click.Context, name: str) -> str:
    """Return the argument of a command line whose last option has no value yet, for which click parses none."""
    return next(iter(context.args), "") or str(context.params.get(name) or "")


def _with_prefix(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _glance() -> Glance:
    """Return the names in the store of this home."""
    from vtax.host.home import Home
    from vtax.store.glance import Glance

    return Glance(Home.from_environment().store_url)


def _runs(*statuses: str) -> list[str]:
    return _glance().run_names(statuses)


def _platforms(run_name: str) -> list[str]:
    return _glance().platform_names(_name(run_name))


def _named_run(context: click.Context) -> str:
    return _name(_argument(context, "run_name") or "last")


def _name(run_name: str) -> str:
    """Return the name of a run; of `last` that of the newest, empty without any."""
    return next(iter(_runs()), "") if run_name == "last" else run_name
