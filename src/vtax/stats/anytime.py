"""Student's t-test that may be looked at after any block, for ever: levels and p-values of the rule `open`.

Under the null hypothesis the Bayes factor of the t-statistic, with a normal prior on the effect (mean over standard
deviation), is a martingale that starts at 1, so it ever exceeds 1 / alpha with probability alpha at most (Ville 1939;
Lai, On confidence sequences, Ann. Statist. 1976; Wang & Ramdas, Anytime-valid t-tests and confidence sequences for
Gaussian means with unknown variance, 2024). The factor is that of Rouder et al., Bayesian t tests for accepting and
rejecting the null hypothesis, Psychon. Bull. Rev. 2009. It depends on t and the number of blocks alone, so what it
asks for is a level of Student's test. A single side has half the error: hardly a run crosses both.
"""

from __future__ import annotations

import math

from scipy import special

PRIOR = 4.0
"""Variance of the effect: intervals are narrowest around 7 blocks, where decisions are usually near."""


def level(alpha: float, blocks: float) -> float:
    """Return the one-sided significance level of Student's t after so many blocks, for an error of alpha over all
    looks.

    0 where so few blocks can never reject.
    """
    df, grows = blocks - 1, 1 + blocks * PRIOR
    wanted = (math.sqrt(grows) / (2 * alpha)) ** (2 / blocks)
    if df <= 0 or wanted >= grows:
        return 0.0
    return float(special.stdtr(df, -math.sqrt(df * (wanted - 1) * grows / (grows - wanted))))


def p_value(p: float, blocks: float) -> float:
    """Return one-sided: the smallest error over all looks at which Student's p-value after so many blocks rejects."""
    df, grows = blocks - 1, 1 + blocks * PRIOR
    if df <= 0 or p >= 0.5:
        return 1.0
    t = float(special.stdtrit(df, max(p, 1e-300)))
    log_factor = df / 2 * math.log(grows) - blocks / 2 * math.log1p(df * (grows - 1) / (df + t * t))
    return min(1.0, math.exp(-log_factor) / 2)
