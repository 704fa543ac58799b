"""`vtax note`: tags and notes of a run."""

from __future__ import annotations

import click

from vtax.cli.arguments import listed
from vtax.cli.completion import run_names, tags_of_runs
from vtax.cli.language import translate
from vtax.cli.output import existing_store, say
from vtax.errors import BadInput
from vtax.store.annotations import Annotations, annotate, checked_note, checked_tags, without_notes


def _numbers(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the numbers of --remove. Raises BadInput."""
    texts = listed(context, parameter, values)
    for text in texts:
        if not text.isdecimal():
            raise BadInput(
                f"{text!r} is no number of a note",
                where="--remove",
                hint="vtax note RUN numbers them",
            )
    return tuple(map(int, texts))


@click.command("note")
@click.argument("run_name", metavar="RUN", shell_complete=run_names)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    callback=listed,
    metavar="TAG,...",
    shell_complete=tags_of_runs,
    help="Add tags (repeatable).",
)
@click.option(
    "--untag",
    "untags",
    multiple=True,
    callback=listed,
    metavar="TAG,...",
    shell_complete=tags_of_runs,
    help="Remove tags (repeatable).",
)
@click.option(
    "--remove",
    "removed",
    multiple=True,
    callback=_numbers,
    metavar="NUMBER,...",
    help="Remove notes, by their numbers in the list (repeatable).",
)
def command(
    run_name: str,
    words: tuple[str, ...],
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    removed: tuple[int, ...],
) -> None:
    """Add a note or tags to RUN, or remove them; without either, list them.

    vtax list --where tag=TAG and --where note=TEXT find the run again.
    """
    new_notes = (checked_note(" ".join(words)),) if words else ()
    checked_tags(tags)
    store = existing_store()
    run = store.open_run(run_name)

    def change(before: Annotations) -> Annotations:
        new_tags = dict.fromkeys(before.tags)
        for tag in untags:
            if tag not in before.tags:
                has = ", ".join(before.tags) or "none"
                raise BadInput(
                    f"{run.name} has no tag {tag!r}", where="--untag", hint=f"its tags: {has}"
                )
            new_tags.pop(tag, None)
        new_tags.update(dict.fromkeys(tags))
        notes = (*without_notes(before.notes, removed), *new_notes)
        return Annotations(tuple(new_tags), notes)

    annotations = run.annotations
    if new_notes or tags or untags or removed:
        annotations = annotate(store.engine, run.id, change)
    if not annotations.tags and not annotations.notes:
        hint = "" if removed or untags else f"; add one: vtax note {run.name} TEXT"
        say(f"{run.name} has no tags and no notes{hint}")
    if annotations.tags:
        say(f"{translate('tags')}: {', '.join(annotations.tags)}")
    for number, note in enumerate(annotations.notes, start=1):
        click.echo(f"{number}. {note}")
