"""The output side: Gaussian averages of the proximal step (theory §3)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from attnlaw.channels.curvature import Derivatives, loss_derivatives
from attnlaw.channels.lowest import lowest_minima
from attnlaw.channels.prox import solve_symmetric
from attnlaw.channels.scores import ScoreLaw
from attnlaw.losses import SquareLoss
from attnlaw.records import Conjugates


class Proximal(NamedTuple):
    """At the proximal points h*: ℓ(h*), g = (h* − ω)/Σ, ∇²ℓ(h*), and whether the steps settled."""

    loss: Any
    g: Any
    hessian: Any
    settled: Any


class ChannelAverages(NamedTuple):
    """Averages over (z0, ω) at given order parameters, one entry a scramble.

    moreau = 𝓜(Σ, m, q), loss = E ℓ(h*), gradient_square = E|g|², divergence = D_ω and
    alignment = D_0 of (3.3), stein_divergence = D_ω by Stein's lemma alone (the exact derivative
    of the sampled 𝓜), response_trace = E tr ∂g/∂ω and response_square = E‖∂g/∂ω‖²_F over the first
    chunk of points alone, jumps not counted (4.5; zero where not asked for), two_minima the
    fraction of points where the two starts of the proximal step end at different minima, settled
    the fraction of converged steps.
    """

    moreau: Any
    loss: Any
    gradient_square: Any
    divergence: Any
    alignment: Any
    stein_divergence: Any
    response_trace: Any
    response_square: Any
    two_minima: Any
    settled: Any


class Jump(NamedTuple):
    """Change of averages when one point passes to its other minimum.

    `size` is its sum relative to the averages, by which the largest is found.
    """

    gradient_square: Any
    divergence: Any
    alignment: Any
    size: Any


class Used(NamedTuple):
    """How many scrambles to average over, how many chunks of each, and whether details are wanted.

    Details are what only a solution is asked for: ∂g/∂ω, and the matrix side beside it.
    """

    scrambles: Any
    chunks: Any
    details: Any = True

    @classmethod
    def all_of(cls, points: Any) -> "Used":
        """All of points (scrambles, chunks, …)."""
        return cls(*points.shape[:2])


def channel_averages(
    attention: Any, loss: Any, law: ScoreLaw, sigma: Any, points: Any, used: Used
) -> tuple[ChannelAverages, Jump]:
    """Averages of the channel at (q, m, Σ), and the largest jump of their mean by one point.

    Args:
        attention, loss: the channel.
        law: of the scores at q, m.
        sigma: Σ.
        points: standard normal points (scrambles, chunks, 2, K_eff, B).
        used: scrambles and chunks to use; the averages of the other scrambles are zero.
    """
    held = jnp.asarray(points)

    def one(index: Any) -> tuple[ChannelAverages, Jump]:
        chunk = index % used.chunks
        own = held[index // used.chunks, chunk]
        first = chunk == 0
        averages, jump = _chunk_averages(attention, loss, law, sigma, own, first & used.details)
        weight = jnp.where(first, used.chunks, 0)
        weighted = averages._replace(
            response_trace=weight * averages.response_trace,
            response_square=weight * averages.response_square,
        )
        return weighted, jump

    shape, jump_shape = jax.eval_shape(one, 0)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(points.shape[0], leaf.dtype), shape)
    no_jump = jax.tree.map(lambda leaf: jnp.zeros((), leaf.dtype), jump_shape)

    def add(index: Any, state: tuple[ChannelAverages, Jump]) -> tuple[ChannelAverages, Jump]:
        total, largest = state
        own, jump = one(index)
        scramble = index // used.chunks
        larger = jump.size > largest.size
        return (
            jax.tree.map(lambda row, new: row.at[scramble].add(new / used.chunks), total, own),
            jax.tree.map(lambda new, old: jnp.where(larger, new, old), jump, largest),
        )

    parts = used.scrambles * used.chunks
    total, largest = jax.lax.fori_loop(0, parts, add, (nothing, no_jump))
    return total, jax.tree.map(lambda leaf: leaf / parts, largest)


def conjugates(square: Any, divergence: Any, alignment: Any, sample_ratio: Any) -> Conjugates:
    """q̂ = 2α E|g|², m̂ = 2α D_0, Σ̂ = −2α D_ω; (3.2)–(3.3)."""
    return Conjugates(
        2 * sample_ratio * square, 2 * sample_ratio * alignment, -2 * sample_ratio * divergence
    )


@jax.jit
def _chunk_averages(
    attention: Any, loss: Any, law: ScoreLaw, sigma: Any, points: Any, measured: Any
) -> tuple[ChannelAverages, Jump]:
    """Averages over one chunk, and its largest jump; the response only where it is `measured`.

    D_ω is the mean derivative of g where the proximal step is certainly continuous (Σβ² small),
    and by Stein's lemma (3.3), which counts jumps too, beyond; the two have the same mean, the
    first less noise, and the passage between them is smooth. D_0 follows by Stein's lemma.
    """
    smooth = _smooth_share(sigma * attention.beta**2)
    best, other, apart = _proximal_points(attention, loss, law, sigma, points)
    spread, slope, free = law

    def moments(g: Any) -> Any:
        """|g|², D_ω by Stein's lemma, and g·ζ0/√variance, point by point."""
        along_target, along_free = jnp.einsum("kn,akn->an", g, points)
        return jnp.stack([jnp.sum(g**2, axis=0), along_free / free, along_target / spread])

    own = moments(best.g)
    square, stein, along_target = jnp.mean(own, axis=1)
    trace, norm = _mean_response(best, sigma, measured | (smooth > 0))
    divergence = smooth * trace + (1 - smooth) * stein
    jumps = jnp.where(apart, moments(other) - own, 0.0) / points.shape[-1]
    size = jnp.sum(jnp.abs(jumps) / (jnp.abs(jnp.mean(own, axis=1)[:, None]) + 1e-300), axis=0)
    worst = jnp.argmax(size)
    jump = jumps[:, worst]
    averages = ChannelAverages(
        moreau=jnp.mean(best.loss) + sigma * square / 2,
        loss=jnp.mean(best.loss),
        gradient_square=square,
        divergence=divergence,
        alignment=along_target - slope / spread * divergence,
        stein_divergence=stein,
        response_trace=trace,
        response_square=norm,
        two_minima=jnp.mean(apart),
        settled=jnp.mean(best.settled),
    )
    return averages, Jump(jump[0], jump[1], jump[2] - slope / spread * jump[1], size[worst])


def attention_error(attention: Any, law: ScoreLaw, points: Any) -> Any:
    """E Σ_ab (Y(z0) − A(ω))²_ab; (4.4)."""
    return mean_loss(attention, SquareLoss(), law, points)


def mean_loss(attention: Any, loss: Any, law: ScoreLaw, points: Any) -> Any:
    """E ℓ(Y(z0), A(ω)) of a map that does not depend on the sequence."""
    z0, omega = law.scores(points)
    labels = attention.labels(attention.scores(z0))
    return jnp.mean(loss(labels, attention.weights(attention.scores(omega))))


def _smooth_share(steepness: Any) -> Any:
    """1 where Σβ² ≤ 0.7, 0 from 1 on (the proximal step can jump above 1.04 at T = 2)."""
    x = jnp.clip((1.0 - steepness) / 0.3, 0.0, 1.0)
    return x * x * (3 - 2 * x)


def _mean_response(best: Proximal, sigma: Any, wanted: Any) -> tuple[Any, Any]:
    """E tr ∂g/∂ω and E‖∂g/∂ω‖²_F, ∂g/∂ω = −H (I + ΣH)⁻¹ with H = ∇²ℓ at the proximal point."""
    count, size = best.g.shape
    unit = jnp.eye(count)[:, :, None]

    def mean() -> tuple[Any, Any]:
        units = jnp.broadcast_to(unit, (count, count, size))
        inverse, _ = solve_symmetric(best.hessian + unit / sigma, units)
        response = jnp.einsum("ijn,jkn->ikn", best.hessian, inverse) / sigma
        square = jnp.mean(jnp.sum(response**2, axis=(0, 1)))
        return jnp.mean(jnp.trace(inverse)) / sigma**2 - count / sigma, square

    nothing = jnp.zeros(()), jnp.zeros(())
    both: tuple[Any, Any] = jax.lax.cond(wanted, mean, lambda: nothing)
    return both


def _proximal_points(
    attention: Any, loss: Any, law: ScoreLaw, sigma: Any, points: Any
) -> tuple[Proximal, Any, Any]:
    """The lower minimum of each proximal step, g at the higher one, and where they are two.

    Where the proximal step certainly has a single minimum, only the start ω is followed.
    """
    z0, omega = law.scores(points)
    labels = attention.labels(attention.scores(z0))
    steepness = sigma * attention.beta**2
    unit = jnp.eye(omega.shape[0])[:, :, None]

    def objective(own: tuple[Any, Any], y: Any) -> Derivatives:
        near = loss_derivatives(attention, loss, own[0], y)
        away = y - own[1]
        return Derivatives(
            near.value + jnp.sum(away**2, axis=0) / (2 * sigma),
            near.gradient + away / sigma,
            near.hessian + unit / sigma,
        )

    starts = jnp.stack([omega, attention.target_beta / attention.beta * z0])
    single = _smooth_share(steepness) == 1
    found = lowest_minima(
        objective,
        (labels, omega),
        starts,
        attention.score_basis,
        points,
        single,
        2 / attention.beta,
    )
    near = loss_derivatives(attention, loss, labels, found.point)
    g = jnp.where(steepness > 1, (found.point - omega) / sigma, -near.gradient)
    best = Proximal(near.value, g, near.hessian, found.settled)
    return best, (found.rival - omega) / sigma, found.apart


def zero_map_averages(
    attention: Any, loss: Any, target_variance: Any, points: Any
) -> ChannelAverages:
    """Averages at S = 0: h = ω = 0, Σ → 0, g = −∇ℓ(0), ∂g/∂ω = −∇²ℓ(0); (5.3).

    Args:
        attention, loss: the channel.
        target_variance: Q0 + Δ/2.
        points: standard normal points (K_eff, N) of the target scores.
    """
    z0 = jnp.sqrt(target_variance) * points
    labels = attention.labels(attention.scores(z0))
    value, slope, hessian = loss_derivatives(attention, loss, labels, jnp.zeros_like(z0))
    mean_loss = jnp.mean(value)
    divergence = -jnp.mean(jnp.trace(hessian))
    return ChannelAverages(
        moreau=mean_loss,
        loss=mean_loss,
        gradient_square=jnp.mean(jnp.sum(slope**2, axis=0)),
        divergence=divergence,
        alignment=-jnp.mean(jnp.sum(slope * z0, axis=0)) / target_variance,
        stein_divergence=divergence,
        response_trace=divergence,
        response_square=jnp.mean(jnp.sum(hessian**2, axis=(0, 1))),
        two_minima=jnp.zeros(()),
        settled=jnp.ones(()),
    )
