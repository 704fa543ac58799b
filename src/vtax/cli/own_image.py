"""`vtax run --image NAME --load COMMAND`: the study of one server of an image of one's own, without a study file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from vtax.benchmarks.registry import benchmarks
from vtax.cli.arguments import words_of
from vtax.cli.output import notify
from vtax.cli.run_options import RunOptions
from vtax.errors import BadInput
from vtax.study.drafts import known_load, served
from vtax.study.fields import checked_name
from vtax.study.programs import ENTRY

load_option = click.option(
    "--load",
    "load_of",
    metavar="COMMAND",
    help="Load the server of --image with this command from a peer, as the only benchmark; {url}, "
    "{guest_address} and {port} are replaced by its address.",
)
serve_option = click.option(
    "--serve",
    metavar="COMMAND",
    help="Run this in the image as the server; default: its own program.",
)
port_option = click.option(
    "--port", type=click.IntRange(1, 65000), help="Load this port of the server; default: 8080."
)


def study_of(options: RunOptions) -> str:
    """Return what `vtax run` runs: STUDY, or a temporary study file generated from the options.

    Raises BadInput for options that do not go together.
    """
    image, load_of = options.image, options.load_of
    if load_of is None:
        if options.serve or options.port:
            raise BadInput("--serve and --port need --load", hint="add --load COMMAND")
        if options.study is None:
            raise BadInput(
                "STUDY is missing", hint="vtax studies lists them; or --image NAME --load COMMAND"
            )
        return options.study
    if options.study is not None or options.benchmarks or image is None:
        argument, command = "STUDY", "vtax run"
        if options.ladder is not None:
            argument, command = "BENCHMARK", f"vtax anatomy --of {options.ladder}"
        raise BadInput(
            f"--load takes the place of {argument}, and needs --image",
            where="--load",
            hint=f"{command} --image {image or 'shop'} --load '{load_of}'",
        )
    try:
        checked_name(image)
    except ValueError as error:
        raise BadInput(f"image cannot be {image!r}: {error}", where="--image") from None
    words = words_of(load_of, "--load")
    if not any(name in load_of for name in ("{url}", "{guest_address}")):
        raise BadInput(
            "the command does not say what it loads", where="--load", hint="write {url} in it"
        )
    if known_load(words) is None:
        notify(
            f"Answers are not checked, since vtax does not know what {words[0]} reports: a server that answers with "
            "errors alone counts as well; must_match and fails_if of a study's [[program]] check them."
        )
    directory = click.get_current_context().with_resource(TemporaryDirectory(prefix="vtax-"))
    path = Path(directory, "study.toml")
    server = [f"{{{ENTRY}}}", *(words_of(options.serve, "--serve") if options.serve else [])]
    name = image if image not in benchmarks() else f"{image[:57]}-served"
    path.write_text(served(name, image, server, words, options.port or 8080))
    return str(path)
