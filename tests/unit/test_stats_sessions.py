"""Means over sessions against formulas written out by hand, scipy and the published numbers of meta-analysis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from vtax.messages import Note
from vtax.stats.checks import StatsError
from vtax.stats.judge import Contrast, analyse
from vtax.stats.ratio import p_above, ratio_of_logs
from vtax.stats.rules import RULES
from vtax.stats.sessions import (
    half_width_over_sessions,
    nested_mean,
    ratio_over_sessions,
    unpaired_over_sessions,
)

RANDOM = np.random.default_rng(11)


def nested(
    sessions: int, blocks: int, between: float, within: float = 0.01
) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat(np.arange(1, sessions + 1), blocks)
    effects = between * RANDOM.standard_normal(sessions)
    return effects[labels - 1] + within * RANDOM.standard_normal(labels.size), labels


def test_sessions_of_equal_size_give_the_t_interval_of_their_means():
    logs, labels = nested(4, 5, 0.05)
    means = logs.reshape(4, 5).mean(axis=1)
    found = ratio_over_sessions(logs, labels)
    expected = np.exp(stats.t.interval(0.95, 3, means.mean(), stats.sem(means)))
    assert (found.low, found.high) == pytest.approx(tuple(expected))
    assert found.p_value == pytest.approx(stats.ttest_1samp(means, 0.0).pvalue)
    assert p_above(found, 0.01) == pytest.approx(
        stats.ttest_1samp(means, 0.01, alternative="greater").pvalue
    )
    spread = stats.t.ppf(0.975, 3) * means.std(ddof=1) * math.sqrt(1 + 1 / 4)  # of a fifth mean
    predicted = (math.exp(means.mean() - spread), math.exp(means.mean() + spread))
    assert (found.predicted_low, found.predicted_high) == pytest.approx(predicted)


def test_sessions_of_unequal_size_count_alike():
    sessions = [
        np.array([0.10, 0.14, 0.12]),
        np.array([0.30, 0.26]),
        np.array([0.22, 0.18, 0.20, 0.24]),
    ]
    found = nested_mean(np.concatenate(sessions), np.repeat([3, 7, 9], [3, 2, 4]))
    means = np.array([0.12, 0.28, 0.21])
    session, block = found.levels
    assert (found.mean, session.se, session.df) == pytest.approx(
        (means.mean(), stats.sem(means), 2.0)
    )
    noise = (
        0.0008 + 0.0008 + 0.002
    ) / 6  # sums of squares within sessions, and their degrees of freedom
    sampling = noise * (1 / 3 + 1 / 2 + 1 / 4) / 3
    assert session.sd == pytest.approx(math.sqrt(means.var(ddof=1) - sampling))
    assert (block.se, block.df, block.sd) == pytest.approx(
        (math.sqrt(sampling / 3), 6.0, math.sqrt(noise))
    )
    assert found.next_variance == pytest.approx(means.var(ddof=1))


def test_sessions_that_agree_by_chance_are_no_surer_than_their_blocks():
    logs = np.array([0.01, -0.01, 0.0101, -0.0099])
    labels = np.array([1, 1, 2, 2])
    found = ratio_over_sessions(logs, labels)
    within = math.sqrt(
        ((logs.reshape(2, 2) - logs.reshape(2, 2).mean(1, keepdims=True)) ** 2).sum() / 2 / 4
    )
    assert found.errors[1] == pytest.approx((within, 2.0))
    assert math.log(found.high) == pytest.approx(logs.mean() + stats.t.ppf(0.975, 2) * within)
    assert found.p_value == pytest.approx(2 * stats.t.sf(logs.mean() / within, 2))
    assert found.predicted_low is not None
    assert found.predicted_low <= found.low


def test_swapping_both_sides_gives_the_inverse():
    logs, labels = nested(3, 4, 0.02)
    found, swapped = ratio_over_sessions(logs, labels).inverse, ratio_over_sessions(-logs, labels)
    for name in ("estimate", "low", "high", "p_value", "predicted_low", "predicted_high"):
        assert getattr(found, name) == pytest.approx(getattr(swapped, name))


def test_one_session_is_the_ratio_of_its_blocks_and_blocks_without_a_value_are_left_out():
    logs, labels = nested(1, 6, 0.0)
    assert ratio_over_sessions(logs, labels) == ratio_of_logs(logs)
    logs, labels = nested(3, 3, 0.02)
    holed = logs.copy()
    holed[labels == 2] = np.nan
    found = ratio_over_sessions(holed, labels)
    assert (found.n_sessions, found.n_blocks) == (2, 6)
    assert found.low == pytest.approx(
        ratio_over_sessions(logs[labels != 2], labels[labels != 2]).low
    )
    with pytest.raises(StatsError):
        ratio_over_sessions(np.full(3, np.nan), [1, 2, 3])


def test_sessions_of_one_block_each_have_no_noise_within():
    logs = np.array([0.1, 0.12, 0.15])
    found = ratio_over_sessions(logs, [1, 2, 3])
    assert [each.unit for each in found.nesting] == ["session"]
    assert (found.low, found.high) == pytest.approx(
        tuple(np.exp(stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))))
    )
    still = ratio_over_sessions([0.1, 0.1, 0.1, 0.1], [1, 1, 2, 2])
    assert (still.low, still.high) == pytest.approx((math.exp(0.1), math.exp(0.1)))
    assert Note("sessions-alike") in still.warnings


HOSTS = np.repeat([7, 8, 9, 4], 6)
OF_HOSTS = np.column_stack(
    [HOSTS, np.repeat(np.arange(12), 2)]
)  # two blocks in each of three sessions of four hosts


def of_hosts(between: float, session: float = 0.01, block: float = 0.01) -> np.ndarray:
    hosts, sessions = between * RANDOM.standard_normal(4), session * RANDOM.standard_normal(12)
    return np.repeat(hosts, 6) + np.repeat(sessions, 2) + block * RANDOM.standard_normal(24)


def test_hosts_are_the_unit_and_these_hosts_are_known_over_their_sessions():
    logs = of_hosts(0.3, 0.05)
    found = ratio_over_sessions(logs, OF_HOSTS)
    means = logs.reshape(4, 6).mean(axis=1)
    assert (found.n_hosts, found.n_sessions, found.n_blocks, found.units) == (4, 12, 24, 4)
    assert (found.low, found.high) == pytest.approx(
        tuple(np.exp(stats.t.interval(0.95, 3, means.mean(), stats.sem(means))))
    )
    assert found.p_value == pytest.approx(stats.ttest_1samp(means, 0.0).pvalue)
    of_sessions = logs.reshape(4, 3, 2).mean(axis=2)
    pooled = ((of_sessions - of_sessions.mean(axis=1, keepdims=True)) ** 2).sum() / 8
    half = stats.t.ppf(0.975, 8) * math.sqrt(pooled / 12)
    these = found.of_these_hosts
    assert (these.low, these.high) == pytest.approx(
        (math.exp(means.mean() - half), math.exp(means.mean() + half))
    )
    spread = stats.t.ppf(0.975, 3) * means.std(ddof=1) * math.sqrt(1 + 1 / 4)  # of a fifth host
    assert found.predicted_high == pytest.approx(math.exp(means.mean() + spread))


def test_shares_of_variance_are_those_of_an_analysis_of_variance():
    logs = of_hosts(0.1, 0.05, 0.02)
    found = ratio_over_sessions(logs, OF_HOSTS)
    cube = logs.reshape(4, 3, 2)
    sessions, hosts = cube.mean(axis=2), cube.mean(axis=(1, 2))
    block = (
        (cube - sessions[..., None]) ** 2
    ).sum() / 12  # mean squares of a balanced nested design
    session = 2 * ((sessions - hosts[:, None]) ** 2).sum() / 8
    host = 6 * hosts.var(ddof=1)
    variances = [(host - session) / 6, (session - block) / 2, block]
    assert [each.unit for each in found.nesting] == ["host", "session", "block"]
    assert [each.sd**2 for each in found.nesting] == pytest.approx(variances)
    assert [each.share for each in found.nesting] == pytest.approx(
        np.array(variances) / sum(variances)
    )


def test_unequal_sessions_of_hosts_count_alike_and_hosts_too():
    labels = np.column_stack([[1, 1, 1, 1, 2, 3, 3], [1, 1, 1, 2, 3, 4, 5]])
    logs = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8])
    found = ratio_over_sessions(logs, labels)
    assert found.mean_log == pytest.approx(((0.2 + 0.4) / 2 + 0.5 + 0.7) / 3)


def test_hosts_that_agree_by_chance_are_no_surer_than_their_sessions_and_one_host_is_its_sessions():
    logs = np.tile(np.repeat([-0.02, 0.0, 0.02], 2), 4)
    found = ratio_over_sessions(logs, OF_HOSTS)
    assert (found.low, found.high) == (found.of_these_hosts.low, found.of_these_hosts.high)
    assert found.high > 1.005
    assert found.p_value == pytest.approx(1.0)
    assert Note("hosts-alike") in found.warnings
    alone = np.column_stack([np.full(24, 3), OF_HOSTS[:, 1]])
    assert ratio_over_sessions(logs, alone) == ratio_over_sessions(logs, OF_HOSTS[:, 1])
    assert ratio_over_sessions(logs, alone).of_these_hosts is None
    one_session_a_host = np.column_stack([OF_HOSTS[:, 0], OF_HOSTS[:, 0]])
    assert ratio_over_sessions(logs, one_session_a_host).of_these_hosts is None


def test_two_samples_of_hosts_are_compared_by_welch_over_hosts():
    a, b = of_hosts(0.3), of_hosts(0.2)
    found = unpaired_over_sessions((a, OF_HOSTS), (b, OF_HOSTS))
    means = a.reshape(4, 6).mean(axis=1), b.reshape(4, 6).mean(axis=1)
    assert found.p_value == pytest.approx(stats.ttest_ind(*means, equal_var=False).pvalue)
    assert [each.unit for each in found.nesting] == ["host", "session", "block"]
    one = unpaired_over_sessions((a, OF_HOSTS), (b[:6], OF_HOSTS[:6]))
    sessions = b[:6].reshape(3, 2).mean(axis=1)
    assert one.p_value == pytest.approx(stats.ttest_ind(means[0], sessions, equal_var=False).pvalue)


def test_two_samples_of_sessions_are_compared_by_welch():
    (a, of_a), (b, of_b) = nested(3, 4, 0.05), nested(5, 4, 0.02)
    found = unpaired_over_sessions((a, of_a), (b, of_b))
    means = a.reshape(3, 4).mean(axis=1), b.reshape(5, 4).mean(axis=1)
    expected = stats.ttest_ind(*means, equal_var=False)
    assert found.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )
    assert found.n_sessions == 3
    assert unpaired_over_sessions((a[:4], of_a[:4]), (b, of_b)) is None


@pytest.mark.parametrize("stop", ["fixed", "verdict"])
def test_a_verdict_over_sessions_is_one_on_their_means(stop):
    logs = np.repeat([0.5, 0.52, 0.48, 0.51], 3) + np.tile([-0.01, 0.0, 0.01], 4)
    rule = RULES[stop]()  # type: ignore[arg-type]
    (over,) = analyse(
        rule, {"a": Contrast(logs, "lower", sessions=np.repeat([1, 2, 3, 4], 3))}
    ).values()
    assert (over.verdict.kind, over.ratio.n_sessions) == ("slower", 4)
    scattered = Contrast(
        logs + np.repeat([-0.9, 0.4, 0.9, -0.4], 3), "lower", sessions=np.repeat([1, 2, 3, 4], 3)
    )
    (found,) = analyse(rule, {"a": scattered}).values()
    assert found.verdict.kind == "undecided"
    assert found.verdict.blocks_needed is None


def test_the_interval_of_a_mean_is_over_sessions():
    values, labels = nested(3, 4, 0.05)
    half = half_width_over_sessions(10 + values, labels)
    assert half == pytest.approx(
        stats.t.ppf(0.975, 2) * stats.sem(values.reshape(3, 4).mean(axis=1))
    )
    assert half_width_over_sessions(values[:4], labels[:4]) is None
