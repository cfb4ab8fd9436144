"""The search for a fixed point, on maps whose fixed points are known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attnlaw.numerics.fixed_point import fixed_point, solve_small


def search(function, start, jumps=0.0, **options):
    """Fixed point of a plain function."""
    options = {"tolerance": 1e-10, "max_evaluations": 80, **options}
    return jax.jit(
        lambda x: fixed_point(lambda at: (function(at), jnp.asarray(jumps), at), x, **options)
    )(jnp.asarray(start))


def test_contraction_is_accelerated():
    found = search(jnp.cos, [0.1, 1.0, 2.0])
    np.testing.assert_allclose(found.point, 0.7390851332151607, atol=1e-10)
    # plain iteration, whose error falls by 0.67 each time, needs 60
    assert int(found.iterations) < 20
    np.testing.assert_allclose(found.detail, found.point)


@pytest.mark.parametrize("slope", [-8.0, 0.999, 3.0])
def test_a_map_that_does_not_contract_is_solved(slope):
    matrix = jnp.array([[slope, 0.3, 0.0], [0.0, 0.5, -0.4], [0.2, 0.0, -0.6]])
    expected = jnp.array([1.0, -2.0, 0.5])
    found = search(lambda x: expected + matrix @ (x - expected), [0.0, 0.0, 0.0])
    assert float(found.residual) <= 1e-10
    np.testing.assert_allclose(found.point, expected, atol=1e-6)


def test_a_curved_valley_is_followed_by_plain_iterations():
    """One unknown responds to the square of the other's error, over a scale that shrinks."""

    def valley(x):
        error = (x[0] - 0.01) ** 2 + jnp.exp(-2 * x[1])
        return jnp.stack([0.01 + 0.1 * (x[0] - 0.01), 0.8 * x[1] + 0.2 * 9 - jnp.log1p(error)])

    found = search(valley, [1.0, 0.0], max_evaluations=120)
    assert float(found.residual) <= 1e-10


def test_jacobian_is_measured_where_it_is_wanted():
    matrix = jnp.array([[0.3, 0.2], [-0.1, 0.5]])
    found = search(lambda x: matrix @ x, [1.0, 1.0], measure_jacobian=True)
    np.testing.assert_allclose(found.jacobian, matrix - jnp.eye(2), atol=1e-8)


def test_a_known_jacobian_saves_evaluations():
    matrix = jnp.array([[0.9, 0.3], [-0.2, -0.7]])
    known = search(lambda x: matrix @ x + 1, [5.0, 5.0], jacobian=matrix - jnp.eye(2))
    unknown = search(lambda x: matrix @ x + 1, [5.0, 5.0])
    assert int(known.iterations) <= 12
    assert int(known.iterations) <= int(unknown.iterations)


def test_a_residual_below_the_jumps_is_good_enough():
    """A map with a jump at its fixed point has none; the search stops at half the jump or less."""
    found = search(lambda x: x - 0.3 * jnp.where(x > 1, 0.1, -0.1), [4.0], jumps=0.06)
    assert float(found.residual) <= 0.06
    assert int(found.iterations) < 80
    assert abs(float(found.point[0]) - 1) < 4


def test_nothing_is_done_with_no_evaluations():
    found = search(jnp.cos, [0.1], max_evaluations=0)
    assert int(found.iterations) == 0
    assert not np.isfinite(float(found.residual))


def test_a_map_of_nan_ends_without_a_point():
    found = search(lambda x: x * jnp.nan, [0.1, 0.2])
    assert not np.isfinite(float(found.residual))


def test_small_systems(rng):
    matrix, rhs = rng.normal(size=(3, 3)), rng.normal(size=3)
    np.testing.assert_allclose(solve_small(matrix, rhs), np.linalg.solve(matrix, rhs), rtol=1e-10)
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(solve_small(swap, np.array([1.0, 2.0])), [2.0, 1.0])


def test_noise_of_jumps_does_not_reach_the_jacobian():
    """Slopes 5, 0.4 and 0.01 under noise of four times a single jump, from no Jacobian.

    Most of forty searches succeed, in half the evaluations that are allowed; secants over shorter
    steps would need 26 on average and miss more.
    """
    jump = 3e-4
    turn = jnp.linalg.qr(jnp.array([[1.0, 0.2, 0.6], [0.1, 1.0, 0.0], [-0.5, 0.3, 1.0]]))[0]
    slopes = turn @ jnp.diag(jnp.array([-0.01, -5.0, -0.4])) @ turn.T
    waves = 1e5 * jnp.array([[1.0, 3.0, 2.0], [2.0, 1.0, 3.0], [3.0, 2.0, 1.0]])
    share = turn @ jnp.diag(jnp.array([0.1, 1.0, 1.0])) @ turn.T

    def found(phase):
        def rough(x):
            noise = share @ jnp.sin(waves @ x + phase)
            return x + slopes @ (x - 2 * turn[:, 0]) + 4 * jump * noise

        options = {"jumps": jump, "tolerance": 2 * jump, "max_evaluations": 40}
        return search(rough, [0.03, -0.04, 0.05], **options)

    many = jax.vmap(found)(jnp.arange(40.0))
    held = np.asarray(many.residual) <= 2 * jump
    assert held.sum() >= 38
    assert float(many.iterations.mean()) < 20
    reached = np.asarray(many.point @ turn[:, 0])[held]
    np.testing.assert_allclose(reached, 2.0, atol=0.05)


def test_a_direction_that_jumps_blur_is_left_alone_at_first():
    """Slopes 5, 0.2 and 0.003 under noise of twice a single jump; Newton's steps go 0.7 astray."""
    jump = 1e-3
    turn = jnp.linalg.qr(jnp.array([[1.0, 0.2, 0.6], [0.1, 1.0, 0.0], [-0.5, 0.3, 1.0]]))[0]
    slopes = turn @ jnp.diag(jnp.array([-0.003, -5.0, -0.2])) @ turn.T
    waves = 1e5 * jnp.array([[1.0, 3.0, 2.0], [2.0, 1.0, 3.0], [3.0, 2.0, 1.0]])

    def found(phase):
        def rough(x):
            return x + slopes @ x + 2 * jump * jnp.sin(waves @ x + phase)

        options = {"jumps": jump, "tolerance": 2 * jump, "max_evaluations": 40}
        return search(rough, [0.3, -0.4, 0.5], jacobian=slopes, **options)

    many = jax.vmap(found)(jnp.arange(20.0))
    assert (np.asarray(many.residual) <= 2 * jump).all()
    # a search that fails first tries that direction after all
    assert (np.abs(many.point @ turn[:, 0]) < 0.05).sum() >= 16
