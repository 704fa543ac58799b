"""Studies with a known truth: what a run would have measured under each kind of noise, many studies at once.

A study has blocks; in each block every platform is started once (a boot) and runs its trials. `cv` is the relative
standard deviation of a trial within a boot. All platforms share the noise of the block (the hour); every boot has its
own. The order within a block is random here, and fixed by platform in `sequential`, which is what others do. Large
arrays are changed in place: touching fresh memory costs more than the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """within: shape of the trials' noise. Numbers are in units of the within-boot standard deviation `cv`.

    between: standard deviation of a boot. block: of a block. states: distance of the slow of two boot states, which a
    boot is in with probability slow. drift: change over the whole run. ar: autocorrelation of neighbouring trials.
    """

    name: str
    within: str = "normal"
    between: float = 0.0
    block: float = 1.0
    states: float = 0.0
    slow: float = 0.5
    drift: float = 0.0
    ar: float = 0.0


NOISES = (
    Noise("normal"),
    Noise("log-normal", within="log-normal"),
    Noise("skewed (exponential tail)", within="exponential"),
    Noise("heavy-tailed (t, 3 df)", within="t3"),
    Noise("10 % disturbed trials (5 sd slower)", within="disturbed"),
    Noise("two boot states, half and half", states=5.0),
    Noise("two boot states, 20 % slow", states=5.0, slow=0.2),
    Noise("drifting (10 sd over the run)", drift=10.0),
    Noise("autocorrelated in a guest (0.9)", ar=0.9),
    Noise("between-boot variance = within", between=1.0),
    Noise("between-boot variance = 10 x within", between=10.0**0.5),
)


def standard(shape: str, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Noise of mean 0 and standard deviation 1 (in logarithms; `normal` is made linear by `multiplier`)."""
    if shape in ("normal", "log-normal"):
        return rng.standard_normal(size)
    if shape == "exponential":
        return 1 - rng.standard_exponential(size)  # slow trials are far slower
    if shape == "t3":
        return rng.standard_t(3, size) / np.sqrt(3)
    if shape == "disturbed":
        return (rng.standard_normal(size) - 5 * (rng.random(size) < 0.1) + 0.5) / np.sqrt(
            1 + 25 * 0.09
        )
    raise ValueError(shape)


def multiplier(shape: str, z: Array, cv: float) -> Array:
    """What a value is multiplied by, in place of z: 1 + cv z for `normal`, exp(cv z) for the others."""
    z *= cv
    if shape != "normal":
        return np.exp(z, out=z)
    z += 1
    return np.maximum(z, 0.02, out=z)


def _boots(noise: Noise, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    z = rng.standard_normal(size)
    z *= noise.between
    if noise.states:
        z -= noise.states * (rng.random(size) < noise.slow)
    return z


def _trials(noise: Noise, size: tuple[int, ...], rng: np.random.Generator) -> Array:
    z = standard(noise.within, size, rng)
    if noise.ar:
        innovation = np.sqrt(1 - noise.ar**2)
        for k in range(1, size[-1]):
            z[..., k] = noise.ar * z[..., k - 1] + innovation * z[..., k]
    return z


def randomized(
    noise: Noise,
    cv: float,
    ratios: Array,
    studies: int,
    blocks: int,
    trials: int,
    rng: np.random.Generator,
) -> Array:
    """Values of shape (studies, platforms, blocks, trials); ratios[p]: true ratio of platform p to the first."""
    platforms = ratios.size
    log = _boots(noise, (studies, platforms, blocks, 1), rng)
    log *= cv
    log += cv * noise.block * rng.standard_normal((studies, 1, blocks, 1))
    if noise.drift:
        position = rng.permuted(
            np.tile(np.arange(platforms)[:, None], (studies, 1, blocks)), axis=1
        )
        turn = (np.arange(blocks) * platforms + position)[..., None] + (
            np.arange(trials) + 0.5
        ) / trials
        log = log - cv * noise.drift * turn / (platforms * blocks)
    values = multiplier(noise.within, _trials(noise, (studies, platforms, blocks, trials), rng), cv)
    values *= np.exp(log, out=log)
    if (ratios != 1).any():
        values *= ratios[:, None, None]
    return values


def sequential(
    noise: Noise, cv: float, ratios: Array, studies: int, trials: int, rng: np.random.Generator
) -> Array:
    """Values of shape (studies, platforms, trials): all trials of a platform in a row, in one boot and one hour."""
    platforms = ratios.size
    log = cv * _boots(noise, (studies, platforms, 1), rng)
    log = log + cv * noise.block * rng.standard_normal((studies, platforms, 1))
    if noise.drift:
        turn = np.arange(platforms)[:, None] + (np.arange(trials) + 0.5) / trials
        log = log - cv * noise.drift * turn / platforms
    values = multiplier(noise.within, _trials(noise, (studies, platforms, trials), rng), cv)
    return np.asarray(values * np.exp(log) * ratios[:, None])
