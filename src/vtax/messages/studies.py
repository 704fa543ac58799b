"""Phrases for what a key of a study may hold, and what a scale leaves of a claim: code -> phrase, see vtax.messages."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "key-either": "{first} or {last}",
    "key-bool": "true or false",
    "key-int": "a whole number",
    "key-float": "a number",
    "key-text": "text",
    "key-value": "a value",
    "key-table": "a table",
    "key-size": "a size",
    "key-duration": "a duration",
    "key-bounded": "{kind} {bounds}",
    "key-from-to": "from {low} to {high}",
    "key-ge": "of at least {bound}",
    "key-gt": "above {bound}",
    "key-le": "of at most {bound}",
    "key-lt": "below {bound}",
    "key-between": "{low} and {high}",
    "key-in-bytes": "{what}, in bytes or with a unit",
    "key-in-seconds": "{what}, in seconds or with a unit",
    "key-share": "a share",
    "key-in-percent": "{what}, or a percentage such as '5%'",
    "key-pattern": "text of the form {pattern}",
    "key-example": "text such as {examples}",
    "key-tables": "tables, each under [[...]]",
    "key-tables-at-most": "at most {most} tables, each under [[...]]",
    "key-tables-from-to": "{fewest} to {most} tables, each under [[...]]",
    "key-list": "a list",
    "key-list-at-least": "a list of at least {fewest}",
    "key-list-at-most": "a list of at most {most} entries",
    "key-list-from-to": "a list of {fewest} to {most} entries",
    "scale-leaves": "--scale {name} leaves out levels that it compares: {levels}",
    "scale-divides": "--scale {name} divides levels that it compares: {levels}",
    "scale-leaves-divides": "--scale {name} leaves out levels that it compares: {levels}; divides levels that it compares: "
    "{others}",
    "scale-measures": "--scale {name} measures {parts}",
    "levels-kept": "{kept} of {total} levels of {factor}",
}
