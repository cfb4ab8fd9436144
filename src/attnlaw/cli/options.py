"""Options shared by the commands, and the problem that they describe."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from attnlaw.problem import Problem

LOGARITHMIC = 10
MOST_POINTS = 10_000
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class _Folder(click.Path):
    """A path that is not the empty word, which pathlib would read as the current folder."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if value == "":
            self.fail("must name a folder, got an empty name", param, ctx)
        return super().convert(value, param, ctx)


_WEIGHT_DECAY: Decorator = click.option(
    "--weight-decay",
    type=float,
    default=0.1,
    show_default=True,
    help="Penalty λ on the factor W; 0 predicts the ridgeless limit λ → 0⁺.",
)
_LAYER_OPTIONS = (
    click.option(
        "--alpha", type=float, default=1.0, show_default=True, help="Sample ratio α = n/d²."
    ),
    click.option(
        "--kappa0",
        type=float,
        default=None,
        help="Rank of the Gaussian target over d, κ0 = p0/d.  [default: 0.5]",
    ),
    click.option(
        "--noise",
        type=float,
        default=0.5,
        show_default=True,
        help="Variance Δ of the noise on the target scores.",
    ),
    click.option(
        "--tokens", type=int, default=2, show_default=True, help="Tokens T in a sequence."
    ),
    click.option(
        "--beta",
        type=float,
        default=1.0,
        show_default=True,
        help="Inverse temperature β of the trained layer.",
    ),
    click.option(
        "--target-beta",
        type=float,
        default=1.0,
        show_default=True,
        help="Inverse temperature β0 of the target.",
    ),
    click.option(
        "--kappa", type=float, default=1.0, show_default=True, help="Width of W over d, κ = p/d."
    ),
    click.option(
        "--target",
        default="gaussian",
        show_default=True,
        metavar="gaussian|powerlaw:GAMMA,DIM|FILE.npy",
        help="Target map: Gaussian factors of rank κ0 d, a power law of eigenvalues, or "
        "a file (1-D eigenvalues or a symmetric matrix).",
    ),
)
seed_option: Decorator = click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed; the same seed prints the same numbers.",
)
json_option: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object."
)
_RUN_OPTIONS = (
    seed_option,
    click.option(
        "--out",
        type=_Folder(path_type=Path),
        default=None,
        help="Folder for result.nc, problem.json and pictures.",
    ),
    json_option,
)
_TRAINING_OPTIONS = (
    click.option(
        "--dim",
        type=int,
        default=100,
        show_default=True,
        help="Token dimension d of the trained layers.",
    ),
    click.option(
        "--repeats",
        type=int,
        default=2,
        show_default=True,
        help="Layers to train, each on its own draw.",
    ),
    click.option(
        "--method",
        type=click.Choice(["lbfgs", "adam"]),
        default="lbfgs",
        show_default=True,
        help="Optimiser.",
    ),
)
accuracy_option: Decorator = click.option(
    "--accuracy",
    type=float,
    default=1e-3,
    show_default=True,
    help="Relative standard error of the predicted test error.",
)


curve_option: Decorator = click.option(
    "--curve",
    "axis",
    default=None,
    metavar="FIELD=START:STOP:COUNT",
    help="Predict along one field, for example alpha=0.05:4:50; spaced evenly in the logarithm "
    "where the range spans a decade or more.",
)


def problem_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a problem."""
    return _applied((*_LAYER_OPTIONS, _WEIGHT_DECAY), _with_cache(function))


def layer_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a problem but for its penalty."""
    return _applied(_LAYER_OPTIONS, _with_cache(function))


def _with_cache(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command about a problem, which compiles and therefore uses the cache."""

    @wraps(function)
    def with_cache(*args: Any, **kwargs: Any) -> Any:
        from attnlaw.numerics.compile_cache import use_compile_cache

        use_compile_cache()
        return function(*args, **kwargs)

    return with_cache


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Seed, output folder and output form."""
    return _applied(_RUN_OPTIONS, function)


def training_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Size, repeats and optimiser of training."""
    return _applied(_TRAINING_OPTIONS, function)


def _applied(options: tuple[Decorator, ...], function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function


def build_problem(options: dict[str, Any]) -> "Problem":
    """Take the problem's options out of `options` and build the problem.

    Raises:
        ValueError: a value out of its range, or an unknown target.
    """
    from attnlaw.attention import Tied
    from attnlaw.penalties import WeightDecay
    from attnlaw.problem import Problem

    target = parse_target(options.pop("target"), options.pop("kappa0"))
    return Problem(
        target=target,
        attention=Tied(options.pop("tokens"), options.pop("beta"), options.pop("target_beta")),
        penalty=WeightDecay(options.pop("weight_decay", 0.0)),
        sample_ratio=options.pop("alpha"),
        width_ratio=options.pop("kappa"),
        noise=options.pop("noise"),
    )


def parse_target(text: str, kappa0: float | None) -> Any:
    """The target law that `--target` names.

    Raises:
        ValueError: the text names no known law and no readable array file, or κ0 is given with a
            target that has its own rank.
    """
    from attnlaw.spectra.discrete import PowerLaw
    from attnlaw.spectra.laws import MarchenkoPastur

    if text == "gaussian":
        return MarchenkoPastur(0.5 if kappa0 is None else kappa0)
    if kappa0 is not None:
        raise ValueError(
            f"kappa0 belongs to the gaussian target alone, got {kappa0:g} with {text!r}; leave it "
            "out"
        )
    if text.startswith("powerlaw:"):
        parts = text.removeprefix("powerlaw:").split(",")
        try:
            (exponent, dim) = (kind(part) for kind, part in zip((float, int), parts, strict=True))
        except ValueError:
            raise ValueError(
                f"target power law must read powerlaw:GAMMA,DIM, got {text!r}; "
                "for example powerlaw:1.25,400"
            ) from None
        return PowerLaw(exponent, dim)
    if text.endswith(".npy"):
        return _target_from_file(Path(text))
    raise ValueError(
        f"target must be gaussian, powerlaw:GAMMA,DIM or a file FILE.npy, got {text!r}"
    )


def _target_from_file(path: Path) -> Any:
    import numpy as np

    from attnlaw.spectra.discrete import Atoms, from_matrix

    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(
            f"target file must be readable, got {str(path)!r} ({error.strerror or error})"
        ) from None
    except (ValueError, EOFError):
        raise ValueError(
            f"target file must be a NumPy .npy array, got {str(path)!r}; write it with numpy.save"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"target file must hold a real numeric array, got {str(path)!r} of type "
            f"{getattr(array, 'dtype', type(array).__name__)}"
        )
    return Atoms(array) if array.ndim == 1 else from_matrix(array)


def parse_axis(text: str, problem: "Problem") -> tuple[str, Any]:
    """The field that `--curve` names, and its values.

    Raises:
        ValueError: not FIELD=START:STOP:COUNT, an unknown field, or an empty or unsorted range.
    """
    import numpy as np

    from attnlaw.theory.curve import require_axis

    name, _, numbers = text.partition("=")
    name = name.strip().replace("-", "_")
    try:
        first, last, number = numbers.split(":")
        start, stop, count = float(first), float(last), int(number)
    except ValueError:
        raise ValueError(
            f"curve must read FIELD=START:STOP:COUNT, got {text!r}; for example alpha=0.05:4:50"
        ) from None
    require_axis(problem, name)
    _refuse_twice(name)
    finite = np.isfinite([start, stop, stop - start]).all()
    if not (finite and start < stop and 2 <= count <= MOST_POINTS):
        raise ValueError(
            f"curve must have START < STOP and COUNT of at least 2 and at most {MOST_POINTS}, "
            f"got {text!r}; for example {name}=0.1:1:10"
        )
    if name == "tokens":
        return name, _whole_numbers(start, stop, count, text)
    if start > 0 and stop / start >= LOGARITHMIC:
        return name, np.geomspace(start, stop, count)
    return name, np.linspace(start, stop, count)


def _refuse_twice(name: str) -> None:
    """Raise where the field of a curve is also given as an option of its own."""
    from attnlaw.problem import ALIASES

    option = next((alias for alias, meant in ALIASES.items() if meant == name), name)
    context = click.get_current_context(silent=True)
    if context and context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
        raise ValueError(
            f"{option} must be given once, got --{option.replace('_', '-')} and --curve {name}=…; "
            "leave one out"
        )


def _whole_numbers(start: float, stop: float, count: int, text: str) -> list[int]:
    import numpy as np

    values = np.linspace(start, stop, count)
    if (values != np.rint(values)).any():
        raise ValueError(
            f"curve over tokens must hit whole numbers, got {text!r}; "
            f"for example tokens={round(start)}:{round(stop)}:{round(stop - start) + 1}"
        )
    return [int(value) for value in values]


def build_method(name: str) -> Any:
    """The optimiser that `--method` names."""
    from attnlaw.training.optimisers import LBFGS, Adam

    return {"lbfgs": LBFGS, "adam": Adam}[name]()
