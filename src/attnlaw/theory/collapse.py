"""The collapsed solution S = 0 and the weight decay beyond which it is reached (theory (5.3))."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from attnlaw.channels.channel import conjugates, mean_loss, zero_map_averages
from attnlaw.channels.scores import ScoreLaw
from attnlaw.numerics.checks import require_seed
from attnlaw.numerics.gaussian import normal_points
from attnlaw.numerics.precision import in_float64
from attnlaw.problem import Problem, require_problem
from attnlaw.records import Conjugates, Overlaps
from attnlaw.spectra.free_convolution import right_edge_point, subordination
from attnlaw.spectra.grouping import grouped

MOST_TOKENS = 6


class Collapse(NamedTuple):
    """The solution S = 0: conjugates, loss of a sequence, and the critical λ̃_c.

    `bound` is the training objective over d² at S = 0 or at S = (β0/β) S0, whichever is lower: the
    minimum cannot lie above it.
    """

    conjugates: Conjugates
    loss: Any
    critical_decay_scaled: Any
    bound: Any


def collapse(problem: Problem, points: Any) -> Collapse:
    """Conjugates at h = ω = 0, Σ → 0, and λ̃_c = (m̂/2)·edge(μ_δ), δ = √q̂/m̂; (5.3).

    S = 0 is stable for λ̃ ≥ λ̃_c; just below, the rank grows from zero.
    """
    attention, variance = problem.attention, problem.score_variance
    averages = zero_map_averages(attention, problem.loss, variance, points[0])
    hats = conjugates(
        averages.gradient_square, averages.divergence, averages.alignment, problem.sample_ratio
    )
    noise_level = jnp.sqrt(hats.q_hat) / hats.m_hat
    point = right_edge_point(problem.target, noise_level)
    edge = subordination(problem.target, noise_level, point + 0j).real
    ratio, power = problem.scale_of_target, problem.target_power
    copy = ScoreLaw.of(Overlaps(ratio**2 * power, ratio * power, 0.0, 0.0), power, problem.noise)
    copy_loss = mean_loss(attention, problem.loss, copy, points)
    penalty = problem.weight_decay_scaled * ratio * problem.target.mean
    bound = jnp.minimum(averages.loss, copy_loss + penalty / problem.sample_ratio)
    return Collapse(hats, averages.loss, hats.m_hat / 2 * edge, problem.sample_ratio * bound)


@jax.jit
def compiled_collapse(problem: Problem, points: Any) -> Collapse:
    """`collapse` for each scramble of points (R, 2, K, N)."""
    return jax.lax.map(lambda own: collapse(problem, own), points)


def prepared(problem: Problem) -> Problem:
    """The problem as the compiled programs take it.

    A target of many eigenvalues is grouped into few; see `grouped`. Numbers become float64,
    whatever kind they have: a program is compiled anew for each kind.
    """
    target = grouped(problem.target)
    own = problem if target is problem.target else dataclasses.replace(problem, target=target)
    plain: Problem = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float)[()], own)
    return plain


def require_few_tokens(problem: Problem) -> None:
    """Raise unless the Gaussian average is of few enough dimensions for quasi-Monte Carlo."""
    if problem.attention.tokens > MOST_TOKENS:
        raise ValueError(
            f"tokens must be at most {MOST_TOKENS} in the theory, got {problem.attention.tokens}; "
            "the Gaussian average has T² + T − 2 dimensions; train layers instead"
        )


@in_float64
def critical_weight_decay(problem: Problem, *, seed: int = 0) -> float:
    """The weight decay λ_c at and beyond which S = 0 is a stable solution; (5.3).

    Args:
        problem: the problem; its own weight decay does not matter.
        seed: seed of the Gaussian average.

    Returns:
        λ_c on the scale of `weight_decay`, the penalty on W (λ̃_c = √κ λ_c).

    Raises:
        ValueError: more than six tokens, or a seed outside [0, 2³²).

    Example:
        >>> round(critical_weight_decay(Problem(sample_ratio=0.2)), 3)
        0.861
    """
    require_problem(problem)
    require_few_tokens(problem)
    require_seed(seed)
    points = normal_points(problem.attention.constraints, 2**14, 4, seed)
    grouped_problem = prepared(problem)
    critical = float(
        np.mean(np.asarray(compiled_collapse(grouped_problem, points).critical_decay_scaled))
    )
    return critical / problem.width_ratio**0.5
