"""The last digits of π at given lengths: what proves that a program computed it.

Short lengths are computed here, by Machin's formula in whole numbers. Longer ones are a table: FLINT computed them,
CLN gives the same ones up to 10^7 digits, and a test computes those of 10^5 digits anew.
"""

from __future__ import annotations

from functools import lru_cache

from vtax.errors import BenchmarkError
from vtax.messages import Note

SHOWN = 50
"""Digits that are compared."""
FEWEST = 100
_COMPUTED = 20_000  # digits, in about a tenth of a second
_GUARD = 10
KNOWN = {
    100_000: "70150789337728658035712790913767420805655493624646",
    1_000_000: "56787961303311646283996346460422090106105779458151",
    4_194_304: "51571629531315171865411773717680258565140638311120",
    10_000_000: "65326553194060999469787333810631719481735348955897",
    50_000_000: "51300457960464561703242426307145541838017945652654",
}
"""Digits after the decimal point -> the last SHOWN of them."""


def last_digits(digits: int) -> str | None:
    """Return the last SHOWN of so many digits after the decimal point; None for unknown ones. digits: >= FEWEST."""
    return KNOWN.get(digits) or (_machin(digits) if digits <= _COMPUTED else None)


@lru_cache(maxsize=64)
def _machin(digits: int) -> str:
    """π = 16 arctan(1/5) - 4 arctan(1/239) (Machin, 1706), truncated."""
    unit = 10 ** (digits + _GUARD)
    value = 4 * (4 * _arctan(5, unit) - _arctan(239, unit)) // 10**_GUARD
    return f"{value % 10**SHOWN:0{SHOWN}d}"


def _arctan(inverse: int, unit: int) -> int:
    """Return unit * arctan(1/inverse), by its series."""
    term = total = unit // inverse
    divisor, square = 1, inverse * inverse
    while term:
        term //= -square
        divisor += 2
        total += term // divisor
    return total


def warnings_of(tool: str, digits: int, last: str) -> list[str]:
    """Return a warning where the digits of a program cannot be verified.

    tool: its name in the error.
    digits: how many it computed.
    last: the last of them, as it printed them.

    Raises BenchmarkError when they are wrong.
    """
    expected = last_digits(digits)
    if expected is None:
        return [Note("digits-not-verified", limit=_COMPUTED, known=tuple(KNOWN))]
    if last != expected:
        raise BenchmarkError(
            f"{tool} computed other digits than those of pi: {last[:SHOWN]} where {expected} are"
        )
    return []
