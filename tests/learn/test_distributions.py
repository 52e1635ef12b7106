"""Log-probability, entropy and KL divergence against hand-worked numbers and SciPy."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats

from longrun.learning.learn.distributions import GAUSSIAN, Distribution, categorical

examples = settings(max_examples=100, deadline=None, derandomize=True, database=None)

NONE = jnp.zeros(0)
"""the log standard deviation of a categorical policy"""
PAIR = categorical((2, 3))


def row(*values: float) -> Any:
    return jnp.asarray(values, jnp.float32)


LN2, LN3 = math.log(2), math.log(3)
# Two dimensions: mean 1 and standard deviation 2; mean 0 and standard deviation 1.
MEAN, LOG_STD = row(1, 0), row(LN2, 0)
# Two components: (1/4, 3/4) and (1/4, 1/4, 1/2), with a constant added to each.
LOGITS = row(5, 5 + LN3, -2, -2, -2 + LN2)


# --- Gaussian --------------------------------------------------------------------------------


def test_gaussian_log_probability() -> None:
    # -1/2 - ln 2 - ln(2 pi)/2 = -.5 - .6931472 - .9189385 = -2.1120857
    # -(1/2)^2 / 2 - .9189385 = -1.0439385
    log_prob = GAUSSIAN.log_prob(MEAN, LOG_STD, row(3, 0.5))
    assert float(log_prob) == pytest.approx(-3.1560242, rel=1e-6)


def test_gaussian_entropy_is_one_number_for_every_row() -> None:
    # ln 2 + 1/2 + .9189385 = 2.1120857, and 1/2 + .9189385 = 1.4189385
    entropy = GAUSSIAN.entropy(jnp.stack([MEAN, MEAN + 7, MEAN]), LOG_STD)
    np.testing.assert_allclose(entropy, [3.5310242] * 3, rtol=1e-6)


def test_gaussian_kl_in_both_directions() -> None:
    # KL(N(0, 1) || N(1, 2^2)) = ln 2 + (1 + 1) / 8 - 1/2 = .4431472
    # KL(N(1, 2^2) || N(0, 1)) = -ln 2 + (4 + 1) / 2 - 1/2 = 1.3068528
    narrow, wide = (row(0), row(0)), (row(1), row(LN2))
    assert float(GAUSSIAN.kl(*narrow, *wide)) == pytest.approx(0.4431472, rel=1e-6)
    assert float(GAUSSIAN.kl(*wide, *narrow)) == pytest.approx(1.3068528, rel=1e-6)


def test_gaussian_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    mean, log_std, action = rng.normal(size=(5, 3)), rng.normal(size=3), rng.normal(size=(5, 3))
    normal = stats.norm(mean, np.exp(log_std))
    args = [jnp.asarray(x, jnp.float32) for x in (mean, log_std, action)]
    np.testing.assert_allclose(
        GAUSSIAN.log_prob(*args), normal.logpdf(action).sum(-1), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        GAUSSIAN.entropy(*args[:2]), normal.entropy().sum(-1), rtol=1e-5, atol=1e-5
    )


# --- categorical -----------------------------------------------------------------------------


def test_categorical_log_probability_adds_up_over_components() -> None:
    # ln(3/4) + ln(1/2) = -.2876821 - .6931472, and ln(1/4) + ln(1/4) = -2.7725887
    log_prob = PAIR.log_prob(jnp.stack([LOGITS, LOGITS]), NONE, jnp.asarray([[1, 2], [0, 1]]))
    np.testing.assert_allclose(log_prob, [-0.9808293, -2.7725887], rtol=1e-6)


def test_categorical_entropy_adds_up_over_components() -> None:
    # ln(4)/4 + 3 ln(4/3)/4 = .3465736 + .2157615, and 2 ln(4)/4 + ln(2)/2 = 1.0397208
    assert float(PAIR.entropy(LOGITS, NONE)) == pytest.approx(1.6020559, rel=1e-6)


def test_categorical_kl_adds_up_over_components() -> None:
    # To uniform components: ln(1/2)/4 + 3 ln(3/2)/4 = -.1732868 + .3040988 = .1308120,
    # and 2 ln(3/4)/4 + ln(3/2)/2 = -.1438410 + .2027326 = .0588916
    uniform = row(0, 0, 0, 0, 0)
    assert float(PAIR.kl(LOGITS, NONE, uniform, NONE)) == pytest.approx(0.1897036, rel=2e-6)
    # From them: ln(2)/2 + ln(2/3)/2 = .3465736 - .2027326 = .1438410,
    # and 2 ln(4/3)/3 + ln(2/3)/3 = .1917881 - .1351550 = .0566331
    assert float(PAIR.kl(uniform, NONE, LOGITS, NONE)) == pytest.approx(0.2004741, rel=2e-6)


def test_categorical_agrees_with_scipy() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(2, 6, 4))
    action = rng.integers(4, size=6)
    plain = categorical((4,))
    jp, jq = (jnp.asarray(x, jnp.float32) for x in (p, q))
    np.testing.assert_allclose(
        plain.log_prob(jp, NONE, jnp.asarray(action[:, None])),
        special.log_softmax(p, axis=1)[np.arange(6), action],
        rtol=1e-5,
    )
    p, q = special.softmax(p, axis=1), special.softmax(q, axis=1)
    np.testing.assert_allclose(plain.entropy(jp, NONE), stats.entropy(p, axis=1), rtol=1e-5)
    np.testing.assert_allclose(plain.kl(jp, NONE, jq, NONE), stats.entropy(p, q, axis=1), rtol=1e-5)


def test_a_certain_choice_has_no_entropy_and_a_finite_divergence() -> None:
    plain = categorical((2,))
    certain, even = row(1000, 0), row(0, 0)
    assert float(plain.entropy(certain, NONE)) == 0.0
    assert float(plain.log_prob(certain, NONE, jnp.asarray([1]))) == -1000.0
    assert float(plain.kl(certain, NONE, even, NONE)) == pytest.approx(LN2, rel=1e-6)
    # From even to certain: ln(1/2) + 1000/2.
    assert float(plain.kl(even, NONE, certain, NONE)) == pytest.approx(499.3068528, rel=1e-6)


# --- relations -------------------------------------------------------------------------------

moderate = st.floats(-3, 3, width=32)
five = arrays(np.float32, 5, elements=moderate)
families: Any = pytest.mark.parametrize("family", [GAUSSIAN, PAIR], ids=["Gaussian", "categorical"])


@families
@examples
@given(five, five, five, five, st.sampled_from([1.0, 1e-2, 1e-4, 1e-6]))
def test_kl_is_never_negative(
    family: Distribution, p: Any, s: Any, q: Any, r: Any, apart: float
) -> None:
    # Where two policies are nearly the same, rounding leaves some 1e-7 of each of the five terms.
    q, r = (a + np.float32(apart) * (b - a) for a, b in ((p, q), (s, r)))
    assert float(family.kl(p, s, q, r)) >= -1e-6


@families
@examples
@given(five, five)
def test_kl_to_itself_is_exactly_0(family: Distribution, p: Any, s: Any) -> None:
    assert float(family.kl(p, s, p, s)) == 0.0


@families
@examples
@given(five, five, st.integers(0, 4), st.sampled_from([-0.5, 0.5]))
def test_kl_to_a_different_policy_is_positive(
    family: Distribution, p: Any, s: Any, where: int, change: float
) -> None:
    q = p.copy()
    q[where] += change
    assert float(family.kl(p, s, q, s)) > 0.0
