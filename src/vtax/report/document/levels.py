"""How levels of factors are written: sizes with units, as studies may write them."""

from __future__ import annotations

from functools import cache

from vtax.benchmarks.registry import benchmarks
from vtax.study.declared import alternatives_of, conversion_of
from vtax.units import format_size, size_bytes


def written_level(factor: str, level: str) -> str:
    """Return a level as people read it: `256KiB` of a parameter that is a size, which is exact."""
    if "_" not in factor or not level.isdecimal() or factor not in _sizes():  # the last is slow
        return level
    return format_size(int(level))


@cache
def _sizes() -> frozenset[str]:
    """Names of parameters that are sizes in every benchmark which has them.

    A single word, such as `length`, may mean anything in a program of a study, and stays as it is.
    """
    kinds: dict[str, set[bool]] = {}
    for benchmark in benchmarks().values():
        for name, field in benchmark.Parameters.model_fields.items():
            forms = alternatives_of(field.annotation, tuple(field.metadata))
            is_size = any(conversion_of(form.metadata) is size_bytes for form in forms)
            kinds.setdefault(name, set()).add(is_size)
    return frozenset(name for name, is_size_flags in kinds.items() if is_size_flags == {True})
