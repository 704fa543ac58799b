"""What every column of the exports is: its name, kind, unit and meaning. docs/data.md is written from it.

CSV and Parquet have one table. JSON (`vtax export --format json`, `vtax show --json`) nests: a part of it is
described by the path to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["text", "JSON", "number", "whole number", "yes or no", "time", "list", "object"]


@dataclass(frozen=True)
class Field:
    """A column, or a key. unit: of a number; empty for counts and shares of 1. meaning: what it says, when it is
    empty."""

    name: str
    kind: Kind
    unit: str
    meaning: str


MEASUREMENTS = (
    Field("run", "text", "", "name of the run"),
    Field("study", "text", "", "name of its study"),
    Field("platform", "text", "", "platform of the guest"),
    Field("benchmark", "text", "", "benchmark"),
    Field("label", "text", "", "name of the study's benchmark table: the benchmark's, unless the study has its own"),
    Field("tool_version", "text", "", "version of the benchmark's tool; empty when it is not known"),
    Field("topology", "text", "", "topology of the lab; empty without a network"),
    Field("parameters", "JSON", "", "parameters of the benchmark, its factors' levels included"),
    Field("link", "JSON", "", "requested settings of the links"),
    Field("cell", "text", "", "key of the cell: platform, benchmark and all settings"),
    Field("point", "text", "", "key of the cell's settings, the same on every platform"),
    Field(
        "factor_NAME", "text", "", "level of the factor NAME, a column each; empty where the cell has no such factor"
    ),
    Field(
        "block",
        "whole number",
        "",
        "block, from 1",
    ),
    Field("session", "whole number", "", "session of the run, from 1: its boot of the host, and its hour"),
    Field("number", "whole number", "", "trial of the cell within the block, from 0, warm-up included"),
    Field("position", "whole number", "", "place of the trial in the order of the run, from 0"),
    Field("is_warmup", "yes or no", "", "whether it is a warm-up trial, which no figure uses"),
    Field("status", "text", "", "`ok` or `failed`"),
    Field("error", "text", "", "why a trial failed; empty for one that did not"),
    Field("started", "time", "", "start of the trial"),
    Field(
        "outside_s", "number", "s", "duration of the tool by the controller's monotonic clock; empty when not known"
    ),
    Field("inside_s", "number", "s", "the same by the guest's clock; empty when not known"),
    Field("effective", "JSON", "", "effective settings, as far as the trial came: socket buffers, MSS, offloads"),
    Field("metric", "text", "", "metric of the value; empty in the row of a failed trial"),
    Field("value", "number", "unit", "measured value, unscaled; empty in the row of a failed trial"),
    Field("unit", "text", "", "unit of the value"),
    Field("better", "text", "", "`higher` or `lower`: which values of the metric are better"),
)
"""The columns of CSV and Parquet in their order: a row per measurement, and one per failed trial."""


def column(name: str) -> Field:
    """Return the column of that name in CSV and Parquet. Raises KeyError."""
    known = {field.name: field for field in MEASUREMENTS}
    return replace(known["factor_NAME"], name=name) if name.startswith("factor_") else known[name]


def meaning(name: str) -> dict[str, str]:
    """Return kind, unit and meaning of a column of CSV and Parquet. Raises KeyError."""
    known = column(name)
    return {"kind": known.kind, "unit": known.unit, "meaning": known.meaning}


_INTERVAL = (
    Field("estimate", "number", "", "estimate"),
    Field("low", "number", "", "lower bound of its interval"),
    Field("high", "number", "", "upper bound of its interval"),
)
_WARNINGS = Field("warnings", "list", "", "sentences of what to beware of")
ANALYSIS: Mapping[str, tuple[Field, ...]] = {
    "": (
        Field("schema", "text", "", "`vtax.analysis/1`"),
        Field("run", "text", "", "name of the run"),
        Field("study", "text", "", "name of its study"),
        Field("declared", "object", "", "the study as it was declared, with every default; see study-files.md"),
        Field("status", "text", "", "`running`, `finished`, `paused`, `interrupted` or `failed`"),
        Field("stopped_because", "text", "", "why it ended"),
        Field("seed", "whole number", "", "seed of the random order"),
        Field("vtax_version", "text", "", "version of vtax that measured"),
        Field("image_key", "text", "", "key of the image"),
        Field("host", "object", "", "facts of the host; names ending in `_bytes` are bytes"),
        Field("plugins", "list", "", "installed plug-ins that the run used"),
        Field(
            "identity",
            "text",
            "",
            "32 digits that are the run's in every store; of an old one, of what it began with",
        ),
        Field("provenance", "object", "", "`imported`, `merged`: where the run is from; empty when measured here"),
        Field("tags", "list", "", "names that people gave it to find it by"),
        Field("notes", "list", "", "sentences that people wrote beside it"),
        Field("started", "time", "", "start of the run"),
        Field("ended", "time", "", "its end; null while it runs"),
        Field(
            "duration_s",
            "number",
            "s",
            "duration of the run, without the time it was interrupted; null when not known",
        ),
        Field("order", "list", "", "blocks in the order they ran"),
        Field("baseline", "text", "", "platform that ratios are to"),
        Field("blocks", "whole number", "", "whole blocks"),
        Field("sessions", "list", "", "sessions that have a trial"),
        Field("planned_sessions", "whole number", "", "sessions that the study asks for"),
        Field("trials", "whole number", "", "measured trials, failed ones included"),
        Field("failed", "whole number", "", "measured trials that failed"),
        Field("confidence", "number", "", "confidence level of intervals"),
        Field("margin", "number", "", "what counts as equivalent: ratios within 1 ± margin"),
        Field("platforms", "list", "", "platforms of the study"),
        Field("not_tested", "list", "", "points that a platform cannot carry"),
        Field("resources", "list", "", "overhead of every platform on every resource"),
        Field("next_step", "object", "", "what would decide what is undecided; null where nothing is, or unknown"),
        Field("answers", "list", "", "a sentence for every platform"),
        Field("results", "list", "", "a result for every metric of every benchmark table"),
        Field("warnings", "list", "", "all warnings, merged"),
        Field("missed_targets", "list", "", "a sentence for every missed target"),
        Field("effective", "list", "", "settings that were really in force, by cell"),
        Field("filter", "object", "", "what of the run is shown; absent when all is"),
    ),
    "effective[]": (
        Field("cell", "text", "", "key of the cell"),
        Field("platform", "text", "", "platform"),
        Field("label", "text", "", "name of the benchmark table"),
        Field("levels", "object", "", "factor -> level"),
        Field("settings", "object", "", "setting -> list of its different values in measured trials"),
    ),
    "order[]": (
        Field("block", "whole number", "", "block, from 1"),
        Field("platforms", "list", "", "platforms in the order of their guests"),
    ),
    "sessions[]": (
        Field("number", "whole number", "", "number, from 1"),
        Field("boot_id", "text", "", "boot of the host's kernel; empty when it is not known"),
        Field("started", "time", "", "start of the session"),
        Field("blocks", "list", "", "its blocks, from 1"),
        Field("kernel", "text", "", "kernel of the host when it started"),
    ),
    "platforms[]": (
        Field("name", "text", "", "name"),
        Field("identity", "object", "", "driver and all its options"),
        Field("available", "yes or no", "", "whether it was tested"),
        Field("reason", "text", "", "why it was not tested"),
        Field("hint", "text", "", "how to make it available"),
        Field("marks", "list", "", "what must be said with every figure: `emulated`, `nested`, `remote`"),
        Field("version", "text", "", "version of the runtime"),
        Field("is_baseline", "yes or no", "", "whether ratios are to it"),
        Field("ready_s", "list", "s", "start to ready of every guest"),
    ),
    "not_tested[]": (
        Field("platform", "text", "", "platform"),
        Field("point", "text", "", "key of the point"),
        Field("benchmark", "text", "", "benchmark"),
        Field("label", "text", "", "name of the benchmark table"),
        Field("topology", "text", "", "topology"),
        Field("levels", "object", "", "factor -> level"),
        Field("reason", "text", "", "why the platform cannot carry it"),
        Field("hint", "text", "", "how it could"),
    ),
    "resources[]": (
        Field("resource", "text", "", "`cpu`, `memory`, `disk`, `network`, `kernel`, `start` or `application`"),
        Field("labels", "list", "", "its benchmark tables"),
        Field("platforms", "list", "", "platforms that have a value there"),
    ),
    "resources[].platforms[]": (
        Field("platform", "text", "", "platform"),
        Field("marks", "list", "", "what must be said with every figure: `emulated`, `nested`, `remote`"),
        Field("overhead", "object", "", "1 - efficiency, of the geometric mean of all comparisons"),
        Field("comparisons", "whole number", "", "comparisons of the resource"),
        Field("missing", "whole number", "", "those of them in which the platform has no value"),
    ),
    "resources[].platforms[].overhead": _INTERVAL,
    "next_step": (
        Field("command", "text", "", "to type; empty where vtax cannot go on with this run"),
        Field("duration_s", "number", "s", "how long it measures at the pace of the run; null when not known"),
        Field("is_new_run", "yes or no", "", "whether a new run takes the place of this one, which cannot go on"),
        Field(
            "blocks_low",
            "whole number",
            "",
            "smallest number of further blocks, or of all blocks of a new run; 0 when it is not about blocks",
        ),
        Field("blocks", "whole number", "", "largest number of them"),
        Field("decides", "list", "", "comparisons that these blocks would probably decide"),
        Field("left", "list", "", "the other comparisons that are undecided"),
        Field("soon_blocks", "whole number", "", "further blocks in 10 minutes at the run's pace, or null"),
        Field("soon_decides", "number", "", "comparisons that these would decide, a sum of chances, or null"),
    ),
    "next_step.decides[], next_step.left[]": (
        Field("platform", "text", "", "platform"),
        Field("label", "text", "", "name of the benchmark table"),
        Field("metric", "text", "", "metric"),
        Field("levels", "object", "", "factor -> level"),
    ),
    "answers[]": (
        Field("platform", "text", "", "name"),
        Field("marks", "list", "", "its marks"),
        Field("text", "text", "", "the sentence"),
    ),
    "results[]": (
        Field("label", "text", "", "name of the benchmark table"),
        Field("benchmark", "text", "", "benchmark"),
        Field("tool_version", "text", "", "version of its tool"),
        Field("metric", "text", "", "metric"),
        Field("title", "text", "", "what people call it"),
        Field("unit", "text", "", "unit of all its values"),
        Field("better", "text", "", "`higher` or `lower`"),
        Field("primary", "yes or no", "", "whether tables show it first and the run's rule looks at it"),
        Field("family", "whole number", "", "comparisons that were judged together"),
        Field("points", "list", "", "combinations of levels"),
    ),
    "results[].points[]": (
        Field("point", "text", "", "key"),
        Field("levels", "object", "", "factor -> level"),
        Field("topology", "text", "", "topology; empty without a network"),
        Field("parameters", "object", "", "parameters of the benchmark"),
        Field("link", "object", "", "requested settings of the links"),
        Field("rows", "list", "", "platforms"),
    ),
    "results[].points[].rows[]": (
        Field("platform", "text", "", "platform"),
        Field("cell", "text", "", "key of the cell"),
        Field("marks", "list", "", "marks of the platform"),
        Field("failed", "whole number", "", "trials that failed"),
        Field("summary", "object", "", "the platform's own values; null without any"),
        Field("blocks", "list", "", "blocks with values, from 0"),
        Field("block_means", "list", "unit", "the mean of each"),
        Field("ratio", "object", "", "ratio to the baseline; null for the baseline and without an answer"),
        Field("timeouts", "object", "", "trials of fixed work that timed out; null without any"),
        Field(
            "detectable_overhead",
            "number",
            "",
            "smallest overhead that the comparison had a probability of 0.8 to see; null with too few blocks",
        ),
        Field("typical", "object", "", "ratio of typical trials; null where trials or blocks are too few"),
        Field("efficiency", "object", "", "ratio where higher is better, else 1 / ratio; see statistics.md"),
        Field("overhead", "object", "", "1 - efficiency"),
        Field("verdict", "object", "", "verdict on the ratio; null without one"),
        Field("target_missed", "yes or no", "", "whether what the rule declared for it is not reached"),
        _WARNINGS,
    ),
    "results[].points[].rows[].summary": (
        Field("n", "whole number", "", "trials"),
        Field("blocks", "whole number", "", "blocks"),
        Field("mean", "number", "unit", "mean of the blocks' means"),
        Field("sd", "number", "unit", "standard deviation of all trials"),
        Field("cv", "number", "", "coefficient of variation of all trials"),
        Field("low", "number", "unit", "lower bound of the mean's t-interval; null with one block"),
        Field("high", "number", "unit", "upper bound of it"),
        Field("confidence", "number", "", "confidence level of it"),
        Field("median", "number", "unit", "median of the blocks' medians"),
        Field("median_low", "number", "unit", "lower bound of the median's interval"),
        Field("median_high", "number", "unit", "upper bound of it"),
        Field("median_confidence", "number", "", "what it covers"),
        Field("minimum", "number", "unit", "min of all trials"),
        Field("maximum", "number", "unit", "max of all trials"),
        Field("effective_n", "number", "", "independent values that the trials are worth; null with few"),
        Field("outliers", "list", "", "positions of outliers among the trials"),
        _WARNINGS,
    ),
    "results[].points[].rows[].ratio": (
        Field("estimate", "number", "", "geometric mean of the ratios within blocks"),
        Field("low", "number", "", "lower bound of its t-interval"),
        Field("high", "number", "", "upper bound of it"),
        Field("confidence", "number", "", "confidence level of it"),
        Field("n_blocks", "whole number", "", "blocks with both sides"),
        Field("mean_log", "number", "", "mean of the logarithms"),
        Field("se_log", "number", "", "standard error of it"),
        Field("df", "number", "", "degrees of freedom"),
        Field("p_value", "number", "", "of the t-test that the ratio is 1"),
        Field("outliers", "list", "", "positions of outlying blocks"),
        _WARNINGS,
        Field("skewness", "number", "", "skewness of the logarithms"),
        Field("effective_blocks", "number", "", "independent blocks that the blocks are worth"),
        Field("n_sessions", "whole number", "", "sessions that its blocks are of; with several they are the unit"),
        Field("within", "list", "", "standard error and degrees of freedom of blocks alone; null for one session"),
        Field("between_sd", "number", "", "standard deviation of the logarithm between sessions; null for one"),
        Field("predicted_low", "number", "", "lower bound of the ratio of one more session; null for one"),
        Field("predicted_high", "number", "", "upper bound of it"),
    ),
    "results[].points[].rows[].timeouts": (
        Field("timed_out", "whole number", "", "trials that the timeout ended"),
        Field("tried", "whole number", "", "trials"),
        Field("timeout_s", "number", "s", "after which they were ended; the longest of several"),
        Field(
            "slower_at_least",
            "number",
            "",
            "lower bound of how many times as long as the baseline's a trial lasts; 0 without one",
        ),
    ),
    "results[].points[].rows[].typical": (
        Field("estimate", "number", "", "20 % trimmed mean of the ratios of medians within blocks, by logarithms"),
        Field("low", "number", "", "lower bound of its t-interval (Yuen)"),
        Field("high", "number", "", "upper bound of it"),
        Field("confidence", "number", "", "confidence level of it"),
        Field("n_blocks", "whole number", "", "blocks with both sides"),
        Field("trials", "whole number", "", "trials of the block and side that has the fewest"),
        Field("mean_log", "number", "", "trimmed mean of the logarithms"),
        Field("p_value", "number", "", "Holm-adjusted, that it is the ratio of averages"),
        Field("pauses", "text", "", "`treatment` or `baseline`: the side that may pause; empty where none is seen"),
        _WARNINGS,
    ),
    "results[].points[].rows[].efficiency": _INTERVAL,
    "results[].points[].rows[].overhead": _INTERVAL,
    "results[].points[].rows[].verdict": (
        Field("kind", "text", "", "`slower`, `faster`, `equivalent` or `undecided`"),
        Field("margin", "number", "", "margin of equivalence"),
        Field("alpha", "number", "", "error rate of the family"),
        Field("family", "whole number", "", "comparisons that it is corrected for"),
        Field("p_difference", "number", "", "Holm-adjusted p-value of a difference"),
        Field("p_equivalence", "number", "", "Holm-adjusted p-value of equivalence"),
        Field("blocks_needed_low", "whole number", "", "further blocks that settle it in one case of five, or null"),
        Field(
            "costs_at_most",
            "number",
            "fraction",
            "of an undecided one, a one-sided bound of its overhead; those of a family hold together",
        ),
        Field("blocks_needed", "whole number", "", "further blocks that settle it in about four of five, or null"),
        Field("needed", "object", "", "of an undecided one, blocks in all at its noise; see statistics.md, or null"),
        _WARNINGS,
        Field("text", "text", "", "the same in words"),
    ),
    "warnings[]": (
        Field("code", "text", "", "name of the sentence"),
        Field("severity", "text", "", "`note`, `warning` or `error`"),
        Field("text", "text", "", "the sentence, with ranges where numbers differ"),
        Field("data", "object", "", "what the sentence holds; ranges have `low` and `high`"),
        Field("texts", "list", "", "every different sentence"),
        Field("places", "list", "", "where it holds; empty for the whole run"),
        Field("times", "whole number", "", "how often it was given"),
        Field("is_primary", "yes or no", "", "whether it is about a primary metric or the run"),
    ),
}
"""Path in the JSON of a result -> its keys."""

_NOT_IN_SQL = ("factor_NAME", "started")
SQL_MEASUREMENTS = (
    *(field for field in MEASUREMENTS if field.name not in _NOT_IN_SQL),
    Field("started_at", "number", "s", "start of the trial as Unix time"),
    Field("levels", "JSON", "", "factor -> level, of what varies"),
)
"""The columns of the SQL view `measurements`."""

LISTED_RUN = (
    Field("name", "text", "", "name of the run"),
    Field("study", "text", "", "name of its study"),
    Field("status", "text", "", "`running`, `finished`, `paused`, `interrupted` or `failed`"),
    Field("started", "time", "", "start of the run"),
    Field("ended", "time", "", "its end; null while it runs"),
    Field("duration_s", "number", "s", "active time; null until it has ended"),
    Field("stopped_because", "text", "", "why it ended"),
    Field("platforms", "list", "", "platforms of the study"),
    Field("cells", "whole number", "", "cells of the run"),
    Field("blocks", "whole number", "", "blocks that have a trial"),
    Field("trials", "whole number", "", "measured trials, failed ones included"),
    Field("failed", "whole number", "", "measured trials that failed"),
    Field("sessions", "whole number", "", "sessions that were begun"),
    Field("origin", "text", "", "`merged`, `imported` or `imported from another host`; empty when measured here"),
    Field("tags", "list", "", "names that people gave it to find it by"),
    Field("notes", "list", "", "sentences that people wrote beside it"),
    Field("hosts", "list", "", "machine ids of its hosts, shortened hashes; each once"),
    Field("resume_hint", "text", "", "how to resume it; empty when it cannot be resumed"),
)
"""The keys of each run in the list that `vtax list --json` writes."""
