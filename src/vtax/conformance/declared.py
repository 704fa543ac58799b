"""Checks of what a plug-in declares: its type, its name, its description and its model of settings."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ValidationError

from vtax.conformance.check import Failed, require
from vtax.host.plugins import problem_of

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_MAX_LINE_CHARS = 100


def check_type(plugin: Any, shape: type) -> None:
    """Require the attributes of the protocol or base class, with values of the declared types."""
    problem = problem_of(plugin, shape)
    require(not problem, problem)


def check_name(name: object, shipped: Collection[str]) -> None:
    """Require a name of at most 40 lower-case letters, digits and hyphens that no shipped plug-in has."""
    require(isinstance(name, str), f"the name is {name!r}, which is not a string")
    require(_NAME.fullmatch(str(name)), f"the name is {name!r}")
    require(
        name not in shipped, f"vtax ships a plug-in with the name {name!r}, which takes precedence"
    )


def check_line(what: str, text: object) -> None:
    """Require one line of at most 100 characters."""
    require(isinstance(text, str) and text.strip(), f"{what} is empty")
    require("\n" not in str(text), f"{what} has several lines")
    require(len(str(text)) <= _MAX_LINE_CHARS, f"{what} has {len(str(text))} characters")


def check_model(model: object, *, defaults: bool) -> None:
    """Require a frozen model that forbids unknown names and describes every field.

    defaults: whether every field needs a default.
    """
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        raise Failed(f"{model!r} is not a pydantic model")
    config, fields = model.model_config, model.model_fields
    require(config.get("extra") == "forbid", f"{model.__name__} accepts unknown names")
    require(config.get("frozen"), f"{model.__name__} is not frozen")
    undescribed = [name for name, field in fields.items() if not field.description]
    require(not undescribed, f"{', '.join(undescribed)} of {model.__name__}: no description")
    required_names = [name for name, field in fields.items() if field.is_required()]
    require(
        not (defaults and required_names),
        f"{', '.join(required_names)} of {model.__name__}: no default",
    )


def check_json(value: BaseModel) -> None:
    """Require that a model's values survive a round trip through JSON."""
    try:
        json_values = value.model_dump(mode="json")
        reread = type(value).model_validate(json.loads(json.dumps(json_values, allow_nan=False)))
    except (ValidationError, ValueError, TypeError) as error:
        raise Failed(f"{type(value).__name__} as JSON: {type(error).__name__}: {error}") from error
    require(reread == value, f"{json_values!r} from JSON is {reread!r}")
