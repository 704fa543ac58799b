"""`vtax new`: writes a study by asking, or from options, and prints what its time will be able to see."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from vtax.benchmarks.registry import benchmarks
from vtax.cli.arguments import listed, share_of_option, words_of
from vtax.cli.completion import platform_names
from vtax.cli.language import translate
from vtax.cli.output import json_option, notify, print_json, print_table, say
from vtax.cli.preview import Preview, preview, startable
from vtax.described import values_of
from vtax.errors import BadInput
from vtax.platforms import registry
from vtax.study.drafts import BODIES, QUESTIONS, TABLES, Draft, Question
from vtax.study.fields import checked_name
from vtax.study.load import load, shipped
from vtax.units import duration_s, format_count, format_duration, format_percent

BASELINE = "native"
_LONGEST_S = 7 * 86400  # of a run that is drafted
_USUAL = ("cpu", "memory", "disk", "network")  # resources
_COPIED = "files that a command line names are copied into the guest"
_SHELL = ("|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1")

Answer = TypeVar("Answer")


@click.command("new")
@click.argument("name")
@click.option("--question", type=click.Choice(list(QUESTIONS)), help="What the study answers.")
@click.option(
    "--platforms",
    metavar="P,...",
    shell_complete=platform_names,
    help="Compare these platforms with native.",
)
@click.option("--time", "time", metavar="TIME", help="How long the run may take, e.g. 30min.")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    callback=listed,
    metavar="R,...",
    help=f"Measure {', '.join(TABLES)}; of service {', '.join(BODIES['service'])} (repeatable).",
)
@click.option(
    "--difference", metavar="SHARE", help="The difference to find, for the question difference."
)
@click.option(
    "--command",
    "program",
    metavar="LINE",
    help="The command line of a program, for the question program; files of this directory in it are copied into "
    "the guest.",
)
@json_option
def command(name: str, as_json: bool, **given: Any) -> None:
    """Write the study NAME.toml from your answers, or from options.

    Questions: compare (platforms by resource), difference (of some percent), density (guests that
    run at once), network (sizes of messages), service (requests and slow answers of servers),
    program (one of your own). It prints how many blocks fit into the time, and the difference that
    they would find, from the noise of this host's runs or else from a stated assumption. A time in which too few
    blocks for a verdict fit is refused. Without --platforms, root measures those of the study tour that start here.

    \b
      vtax new mine
      vtax new mine --question compare --platforms docker,lxc --time 30min
      vtax new zip --question program --platforms podman --time 20min --command "./zip.sh 9"
    """
    name = name.removesuffix(".toml")
    _check_name(name)
    path = Path(f"{name}.toml")
    if path.exists():
        raise BadInput(f"{path} is there already", hint="choose another name, or remove it")
    draft = _answers(name, given)
    result = None
    while result is None:
        try:
            result = preview(draft, path)
        except BadInput as error:
            if error.where != "--time" or given["time"] is not None:
                raise
            notify(f"error: {error}")
            draft = replace(draft, time=_ask_time())
    if as_json:
        print_json({"schema": "vtax.new/1", "file": str(path.resolve()), **values_of(result)})
        return
    _print(draft, path, result)


def _check_name(name: str) -> None:
    """Raise BadInput for a name that a study cannot have, or that a shipped study has."""
    try:
        checked_name(name)
    except ValueError as error:
        what = f"{name!r} cannot name a study: {error}"
        raise BadInput(
            what, hint="the file is written into this directory, such as mine.toml"
        ) from error
    if name in shipped():
        raise BadInput(
            f"{name} is a study of vtax",
            hint="choose another name; vtax studies lists those of vtax",
        )


def is_terminal() -> bool:
    """Return whether someone can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _answers(name: str, options: dict[str, Any]) -> Draft:
    """Return the draft of options, and of answers where these are missing. Raises BadInput."""
    asks = is_terminal()
    missing = [f"--{option}" for option in ("question", "time") if not options[option]]
    if missing and not asks:
        what = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing, and there is no terminal to ask"
        raise BadInput(what, hint="vtax new --help has an example")
    question = cast(Question, options["question"] or _ask_question())
    _check_belongs(question, options)
    resources = _resources(question, options["resources"], asks=asks)
    difference = _difference(question, options["difference"], asks=asks)
    line = _program(question, options["program"], asks=asks)
    platforms = _platforms(options["platforms"], asks=asks)
    time = _checked_time(options["time"]) if options["time"] else _ask_time()
    return Draft(
        name,
        question,
        platforms,
        time,
        resources,
        difference,
        name if name not in benchmarks() else f"{name}-program",
        tuple(line),
        _files_of(line),
    )


def _ask_time() -> str:
    return _answer("How long may the run take?", "30min", _checked_time)


def _ask(text: str, default: str) -> str:
    return str(click.prompt(text, default=default, err=True)).strip()


def _answer(text: str, default: str, read: Callable[[str], Answer]) -> Answer:
    """Return the answer that read accepts; asked again, with its error, after one that it refuses."""
    while True:
        try:
            return read(_ask(text, default))
        except BadInput as error:
            notify(f"error: {error}")


def _ask_question() -> str:
    notify("What should the study answer?")
    for question, text in QUESTIONS.items():
        notify(f"  {question}: {text}")
    return str(
        click.prompt("Question", type=click.Choice(list(QUESTIONS)), default="compare", err=True)
    )


def _check_belongs(question: Question, options: dict[str, Any]) -> None:
    """Raise BadInput for an option of another question."""
    questions_by_option = {
        "resources": ("--resource", tuple(BODIES)),
        "difference": ("--difference", ("difference",)),
        "program": ("--command", ("program",)),
    }
    for parameter, (option, questions) in questions_by_option.items():
        if options[parameter] and question not in questions:
            raise BadInput(
                f"{option} has no effect on the question {question}",
                hint=f"it belongs to {', '.join(questions)}",
            )


def _resources(question: Question, names: tuple[str, ...], *, asks: bool) -> tuple[str, ...]:
    if question not in BODIES:
        return ()
    known_resources = list(BODIES[question])
    default = (
        known_resources
        if question == "service"
        else [name for name in _USUAL if name in known_resources]
    )

    def read(text: str) -> tuple[str, ...]:
        resources = tuple(dict.fromkeys(_words(text)))
        for resource in resources or ("resource",):
            if resource not in known_resources:
                raise BadInput(
                    f"{question} measures no {resource}",
                    where="--resource",
                    hint=f"it knows {', '.join(known_resources)}",
                )
        return resources

    if not names and asks:
        return _answer(
            f"What should it measure ({', '.join(known_resources)})?", ", ".join(default), read
        )
    return read(", ".join(names or default))


def _difference(question: Question, text: str | None, *, asks: bool) -> float | None:
    if question != "difference":
        return None
    if text is None and not asks:
        raise BadInput(
            "the question difference needs --difference", hint="for example --difference 5%"
        )
    if text is None:
        return _answer(
            "Which difference should be found?",
            "5%",
            lambda answer: share_of_option(answer, "--difference"),
        )
    return share_of_option(text, "--difference")


def _program(question: Question, text: str | None, *, asks: bool) -> list[str]:
    if question != "program":
        return []
    if text is None and not asks:
        raise BadInput(
            "the question program needs --command",
            hint="for example --command './zip.sh 9' --file ./zip.sh",
        )
    if text is None:
        return _answer(
            "Which command line should be timed?", "sha256sum /usr/bin/python3", _command_line
        )
    return _command_line(text)


def _command_line(text: str) -> list[str]:
    """Return the words of a command line. Raises BadInput."""
    words = words_of(text, "--command")
    for word in words:
        if word in _SHELL:
            what = f"{word} is of a shell, and none starts the program"
            raise BadInput(what, where="--command", hint=f"write: sh -c {shlex.quote(text)}")
    _files_of(words)
    return words


def _files_of(line: list[str]) -> tuple[str, ...]:
    """Return the files of this directory that a command line names. Raises BadInput for one that is not there."""
    files = []
    for number, word in enumerate(line):
        is_here = word.startswith(("./", "../"))
        if is_here and not Path(word).is_file():
            raise BadInput(f"{word} is no file here", where="--command", hint=_COPIED)
        if is_here or (number > 0 and not word.startswith("/") and Path(word).is_file()):
            files.append(word)
    return tuple(dict.fromkeys(files))


def _platforms(names_text: str | None, *, asks: bool) -> tuple[str, ...]:
    """Return the baseline and the others: those that are named, or else that start here. Raises BadInput."""
    if names_text:
        return _known_platforms(names_text)
    names, why_not = startable()
    usual = load("tour").study.platforms
    default = [name for name in usual if name in names and name != BASELINE]
    if not asks:
        if why_not or not default:
            what = f"--platforms is missing, and {why_not or 'none of the study tour starts here'}"
            raise BadInput(what, hint="name them, as vtax platforms lists them")
        return (BASELINE, *default)
    if why_not:
        notify(f"Platforms were not probed: {why_not}. vtax platforms lists them.")
    else:
        notify(f"These start here: {', '.join(names)}")
    return _answer("Compare which with native?", ", ".join(default or ["podman"]), _known_platforms)


def _known_platforms(text: str) -> tuple[str, ...]:
    """Return the baseline and the platforms that a text names. Raises BadInput for one that does not exist."""
    names = dict.fromkeys([BASELINE, *_words(text)])
    for name in names:
        registry.get(name)
    if len(names) == 1:
        raise BadInput(
            f"{BASELINE} alone has nothing to be compared with",
            where="--platforms",
            hint="name a platform",
        )
    return tuple(names)


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def _checked_time(text: str) -> str:
    """Return the text of a duration above 0 and of at most seven days. Raises BadInput."""
    try:
        seconds = duration_s(text)
    except ValueError as error:
        raise BadInput(
            str(error), where="--time", hint="write a duration such as 30min or 2h"
        ) from error
    if seconds > _LONGEST_S:
        what = f"the time is {text}; vtax new drafts runs of at most {format_duration(_LONGEST_S)}"
        raise BadInput(what, where="--time", hint="raise budget in the file for a longer one")
    if seconds <= 0:
        raise BadInput(
            f"the time is {text}; it must be above 0 s", where="--time", hint="for example 30min"
        )
    return text


def _print(draft: Draft, path: Path, result: Preview) -> None:
    say(
        f"wrote {path.resolve()}: {format_count(result.cells, 'cell')} on {', '.join(draft.platforms)}"
    )
    say(
        f"{draft.time} fits about {format_count(result.blocks, 'block')} of {format_duration(result.block_s)} "
        f"({result.block_s_from})"
    )
    margin = format_percent(draft.margin, "g")
    rows = []
    for sight in result.sees:
        difference = equality = "-"
        if sight.difference is not None:
            percent = format_percent(sight.difference)
            difference = translate("{difference} or more", difference=percent)
        if sight.shows_equality is not None:
            equality = translate("yes") if sight.shows_equality else translate("no")
        noise = f"{format_percent(sight.noise)} ({sight.noise_from})"
        rows.append((sight.label, noise, difference, equality))
    print_table(
        (
            "benchmark",
            "noise of a block's ratio",
            "finds a difference of",
            translate("can show equality within ±{margin}", margin=margin),
        ),
        rows,
    )
    say(
        translate(
            "with a probability of 80 %, for one comparison alone; several in a table need more"
        )
    )
    for line in result.notes:
        say(line)
    for file in draft.files:
        say(f"copied into the guest: {file}")
    say(f"run it: {result.command}")
