"""attnlaw: what a trained attention layer learns, computed and checked.

Names are imported on first use, so that `import attnlaw` stays light.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Problem": "attnlaw.problem",
    "MarchenkoPastur": "attnlaw.spectra.laws",
    "PowerLaw": "attnlaw.spectra.discrete",
    "Atoms": "attnlaw.spectra.discrete",
    "from_matrix": "attnlaw.spectra.discrete",
    "SpectralLaw": "attnlaw.spectra.spectral_law",
    "Tied": "attnlaw.attention",
    "SquareLoss": "attnlaw.losses",
    "WeightDecay": "attnlaw.penalties",
    "Overlaps": "attnlaw.records",
    "Conjugates": "attnlaw.records",
    "solve": "attnlaw.theory.solve",
    "ridgeless": "attnlaw.theory.solve",
    "thresholds": "attnlaw.theory.thresholds",
    "Thresholds": "attnlaw.theory.thresholds",
    "bayes_optimal": "attnlaw.theory.bayes",
    "BayesOptimal": "attnlaw.theory.bayes",
    "curve": "attnlaw.theory.curve",
    "Curve": "attnlaw.theory.curve",
    "critical_weight_decay": "attnlaw.theory.collapse",
    "Solution": "attnlaw.theory.solution",
    "ConvergenceError": "attnlaw.theory.solution",
    "Data": "attnlaw.training.data",
    "sample": "attnlaw.training.data",
    "Fit": "attnlaw.training.fit",
    "fit": "attnlaw.training.fit",
    "LBFGS": "attnlaw.training.optimisers",
    "Adam": "attnlaw.training.optimisers",
    "Comparison": "attnlaw.comparison",
    "compare": "attnlaw.comparison",
    "use_compile_cache": "attnlaw.numerics.compile_cache",
}

__all__ = sorted(name for name in _HOMES if not name.startswith("_"))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("attnlaw")
    if name not in _HOMES:
        raise AttributeError(f"module 'attnlaw' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
