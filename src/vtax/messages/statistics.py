"""Warnings and refusals of the statistics: code -> sentence, or (sentence, sentence for other counts than one)."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, str | tuple[str, str]] = {
    "no-answer": "{text}",
    "not-numbers": "{what} are not numbers",
    "infinite": "{what} hold an infinite number",
    "too-large": "{what} hold a number beyond {largest}, too large to compute with",
    "nothing": "there are no {what}",
    "missing": (
        "{count} of {total} {what} is missing and was left out",
        "{count} of {total} {what} are missing and were left out",
    ),
    "not-positive": "{what} hold zero or a negative number, so a ratio is not defined",
    "one-block": "one block has no interval",
    "one-value": "one value has no interval",
    "all-equal": "all values are equal",
    "equal-blocks": "all blocks are equal: noise is below the tool's resolution",
    "equal-values": "all values are equal: noise is below the tool's resolution",
    "equal-ratios": "all blocks give the same ratio: noise is below the tool's resolution",
    "zero-mean-no-cv": "the mean is zero, so there is no coefficient of variation",
    "dependent-values": "values depend on one another: {values} are worth about {effective}",
    "outliers": (
        "{count} of {total} {what} lies far from the others; it is flagged, and kept in the figures",
        "{count} of {total} {what} lie far from the others; they are flagged, and kept in the figures",
    ),
    "sessions-alike": "all sessions give the same ratio: noise is below the tool's resolution",
    "hosts-alike": "all hosts give the same ratio: noise is below the tool's resolution",
    "few-blocks-for-places": "{blocks} blocks are few: places stay uncertain, and intervals take the noise as normal",
    "better-than-baseline": "better than {baseline} beyond noise: where that is the bare host, find the reason, such as a cache below "
    "the guest, before it decides",
    "dependent-places": "neighbouring blocks resemble each other, so intervals are wider",
    "zero-mean-no-noise": "the mean is zero, so relative noise is not defined",
    "tiny-mean-no-noise": "the mean is next to zero, so relative noise is not defined",
    "one-block-no-noise": "one block: noise between blocks cannot be estimated",
    "one-sample": "one sample per trial: noise within a trial counts as noise between trials",
    "one-trial": "one trial per block: noise between trials counts as noise between blocks",
    "negative-variance": "a variance was estimated below zero and is shown as zero: that level adds no visible noise",
    "too-many-blocks": "more than a million blocks are needed",
    "plan-needs-blocks": "a plan needs noise between blocks, so at least two blocks",
    "few-requests": "a percentile of {requests} requests is close to their maximum; {needed} are needed",
    "few-values-for-trend": "{values} values are too few to see a trend",
    "zero-median-no-drift": "the median is zero, so relative drift is not defined",
    "also-differs": "{fact} is {value}, {baseline}'s is {other}",
    "not-measured-yet": "not measured yet",
    "no-trial-went-well": "no trial succeeded",
    "no-baseline-here": "the baseline has no values here",
    "unknown-duration": "how long trials take is not known, so there is no plan",
    "one-block-no-plan": "one block: there is no plan without noise between blocks",
    "different-units": "the two runs have different units",
    "treatment-without-values": "the treatment has no values",
    "baseline-without-values": "the baseline has no values",
    "no-shared-block": "no block holds both sides",
    "dependent-blocks": "neighbouring blocks resemble each other: {blocks} are worth about {effective}, so the interval is wider",
    "unequal-noise": "one side is {times} times noisier than the other, so the interval is wider",
    "withheld-noisier": "no verdict: one side is {times} times noisier, and it may have rare slow blocks that were missed",
    "withheld-likely-dependent": "no verdict: slow blocks may come in a row, and then it would not hold",
    "assumes-independent-runs": "the change point takes runs as independent: where neighbouring ones are alike, as on a host that wanders "
    "slowly, one may be found though nothing changed",
    "assumes-independence": "verdicts assume that blocks are independent, which so few blocks cannot show",
    "failures-differ": "{failed} of {tried} trials failed, of the baseline {others} of {total}: where slow trials fail, the ratio "
    "flatters the side that failed more",
    "withheld-failures": "no verdict: more trials failed on the side that would win, and these may be its slow ones",
    "zeros-left-out": (
        "in {count} block a side did nothing (0): that block has no ratio and was left out",
        "in {count} blocks a side did nothing (0): these blocks have no ratio and were left out",
    ),
    "withheld-zeros": (
        "no verdict: in {count} block a side did nothing (0), and the ratio is of the others",
        "no verdict: in {count} blocks a side did nothing (0), and the ratio is of the others",
    ),
    "ratio-of-ratios": "a side was measured once: no interval shows what a session does to one platform alone",
    "one-session": "no verdict: a side was measured once",
    "timed-out": "{failed} of {tried} trials timed out after {timeout} s: where their work is fixed, they are slower than "
    "the ratio says",
    "timed-out-at-least": "{failed} of {tried} trials timed out after {timeout} s: of the same work, trials are at least {times} "
    "times slower than on the baseline",
    "coarse-figures": "figures are known in steps of {percent}\N{NO-BREAK SPACE}%: the interval reaches that far to "
    "each side",
    "withheld-resolution": "no verdict: figures are known in steps of {percent}\N{NO-BREAK SPACE}%, too coarse for one; "
    "give trials more work",
    "withheld-timer": "no verdict: trials end on a timer of the client, in steps of {percent}\N{NO-BREAK SPACE}% of "
    "their time; give them more work",
    "withheld-dependent": "no verdict: neighbouring blocks resemble each other, and the wider interval does not support it",
    "other-quantity": "left out, since trials measured something else than the study asks for, or than the other side: see the warnings of "
    "the run",
    "withheld-other-quantity": "no verdict: trials measured something else than the study asks for, or than the other side",
    "withheld-clock": "no verdict `equivalent`: a guest's clock ran off by more than the margin, and the figure is of that clock",
    "withheld-clock-check": "not passed: a guest's clock ran off by more than the margin of the run, and the figure is of that clock",
    "few-for-spread": (
        "one value is too few for a spread; at least {minimum} are needed",
        "{count} values are too few for a spread; at least {minimum} are needed",
    ),
    "no-spread": "values do not differ, so there is no spread to compare",
    "one-level": "values at one level alone: nothing rises or falls",
    "few-blocks-for-claim": (
        "one block is too few to judge a finding; at least {minimum} are needed",
        "{count} blocks are too few to judge a finding; at least {minimum} are needed",
    ),
    "claim-drift": "no word: the figures of {platform} change by {change} over the run",
    "claim-busy": "no word: other programs used more than {bound} CPUs in {share} of the trials",
    "claim-steal": "no word: CPU steal of more than {bound} in {share} of the trials",
    "few-blocks": (
        "one block is too few for a verdict; at least {minimum} are needed",
        "{count} blocks are too few for a verdict; at least {minimum} are needed",
    ),
    "time-is-left": "time is left",
    "rule-fixed": "The number of blocks ({blocks}) was declared before the run.",
    "rule-open": "Declared before the run: blocks and sessions may be added whenever wanted; intervals and verdicts hold "
    "at every look, and comparisons that are decided are not measured again.",
    "rule-precision": "Declared before the run: stop when every ratio's interval is within ±{precision}\N{NO-BREAK SPACE}%, "
    "after {minimum} to {maximum} blocks, judged on whole blocks; intervals are widened for repeated looks.",
    "rule-verdict": "Declared before the run: stop when every comparison has its verdict, after {minimum} to {maximum} "
    "blocks, with group-sequential boundaries for repeated looks; comparisons that are decided are not measured again.",
    "rule-early": "A comparison whose whole interval, corrected for its family, lies beyond a factor of two after three "
    "blocks is decided then, and not measured again.",
    "rule-early-again": "From five blocks on the same is asked after each of its blocks, at levels that hold at any "
    "look, with a factor of 1.5.",
    "rule-verdict-ended": "Its time ended it, so its last look spends all the error that the earlier ones had left.",
    "rule-budget": "Declared before the run: as many whole blocks as fit into the time budget.",
    "one-block-made": (
        "{count} of {total} block is made",
        "{count} of {total} block are made",
    ),
    "blocks-made": (
        "{count} of {total} blocks is made",
        "{count} of {total} blocks are made",
    ),
    "fewest-blocks-made": (
        "{count} of at least {minimum} blocks is made",
        "{count} of at least {minimum} blocks are made",
    ),
    "nothing-to-compare": "there is nothing to compare",
    "no-data": "no contrast has data in any block",
    "interval-within": "an interval within ±{precision}\N{NO-BREAK SPACE}%",
    "all-have": (
        "the contrast has {what} after {blocks} blocks",
        "all {count} contrasts have {what} after {blocks} blocks",
    ),
    "contrast-misses": "the contrast misses {what} after {blocks} blocks",
    "contrasts-miss": (
        "{count} of {total} contrasts misses {what} after {blocks} blocks",
        "{count} of {total} contrasts miss {what} after {blocks} blocks",
    ),
    "most-allowed": "{what}, the most allowed",
    "contrast-refused": "the contrast cannot be judged, since a value is zero or negative",
    "contrasts-refused": "{count} of {total} contrasts cannot be judged, since a value is zero or negative",
    "contrast-lost": "the contrast had no value in the last {last} blocks and is left out",
    "contrasts-lost": (
        "{count} of {total} contrasts had no value in the last {last} blocks and is left out",
        "{count} of {total} contrasts had no value in the last {last} blocks and are left out",
    ),
    "contrast-withheld": "the contrast has no verdict for what further blocks do not change and is left out",
    "contrasts-withheld": (
        "{count} of {total} contrasts has no verdict for what further blocks do not change and is left out",
        "{count} of {total} contrasts have no verdict for what further blocks do not change and are left out",
    ),
    "budget-over": (
        "the time budget of {budget} ends before another block would, after {count} block",
        "the time budget of {budget} ends before another block would, after {count} blocks",
    ),
}

TERMS = (
    "values",
    "blocks",
    "log-ratios",
    "values of the platform",
    "values of the baseline",
    "values of the treatment",
    "blocks of the treatment",
    "blocks of the baseline",
    "logarithms",
    "p-values",
    "positions",
    "a verdict",
    "values of a harmonic mean",
    "values of a geometric mean",
)
"""Words that data of a note may name as `what`."""
