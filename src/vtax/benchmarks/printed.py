"""Numbers as a tool printed them, which know their last digit."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?[0-9]*(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")


class Printed(float):
    """A number with the size of its last digit, below which the tool tells nothing.

    Products and quotients with exact numbers are known to the same share; of any other arithmetic a plain float comes.
    """

    __slots__ = ("step",)

    step: float

    def __new__(cls, value: float, step: float) -> Printed:
        """step: of the last digit, in the unit of the number."""
        number = super().__new__(cls, value)
        number.step = step
        return number

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        """Become a plain float in another process."""
        return float, (float(self),)

    def __mul__(self, other: float) -> Printed:
        return self._known_as_well(float(self) * other)

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Printed:
        return self._known_as_well(float(self) / other)

    def __rtruediv__(self, other: float) -> Printed:
        return self._known_as_well(other / float(self))

    def _known_as_well(self, value: float) -> Printed:
        share = self.step / abs(self) if self else 0.0
        return Printed(value, abs(value) * share)


def printed(text: str) -> Printed:
    """Return the number that a text is, such as `0.10` or `1.5e-3`. Raises ValueError for none."""
    value, match = float(text), _NUMBER.fullmatch(text.strip())
    if match is None:
        return Printed(value, 0.0)
    exponent = int(match[2] or 0) - len(match[1] or "")
    return Printed(value, float(f"1e{exponent}"))
