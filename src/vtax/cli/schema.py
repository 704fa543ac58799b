"""`vtax schema`: prints the JSON Schema of a study file, by which an editor completes and checks one.

The schema of a study alone says nothing of the options of platforms, of the parameters of benchmarks and of link
settings: they belong to what is installed here. They are added to the tables that hold them. Editors merge what stands
in `anyOf` to complete keys, and some of them know neither `if` nor what stands beside `allOf`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
from pydantic import BaseModel

from vtax.benchmarks.registry import benchmarks
from vtax.cli.output import print_json
from vtax.network.registry import topologies
from vtax.platforms.registry import drivers, names
from vtax.study.keys import keys
from vtax.study.model import Study

Schema = dict[str, Any]


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of a study file, with a description of each key.

    It includes the options of all platforms and the parameters of all benchmarks that are installed
    here.
    """
    print_json(study_schema())


def study_schema() -> Schema:
    """Return the JSON Schema of a study file, with all that platforms, benchmarks and topologies take."""
    schema = Study.model_json_schema()
    tables = schema["$defs"]
    known_names = {"anyOf": [{"enum": names()}, {"type": "string"}]}
    schema["properties"]["baseline"] |= known_names
    schema["properties"]["platforms"]["items"] = known_names
    tables["PlatformTable"] = _platform_table(tables["PlatformTable"], tables)
    _add_links(tables["BenchmarkTable"], tables)
    _add_parameters(tables["BenchmarkTable"], tables)
    return schema


def _platform_table(table: Schema, tables: Schema) -> Schema:
    """Return the schema of `[[platform]]`: one of its own for the options of each driver."""
    of_drivers = []
    for driver in drivers().values():
        options = _properties([driver.Options], tables)
        driver_schema = {
            "title": driver.name,
            "type": "object",
            "properties": {
                "name": table["properties"]["name"],
                "driver": {"const": driver.name, "description": driver.summary},
                **options,
            },
            "required": [*table["required"], *_required_keys(driver.Options)],
            "additionalProperties": False,
        }
        of_drivers.append(driver_schema)
    return {"description": table["description"], "anyOf": of_drivers}


def _add_links(table: Schema, tables: Schema) -> None:
    """Give `[[benchmark]]` the names of topologies and their link settings."""
    settings = _properties([topology.Settings for topology in topologies().values()], tables)
    levels = {name: _levels(setting) for name, setting in settings.items()}
    properties = table["properties"]
    properties["topology"] |= {"anyOf": [{"enum": list(topologies())}, {"type": "null"}]}
    properties["link"] |= {"properties": settings, "additionalProperties": False}
    properties["link_factors"] |= {"properties": levels, "additionalProperties": False}


def _add_parameters(table: Schema, tables: Schema) -> None:
    """Give `[[benchmark]]` the parameters of each benchmark, by its name; any other name is one of a program."""
    of_table = "#/$defs/BenchmarkTable/properties"
    links = table["properties"]["link_factors"]["properties"]
    common_factors = {
        "guests": {"$ref": f"{of_table}/guests"},
        "neighbour": {"$ref": f"{of_table}/neighbour"},
        "tuning": {"$ref": "#/properties/tuning"},
        "scratch": {"$ref": "#/properties/scratch"},
        "link": {"$ref": f"{of_table}/factors/properties/link"},
        **{
            f"link.{name}": {"$ref": f"{of_table}/link_factors/properties/{name}"} for name in links
        },
    }
    of_benchmarks: list[Schema] = []
    for benchmark in benchmarks().values():
        parameters = _properties([benchmark.Parameters], tables)
        levels = {name: _levels(parameter) for name, parameter in parameters.items()}
        properties = {
            "name": {"const": benchmark.name, "description": benchmark.title},
            "parameters": {"properties": parameters, "additionalProperties": False},
            "factors": {"properties": {**levels, **common_factors}, "additionalProperties": False},
        }
        of_benchmarks.append({"title": benchmark.name, "properties": properties})
    of_programs = {"name": {"not": {"enum": list(benchmarks())}}}
    table["anyOf"] = [
        *of_benchmarks,
        {"title": "a program of the study", "properties": of_programs},
    ]


def _properties(models: Iterable[type[BaseModel]], tables: Schema) -> Schema:
    """Return the schemas of all keys of models, whose descriptions say unit and default, too.

    A key of several models that differs among them may be any of theirs. tables: gets what the models refer to.
    """
    variants: dict[str, list[Schema]] = {}
    for model in models:
        schema = model.model_json_schema()
        tables.update(schema.get("$defs", {}))
        for key in keys(model):
            described = schema["properties"][key.name]
            described.pop("title", None)
            described["description"] = _description(key.meaning, key.unit, key.default_text)
            key_variants = variants.setdefault(key.name, [])
            if described not in key_variants:
                key_variants.append(described)
    return {
        name: forms[0] if len(forms) == 1 else {"anyOf": forms} for name, forms in variants.items()
    }


def _description(meaning: str, unit: str, default: str) -> str:
    sentences = [meaning, f"unit: {unit}" if unit else "", f"default: {default}" if default else ""]
    return "; ".join(text for text in sentences if text)


def _required_keys(model: type[BaseModel]) -> list[str]:
    return [key.name for key in keys(model) if key.needed]


def _levels(value: Schema) -> Schema:
    """Return the schema of a list of levels of a value."""
    return {"type": "array", "items": value, "description": value.get("description", "")}
