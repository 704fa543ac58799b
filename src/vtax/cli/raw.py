"""`vtax show --raw`: the raw output of a trial's programs, as stored."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import chain

from vtax.cli.output import print_json
from vtax.cli.streams import document_stream
from vtax.described import values_of
from vtax.errors import BadInput
from vtax.foreign_text import escaped, one_line
from vtax.levels import Levels
from vtax.report.analysis.source import FilterWords, selection_of
from vtax.report.answers.trials import Trial, started, trials_of
from vtax.store.query import OutputRow, load, outputs_of_each
from vtax.store.store import Store

EVERY = "all"
_NO_OUTPUT = "no output is stored for this trial"


def print_raw(
    store: Store, run_name: str, number: str, filter_words: FilterWords, *, as_json: bool
) -> None:
    """Print the outputs of one trial, by its position, or of EVERY selected one.

    store: of the run.
    run_name: its name.
    number: position of the trial, or EVERY.
    filter_words: which trials are selected.

    Raises BadInput when no selected trial has this position, StoreError.
    """
    run = store.open_run(run_name)
    data = load(store.engine, run).narrowed(selection_of(run, filter_words))
    trials, stored_trials = trials_of(data), data.trials
    if number != EVERY:
        trials = [_find_trial(run.name, trials, number)]
    ids = dict(zip(stored_trials.position.tolist(), stored_trials.id.tolist(), strict=True))
    wanted_ids = {trial.position: ids[trial.position] for trial in trials}
    outputs_by_trial = outputs_of_each(store.engine, run, wanted_ids)
    with_outputs = zip(trials, outputs_by_trial, strict=True)
    if as_json:
        entries = [{**values_of(trial), "outputs": outputs} for trial, outputs in with_outputs]
        print_json({"schema": "vtax.raw/1", "run": run.name, "trials": entries})
        return
    for trial, outputs in with_outputs:
        lines = list(chain.from_iterable(map(_lines, outputs))) or [_NO_OUTPUT]
        document_stream().write("\n".join([_heading(trial), *lines, "", ""]))


def _find_trial(run: str, trials: Sequence[Trial], number: str) -> Trial:
    by_position = {str(trial.position): trial for trial in trials}
    if number in by_position:
        return by_position[number]
    hint = f"vtax show {run} --trials lists them"
    if not number.isdecimal():
        raise BadInput(
            f"{number!r} is not the number of a trial",
            where="--raw",
            hint=f"write RUN before --raw; {hint}",
        )
    raise BadInput(f"{run} has no trial {number} among those selected", where="--raw", hint=hint)


def _heading(trial: Trial) -> str:
    block = f"block {trial.block + 1}" if trial.block >= 0 else "before the first block"
    parts = [
        trial.cell.platform,
        trial.cell.label,
        str(Levels(trial.cell.levels)),
        block,
        "warm-up" if trial.is_warmup else "",
        "ok" if trial.is_ok else f"failed: {one_line(trial.error)}",
    ]
    return f"==== trial {trial.position}: {', '.join(filter(None, parts))} ({started(trial)})"


def _lines(output: OutputRow) -> Iterator[str]:
    """Yield the output of a program; control characters are shown as escapes."""
    end_text = f"exit status {output.status}" if output.status >= 0 else f"signal {-output.status}"
    yield f"---- {one_line(output.role)}: {one_line(escaped(shlex.join(output.argv)), 2000)} ({end_text})"
    for name, text in (("stdout", output.stdout), ("stderr", output.stderr)):
        if text:
            yield f"---- {one_line(output.role)} {name}"
            yield escaped(text).removesuffix("\n")
