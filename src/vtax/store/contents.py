"""Checks of an imported run: its study is one that vtax would measure, and its JSON has the shapes that
vtax stores, so that whatever reads a stored run finds what it relies on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args

from vtax.errors import BadInput
from vtax.foreign_data import parse_json
from vtax.foreign_text import one_line
from vtax.stats.means import Average
from vtax.stats.terms import MetricRole
from vtax.store.database import as_json
from vtax.store.records import MetricRecord
from vtax.store.run import RunHandle

_LEVEL = (bool, int, float, str)
_MAX_NAMES = 256  # of one object


def check_contents(run: RunHandle) -> None:
    """Raise ValueError for what no vtax stored."""
    _check_study(as_json(run.declared))
    for host in (run.host, *(session.host for session in run.sessions)):
        _check_host(host)
    for platform in run.platforms:
        options = platform.identity.get("options", {})
        if not isinstance(platform.identity.get("driver", ""), str) or not _is_flat(options):
            raise ValueError(f"the driver or an option of {platform.name} is none")
    for cell in run.cells:
        if not (_is_flat(cell.parameters) and _is_flat(cell.link) and _is_levels(cell.levels)):
            raise ValueError(f"a parameter, link setting or level of cell {cell.key} is none")
    if not all(_is_levels(point.levels) for point in run.untested):
        raise ValueError("a level of a point that was not tested is none")
    _check_metrics(run.metrics)


@lru_cache(maxsize=8)  # since the bundles of a campaign are of one study
def _check_study(declared_json: str) -> None:
    """Raise ValueError for a study that no file could have, and for values that are not written as they are stored."""
    from vtax.study.load import validate

    declared = parse_json(declared_json)
    try:
        study = validate(declared, "its study")
    except BadInput as error:
        raise ValueError(one_line(f"{error.where}: {error.what}", 200)) from error
    if not _is_in(declared, study.declared()):
        raise ValueError("its study has values in another form than vtax stores")


def _is_in(subset: Any, whole: Any) -> bool:
    """Return whether plain values are among others, in the same types.

    A whole number may stand for one with a point.
    """
    if isinstance(subset, dict):
        is_subset = isinstance(whole, dict) and subset.keys() <= whole.keys()
        return is_subset and all(_is_in(value, whole[key]) for key, value in subset.items())
    if isinstance(subset, list):
        is_list = isinstance(whole, list) and len(subset) == len(whole)
        return is_list and all(map(_is_in, subset, whole))
    is_number = type(subset) in (int, float) and type(whole) in (int, float)
    return bool(subset == whole) and (is_number or type(subset) is type(whole))


def _check_host(host: Mapping[str, Any]) -> None:
    boots = host.get("boots", {})
    if not isinstance(boots, dict) or not all(isinstance(facts, dict) for facts in boots.values()):
        raise ValueError("the boots of a host are none")
    for facts in (host, *boots.values()):
        for name, value in facts.items():
            if name != "boots" and not (_is_plain(value) or _is_list(value) or _is_flat(value)):
                raise ValueError(f"{one_line(name, 60)} of a host is no fact")


def _check_metrics(metrics: Iterable[MetricRecord]) -> None:
    for metric in metrics:
        if metric.average not in get_args(Average):
            raise ValueError(f"the average of {metric.name} is {one_line(metric.average, 20)}")
        if metric.role not in get_args(MetricRole):
            raise ValueError(f"the role of {metric.name} is {one_line(metric.role, 20)}")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, _LEVEL)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, _LEVEL) for item in value)


def _is_flat(values: Any) -> bool:
    """Return whether this is a name -> a plain value or none."""
    is_small = isinstance(values, Mapping) and len(values) <= _MAX_NAMES
    return is_small and all(map(_is_plain, values.values()))


def _is_levels(values: Any) -> bool:
    """Return whether this is a factor -> a level."""
    return _is_flat(values) and None not in values.values()
