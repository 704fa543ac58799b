"""`vtax new`: writes a study by asking, or from options, and prints what its time will be able to see."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from vtax.cli.arguments import listed, share_of_option, words_of
from vtax.cli.completion import platform_names
from vtax.cli.language import translate
from vtax.cli.output import json_option, notify, print_json, print_table, say
from vtax.cli.preview import Preview, preview, startable
from vtax.described import values_of
from vtax.errors import BadInput
from vtax.platforms import registry
from vtax.stats.terms import MINIMUM_BLOCKS
from vtax.study.drafts import DENSE, QUESTIONS, TABLES, Draft, Question
from vtax.study.fields import checked_name
from vtax.study.limits import MAX_GUESTS
from vtax.study.load import shipped
from vtax.units import duration_s, format_count, format_duration, format_percent

BASELINE = "native"
_NEEDED = "--question, --platforms and --time"
_LONGEST_S = 7 * 86400  # of a run that is drafted
_LARGEST_MARGIN = 0.25
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
    "--margin", metavar="SHARE", help="Ratios within this of 1 are equivalent.  [default: 2%]"
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    callback=listed,
    metavar="R,...",
    help=f"Measure {', '.join(TABLES)} (repeatable); for compare, difference and density.",
)
@click.option(
    "--difference", metavar="SHARE", help="The difference to find, for the question difference."
)
@click.option(
    "--guests",
    type=click.IntRange(2, MAX_GUESTS),
    help="Largest number of guests at once, for density.  [default: 4]",
)
@click.option(
    "--command",
    "program",
    metavar="LINE",
    help="The command line of a program, for the question program.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file that the program needs in the guest, as the command line names it (repeatable).",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@json_option
def command(name: str, force: bool, as_json: bool, **given: Any) -> None:
    """Write the study NAME.toml from your answers, or from options.

    Questions: compare (platforms by resource), difference (of some percent), density (guests that
    run at once), network (sizes of messages), service (requests and slow answers of servers),
    program (one of your own). It prints how many blocks fit into the time, and the difference that
    they would find, from the noise of this host's runs or else from a stated assumption.

    \b
      vtax new mine
      vtax new mine --question compare --platforms docker,lxc --time 30min
      vtax new zip --question program --platforms podman --time 20min --command "./zip.sh 9" --file ./zip.sh
    """
    name = name.removesuffix(".toml")
    _check_name(name)
    path = Path(f"{name}.toml")
    if path.exists() and not force:
        raise BadInput(
            f"{path} is there already", hint="choose another name, or add --force to replace it"
        )
    draft = _answers(name, given)
    result = preview(draft, path)
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


def _answers(name: str, given: dict[str, Any]) -> Draft:
    """Return the draft of options, and of answers where these are missing. Raises BadInput."""
    asks = is_terminal()
    missing = [f"--{each}" for each in ("question", "platforms", "time") if not given[each]]
    if missing and not asks:
        what = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing, and there is no terminal to ask"
        raise BadInput(what, hint=f"give {_NEEDED}; vtax new --help has an example")
    question = cast(Question, given["question"] or _ask_question())
    _check_belongs(question, given)
    resources = _resources(question, given["resources"], asks=asks)
    difference = _difference(question, given["difference"], asks=asks)
    line = _program(question, given["program"], asks=asks)
    platforms = _platforms(given["platforms"])
    if given["time"]:
        time = _checked_time(given["time"])
    else:
        time = _answer("How long may the run take?", "30min", _checked_time)
    guests = _guests(question, given["guests"], asks=asks)
    default = 0.02 if difference is None else min(0.02, difference / 2)
    margin = _margin(given["margin"]) if given["margin"] else default
    if given["margin"] is None and missing:
        margin = _answer(
            "Within which percentage are platforms equivalent?",
            f"{100 * default:g}%",
            _margin,
        )
    if difference is not None and margin >= difference:
        what = f"a difference of {format_percent(difference, 'g')} within the margin of {format_percent(margin, 'g')}"
        raise BadInput(
            f"{what} counts as none", where="--margin", hint="give a margin below the difference"
        )
    return Draft(
        name,
        question,
        platforms,
        time,
        margin,
        resources,
        difference,
        guests,
        tuple(line),
        _files(given["files"], line, asks=asks and not given["program"]),
    )


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


def _check_belongs(question: Question, given: dict[str, Any]) -> None:
    """Raise BadInput for an option of another question."""
    of = {
        "resources": ("--resource", ("compare", "difference", "density")),
        "difference": ("--difference", ("difference",)),
        "guests": ("--guests", ("density",)),
        "program": ("--command", ("program",)),
        "files": ("--file", ("program",)),
    }
    for parameter, (option, questions) in of.items():
        if given[parameter] and question not in questions:
            raise BadInput(
                f"{option} has no effect on the question {question}",
                hint=f"it belongs to {', '.join(questions)}",
            )


def _resources(question: Question, named: tuple[str, ...], *, asks: bool) -> tuple[str, ...]:
    if question in ("network", "service", "program"):
        return ()
    known = list(DENSE) if question == "density" else list(TABLES)
    default = ["cpu"] if question == "density" else ["cpu", "memory", "disk", "network"]

    def read(text: str) -> tuple[str, ...]:
        chosen = tuple(dict.fromkeys(_words(text)))
        for each in chosen or ("resource",):
            if each not in known:
                raise BadInput(
                    f"{question} measures no {each}",
                    where="--resource",
                    hint=f"it knows {', '.join(known)}",
                )
        return chosen

    if not named and asks:
        return _answer(f"Which resources ({', '.join(known)})?", ", ".join(default), read)
    return read(", ".join(named or default))


def _guests(question: Question, given: int | None, *, asks: bool) -> int:
    """Return the most guests at once, where the question is density."""
    if given is None and asks and question == "density":
        number = click.prompt(
            "How many guests at once, at most?",
            type=click.IntRange(2, MAX_GUESTS),
            default=4,
            err=True,
        )
        return int(number)
    return given or 4


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
    return words


def _files(named: tuple[str, ...], line: list[str], *, asks: bool) -> tuple[str, ...]:
    """Return the files that the guest needs.

    asks: whether to offer those of this host that the command line names.
    """
    local = []
    for word in line:
        if word.startswith(("./", "../")) and word not in named:
            local.append(word)
    if local and asks:
        default = ", ".join(local)
        return _answer(
            "Which of its files does the guest need?",
            default,
            lambda text: _known_files(_words(text), line),
        )
    if local:
        what = f"{local[0]} is a file of this directory, which no guest has"
        raise BadInput(what, where="--command", hint=f"add --file {local[0]}")
    return _known_files(named, line)


def _known_files(named: Sequence[str], line: list[str]) -> tuple[str, ...]:
    for path in named:
        if path not in line:
            raise BadInput(
                f"the command line does not name {path}",
                where="--file",
                hint="write it alike in both",
            )
        if not Path(path).is_file():
            raise BadInput(
                f"{path} is no file here", where="--file", hint="files are copied into the guest"
            )
    return tuple(named)


def _platforms(named: str | None) -> tuple[str, ...]:
    """Return the baseline and the others. Raises BadInput for one that does not exist."""
    return _known_platforms(named) if named else _ask_platforms()


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


def _ask_platforms() -> tuple[str, ...]:
    """Ask with those that start here as the default; root probes them."""
    names, why_not = startable()
    if why_not:
        notify(f"Platforms were not probed: {why_not}. vtax platforms lists them.")
        return _answer("Which platforms, separated by commas?", "podman", _known_platforms)
    others = [name for name in names if name != BASELINE]
    notify(f"These start here: {', '.join(others) or 'none but native'}")
    return _answer("Which of them, separated by commas?", ", ".join(others), _known_platforms)


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def _margin(text: str) -> float:
    """Return a margin of equivalence as a fraction. Raises BadInput for one that nearly everything is within."""
    margin = share_of_option(text, "--margin")
    if margin > _LARGEST_MARGIN:
        what = f"a margin of {format_percent(margin, 'g')}: at most {format_percent(_LARGEST_MARGIN, 'g')}"
        raise BadInput(
            what, where="--margin", hint="platforms that differ by more are hardly equivalent"
        )
    return margin


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
    if result.blocks < MINIMUM_BLOCKS:
        need = format_duration(MINIMUM_BLOCKS * result.block_s)
        say(f"warning: a verdict needs {MINIMUM_BLOCKS} blocks, so {need} or more")
    within = format_percent(draft.margin, "g")
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
            translate("can show equality within ±{margin}", margin=within),
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
    say(f"run it: sudo vtax run {path}")
