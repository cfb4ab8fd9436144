"""Problems: what they refuse, and their JSON form."""

import json
import re
import warnings

import pytest

import attnlaw
from attnlaw import Atoms, MarchenkoPastur, Overlaps, Problem, critical_weight_decay

DEFAULT = Problem()
POWER = attnlaw.PowerLaw(1.2, 100)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: attnlaw.solve(DEFAULT, accuracy=0.0), "accuracy must be positive, got 0.0"),
        (lambda: attnlaw.solve(DEFAULT, accuracy=1e-9), "cannot resolve less"),
        (
            lambda: Problem(sample_ratio=-1.0),
            "alpha = n/d² (sample_ratio) must be positive, got -1.0",
        ),
        (lambda: Problem(width_ratio=0.0), "kappa = p/d (width_ratio) must be positive"),
        (lambda: Problem(noise=-0.1), "noise must be zero or positive, got -0.1"),
        (lambda: DEFAULT.replace(weight_decay=-1.0), "weight_decay must be zero or positive"),
        (lambda: DEFAULT.replace(tokens=1), "tokens must be a whole number of at least 2"),
        (lambda: DEFAULT.replace(beta=0.0), "beta must be positive"),
        (lambda: DEFAULT.replace(target_beta=-1.0), "target_beta must be positive"),
        (lambda: DEFAULT.replace(wieght_decay=1.0), "did you mean weight_decay"),
        (lambda: DEFAULT.replace(exponent=1.0), "unknown problem field 'exponent'"),
        (lambda: Problem(target=attnlaw.Atoms([0.0, 0.0])), "only zero eigenvalues"),
        (lambda: Problem(noise="loud"), "noise must be one finite number, got 'loud'"),
        (lambda: Problem(sample_ratio=None), "must be one finite number, got None"),
        (lambda: Problem.from_dict({"noise": 1.0}), "problem must have the keys"),
        (lambda: attnlaw.solve(3), "problem must be a Problem, got 3"),
        (lambda: attnlaw.solve(DEFAULT, seed=2**32), "seed must be below"),
        (lambda: attnlaw.curve(DEFAULT, seed=-1, alpha=[1.0]), "seed must be a whole number"),
        (lambda: attnlaw.sample(DEFAULT, 20, 0), "key must be a JAX random key, got 0"),
        (lambda: attnlaw.PowerLaw(1.2, 10**11), "dim must be at most 10000000"),
        (lambda: attnlaw.solve(DEFAULT, start=Overlaps(-1.0, 0.0, 1.0)), "start must have q > 0"),
        (lambda: attnlaw.solve(DEFAULT, start=Overlaps(1.0, 5.0, 1.0)), "start must have q > 0"),
        (lambda: attnlaw.solve(DEFAULT, start=Overlaps(1.0, 1.0, None)), "start.sigma must be one"),
        (lambda: attnlaw.solve(DEFAULT, start=(1.0, 1.0, 1.0)), "start must be a Overlaps"),
        (lambda: attnlaw.curve(3, alpha=[1.0]), "problem must be a Problem, got 3"),
        (lambda: attnlaw.curve(DEFAULT, alpha=[1.0, None]), "alpha must be a list of numbers"),
        (lambda: critical_weight_decay(3), "problem must be a Problem, got 3"),
        (lambda: critical_weight_decay(DEFAULT, seed=-1), "seed must be a whole number"),
        (lambda: critical_weight_decay(DEFAULT.replace(tokens=7)), "tokens must be at most 6"),
        (lambda: Problem(alpha=1.0), "Problem().replace(alpha="),
        (lambda: attnlaw.thresholds(None), "problem must be a Problem, got None"),
        (lambda: attnlaw.thresholds(DEFAULT.replace(tokens=7)), "tokens must be at most 6"),
        (lambda: Problem(target=attnlaw.Atoms), "target must be a target law, got <class"),
        (lambda: Problem(target=3), "target must be a target law, got 3"),
        (lambda: Problem(attention=3), "attention must be a Tied, got 3"),
        (lambda: Problem.from_dict(3), "problem must be a dict"),
        (lambda: DEFAULT.replace(alpha=1.0, sample_ratio=2.0), "sample_ratio must be given once"),
        (
            lambda: DEFAULT.replace(target=POWER, kappa0=0.5),
            "field 'target_rank_ratio' (kappa0) for P",
        ),
        (lambda: attnlaw.from_matrix([[1.0, 0.0], [0.0, 1j]]), "target matrix must be real"),
        (lambda: attnlaw.use_compile_cache(3), "folder must be a str or PathLike"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


@pytest.mark.parametrize(
    "target",
    [MarchenkoPastur(0.3), attnlaw.PowerLaw(1.2, 40), attnlaw.Atoms([0.0, 1.0], [0.25, 0.75])],
)
def test_problem_json_round_trip(target):
    problem = DEFAULT.replace(target=target, alpha=0.7, beta=1.5, kappa=0.9)
    text = json.dumps(problem.to_dict())
    back = Problem.from_dict(json.loads(text))
    assert json.dumps(back.to_dict()) == text


def test_unknown_kind_in_json_is_refused():
    record = DEFAULT.to_dict()
    record["loss"] = {"kind": "hinge"}
    with pytest.raises(ValueError, match="loss kind must be one of square, got 'hinge'"):
        Problem.from_dict(record)


def test_a_new_target_and_a_number_of_it_together():
    problem = DEFAULT.replace(target=POWER, exponent=1.5, alpha=2.0)
    assert problem.target == attnlaw.PowerLaw(1.5, 100)
    assert problem.sample_ratio == 2.0


def test_numbers_of_the_parts_can_be_read_by_their_short_names():
    problem = Problem().replace(alpha=0.7, kappa0=0.2, tokens=3, weight_decay=0.3)
    numbers = problem.alpha, problem.kappa0, problem.tokens, problem.weight_decay, problem.kappa
    assert numbers == (0.7, 0.2, 3, 0.3, 1.0)
    with pytest.raises(AttributeError, match="no number 'gamma'"):
        problem.gamma  # noqa: B018
    assert not hasattr(Problem(target=POWER), "kappa0")


@pytest.mark.parametrize("size", [1e300, 1e155, 1e7, 1e-7, 1e-150])
def test_targets_of_absurd_scale_are_refused_without_a_warning(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"target must .* (between 1e-06 and 1e\+06|be zero)"):
            Problem(target=Atoms([0.0, size]))
