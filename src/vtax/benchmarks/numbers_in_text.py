"""Numbers as programs write them for people, and whether a pattern read the whole of one.

`([0-9.]+)` reads 234.5 of `1,234.5`, 1 of `1,5`, 1.5 of `1.5e-3` and 12 of `12k`: each is a number, and none the one
that was printed. What stands beside the group tells. A pattern that itself names what stands there, such as the comma
of a table, knows it: it no longer matches where another character stands in its place.
"""

from __future__ import annotations

import re

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = "'’_\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
_BEFORE = re.compile(rf"[0-9]([.,{_THOUSANDS}])\Z")
_SIGN = re.compile(r"(?:\A|[^0-9A-Za-z)\]-])([-\N{MINUS SIGN}])\Z")
_AFTER = re.compile(rf"([.,{_THOUSANDS}])[0-9]")
_EXPONENT = re.compile(r"([eE])[+-]?[0-9]|([×*]) ?10\^?")
_SUFFIX = re.compile(
    r" ?([kKMGTP])i?(?=[^A-Za-z0-9]|\Z|[Bb](?:its?|ytes?|ps)?(?![A-Za-z])|Hz|[Ff]lop|FLOP|[Oo]ps?\b|[Rr]eq)"
)
_OTHERS = {".": ";", ",": ";", "-": "+", "\N{MINUS SIGN}": "+", "e": "x", "E": "x"}
_REACH = 2  # characters before a group that tell


def rest_of_number(pattern: re.Pattern[str], match: re.Match[str], unit: str) -> str:
    """Return what a group of a match leaves out of its number, in words; empty where it has all of it.

    unit: of the figure as it was declared; where it stands behind the number the figure is what it says.
    """
    text, start, end = match.string, match.start(1), match.end(1)
    before, after = text[max(start - _REACH, 0) : start], text[end : end + 40]
    if before[-1:].isdigit() or after[:1].isdigit():
        return "more digits stand beside it"
    for form, neighbour, offset in (
        ("a separator of thousands, or decimals,", _BEFORE.search(before), start - len(before)),
        ("a sign", _SIGN.search(before), start - len(before)),
        ("decimals, or thousands,", _AFTER.match(after), end),
        ("an exponent", _EXPONENT.match(after), end),
        ("a suffix, such as k or M,", _suffix(after, unit), end),
    ):
        if neighbour:
            group = neighbour.lastindex or 0
            if not _is_named(pattern, match, offset + neighbour.start(group)):
                return f"{form} {neighbour[group]!r} stands beside it"
    return ""


def form_of(text: str) -> str:
    """Return how a number is written that is none for a parser: `a separator of thousands`; empty for no number."""
    text = text.strip()
    if re.fullmatch(rf"[-+]?[0-9]{{1,3}}(?:[,{_THOUSANDS} ][0-9]{{3}})+(?:\.[0-9]+)?", text):
        return "separators of thousands"
    if re.fullmatch(rf"[-+]?[0-9.{_THOUSANDS}]+,[0-9]+", text):
        return "a decimal comma"
    match = re.fullmatch(r"[-+]?[0-9.]+ ?([kKMGTPmunµ%][A-Za-z/]*)", text)
    return f"a suffix ({match[1]})" if match else ""


def _suffix(after: str, unit: str) -> re.Match[str] | None:
    return None if after.lstrip(" ").startswith(unit) else _SUFFIX.match(after)


def _is_named(pattern: re.Pattern[str], match: re.Match[str], position: int) -> bool:
    """Return whether a pattern names the character at a position: it matches no longer when another stands there."""
    text = match.string
    other = _OTHERS.get(text[position], "M" if text[position] != "M" else "G")
    other_text = text[:position] + other + text[position + 1 :]
    other_match = pattern.match(other_text, match.start())
    return other_match is None or other_match.span(1) != match.span(1)
