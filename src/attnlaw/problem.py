"""The problem: target law, attention, loss, penalty and numbers, checked and frozen."""

import dataclasses
import difflib
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from attnlaw.attention import Tied
from attnlaw.losses import SquareLoss
from attnlaw.numerics.checks import (
    LARGEST,
    is_concrete,
    require_instance,
    require_nonnegative,
    require_positive,
)
from attnlaw.penalties import WeightDecay
from attnlaw.spectra.discrete import Atoms, MatrixTarget, PowerLaw
from attnlaw.spectra.laws import MarchenkoPastur, TargetLaw

_FIELDS_OF_PARTS = {
    "target": ("target_rank_ratio", "exponent"),
    "attention": ("tokens", "beta", "target_beta"),
    "penalty": ("weight_decay",),
}
ALIASES = {"alpha": "sample_ratio", "kappa": "width_ratio", "kappa0": "target_rank_ratio"}
_OTHER_WORDS = {"lambda": "weight_decay", "delta": "noise", "beta0": "target_beta"}


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["target", "attention", "loss", "penalty", "sample_ratio", "width_ratio", "noise"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Problem:
    """Empirical risk minimisation of one attention layer on n = αd² sequences (theory §1).

    Args:
        target: law of the target map S0.
        attention: attention layer (tokens T, β, β0).
        loss: loss of one sequence.
        penalty: weight decay.
        sample_ratio: α = n/d² > 0.
        width_ratio: κ = p/d > 0, width of W.
        noise: Δ ≥ 0, variance of the label noise on the target scores.

    Raises:
        ValueError: a number out of its range.

    Example:
        >>> Problem(noise=0.0).replace(alpha=2.0).sample_ratio
        2.0
    """

    target: TargetLaw = MarchenkoPastur(0.5)
    attention: Tied = Tied()
    loss: SquareLoss = SquareLoss()
    penalty: WeightDecay = WeightDecay(0.1)
    sample_ratio: float = 1.0
    width_ratio: float = 1.0
    noise: float = 0.5

    def __new__(cls, *parts: Any, **fields: Any) -> "Problem":
        """Refuse unknown names with the remedy; the fields themselves are set by __init__."""
        unknown = [name for name in fields if name not in cls.__dataclass_fields__]
        if unknown:
            raise ValueError(
                f"unknown problem field {unknown[0]!r}; numbers of the parts and short names go "
                f"through replace: Problem().replace({unknown[0]}=...)"
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        if isinstance(self.target, type) or not hasattr(self.target, "cauchy_pair"):
            raise ValueError(
                f"target must be a target law, got {self.target!r}; "
                "for example MarchenkoPastur(0.5)"
            )
        require_instance("attention", self.attention, Tied, "for example Tied(tokens=2)")
        require_instance("loss", self.loss, SquareLoss, "for example SquareLoss()")
        require_instance("penalty", self.penalty, WeightDecay, "for example WeightDecay(0.1)")
        require_positive("alpha = n/d² (sample_ratio)", self.sample_ratio)
        require_positive("kappa = p/d (width_ratio)", self.width_ratio)
        require_nonnegative("noise", self.noise)
        if all(is_concrete(leaf) for leaf in jax.tree.leaves(self.target)):
            _require_sensible_power(self.target)

    @property
    def target_power(self) -> Any:
        """Q0 = lim Tr S0²/d."""
        return self.target.power

    @property
    def score_variance(self) -> Any:
        """Q0 + Δ/2, variance of the noisy target scores (1.6)."""
        return self.target_power + self.noise / 2

    @property
    def weight_decay_scaled(self) -> Any:
        """λ̃ = √κ λ, the penalty that S sees."""
        return self.penalty.scaled(self.width_ratio)

    @property
    def scale_of_target(self) -> Any:
        """r = β0/β: S = r S0 reproduces the noiseless target."""
        return self.attention.target_beta / self.attention.beta

    def replace(self, **changes: Any) -> "Problem":
        """The problem with some numbers or parts replaced, checked again.

        Args:
            **changes: fields of `Problem`, or numbers of its parts by their own name
                (`weight_decay`, `tokens`, `beta`, `target_beta`, `target_rank_ratio`,
                `exponent`); `alpha`, `kappa` and `kappa0` are accepted for `sample_ratio`,
                `width_ratio` and `target_rank_ratio`.

        Raises:
            ValueError: an unknown name, or a value out of its range.
        """
        named: dict[str, Any] = {}
        for given, value in changes.items():
            name = ALIASES.get(given, given)
            if name in named:
                raise ValueError(f"{name} must be given once, got two; leave one out")
            named[name] = value
        own = {name: named.pop(name) for name in list(named) if name in _own_fields()}
        replaced = dataclasses.replace(self, **own)
        parts: dict[str, dict[str, Any]] = {}
        for name, value in named.items():
            parts.setdefault(str(replaced.part_of(name)), {})[name] = value
        inner = {
            part: dataclasses.replace(getattr(replaced, part), **fields)
            for part, fields in parts.items()
        }
        return dataclasses.replace(replaced, **inner) if inner else replaced

    def __getattr__(self, name: str) -> Any:
        """A number of a part, or one by its short name, as `replace` takes them."""
        known, own = ALIASES.get(name, name), _own_fields()
        if name.startswith("_") or name in own:
            raise AttributeError(name)
        try:
            part = self.part_of(known)
        except ValueError as error:
            told = f"{type(self).__name__} has no number {name!r}: {error}"
            raise AttributeError(told, name=name, obj=self) from None
        return getattr(self if part is None else getattr(self, part), known)

    def part_of(self, name: str) -> str | None:
        """The part that holds the field `name`; None for a field of the problem itself.

        Raises:
            ValueError: this problem has no such field.
        """
        own = _own_fields()
        if name in own:
            return None
        for part, fields in _FIELDS_OF_PARTS.items():
            if name in fields and hasattr(getattr(self, part), name):
                return part
        held = [
            f
            for part, fields in _FIELDS_OF_PARTS.items()
            for f in fields
            if hasattr(getattr(self, part), f)
        ]
        known = [*own, *held]
        known += [alias for alias, meant in ALIASES.items() if meant in known]
        if any(name in fields for fields in _FIELDS_OF_PARTS.values()):
            short = "".join(f" ({alias})" for alias, meant in ALIASES.items() if meant == name)
            raise ValueError(
                f"unknown problem field {name!r}{short} for {type(self.target).__name__} targets; "
                f"known fields: {', '.join(known)}"
            )
        near = difflib.get_close_matches(name, [*known, *_OTHER_WORDS], n=1)
        meant = _OTHER_WORDS.get(near[0], near[0]) if near else None
        hint = f"did you mean {meant}?" if meant else f"known fields: {', '.join(known)}"
        raise ValueError(f"unknown problem field {name!r}; {hint}")

    def to_dict(self) -> dict[str, Any]:
        """The problem as plain numbers and lists, for JSON."""
        return {
            "target": _target_to_dict(self.target),
            "attention": {"kind": "tied", **_plain_fields(self.attention)},
            "loss": {"kind": "square"},
            "penalty": {"kind": "weight_decay", **_plain_fields(self.penalty)},
            "sample_ratio": float(self.sample_ratio),
            "width_ratio": float(self.width_ratio),
            "noise": float(self.noise),
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Problem":
        """The problem written by `to_dict`.

        Raises:
            ValueError: a kind that is not known.
        """
        require_instance("problem", record, dict, "give what to_dict wrote")
        expected = _own_fields()
        if sorted(record) != sorted(expected):
            raise ValueError(f"problem must have the keys {expected}, got {sorted(record)}")
        parts = {name: _build(name, record[name]) for name in _KINDS}
        return cls(**{**record, **parts})


def require_decay(problem: "Problem") -> None:
    """Raise ValueError unless λ > 0, where layers are trained to be laid beside the theory."""
    if problem.penalty.weight_decay == 0:
        raise ValueError(
            "weight_decay must be positive to train a layer, got 0.0; without a penalty many "
            "layers can fit the labels alike, so take a small one such as 1e-4 for the limit λ → 0⁺"
        )


def _require_sensible_power(target: TargetLaw) -> None:
    """Refuse targets of zero and of a scale that squares and products cannot carry."""
    with np.errstate(over="ignore"):
        power = target.power
    if power == 0:
        raise ValueError("target must not be zero, got only zero eigenvalues; nothing to learn")
    if not 1 / LARGEST <= power <= LARGEST:
        raise ValueError(
            "target must have eigenvalues of root mean square √Q0 between 1e-06 and 1e+06, got "
            f"√Q0 = {power**0.5:.3g}; divide them by √Q0 and multiply target_beta by it"
        )


def require_problem(value: Any) -> None:
    """Raise unless `value` is a `Problem`."""
    require_instance("problem", value, Problem, "for example Problem()")


def _own_fields() -> list[str]:
    return [f.name for f in dataclasses.fields(Problem)]


_KINDS: dict[str, dict[str, Any]] = {
    "target": {"marchenko-pastur": MarchenkoPastur, "power-law": PowerLaw, "atoms": Atoms},
    "attention": {"tied": Tied},
    "loss": {"square": SquareLoss},
    "penalty": {"weight_decay": WeightDecay},
}
PARTS = tuple(_KINDS)


def _build(name: str, record: dict[str, Any]) -> Any:
    require_instance(name, record, dict, "give what to_dict wrote")
    fields, known = dict(record), _KINDS[name]
    kind = fields.pop("kind", None)
    if kind not in known:
        raise ValueError(f"{name} kind must be one of {', '.join(known)}, got {kind!r}")
    return known[kind](**fields)


def _plain_fields(part: Any) -> dict[str, Any]:
    return {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}


def _target_to_dict(target: TargetLaw) -> dict[str, Any]:
    if isinstance(target, Atoms | MatrixTarget):
        values, weights = target.values.tolist(), target.weights.tolist()
        return {"kind": "atoms", "values": values, "weights": weights}
    for kind, law in _KINDS["target"].items():
        if isinstance(target, law):
            return {"kind": kind, **_plain_fields(target)}
    raise ValueError(f"target of type {type(target).__name__} has no JSON form; use Atoms")
