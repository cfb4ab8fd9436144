"""Argument checks whose messages carry name, rule, value and remedy."""

from typing import Any

import numpy as np

LARGEST = 1e12
_NEVER_NUMBERS = (type(None), bool, np.bool_, str, bytes, complex, list, tuple, dict, np.ndarray)


def is_concrete(value: Any) -> bool:
    """Whether a value can be looked at: traced and symbolic values cannot."""
    return isinstance(value, bool | int | float | np.number | np.ndarray | str)


def require_instance(name: str, value: Any, kinds: type | tuple[type, ...], remedy: str) -> None:
    """Raise unless `value` is of one of the kinds."""
    if not isinstance(value, kinds):
        several = kinds if isinstance(kinds, tuple) else (kinds,)
        rule = f"must be a {' or '.join(kind.__name__ for kind in several)}"
        raise ValueError(_message(name, rule, value, remedy))


def require_real(name: str, value: Any, remedy: str = "") -> None:
    """Raise unless `value` is one finite real number."""
    if isinstance(value, _NEVER_NUMBERS):
        raise ValueError(_message(name, "must be one finite number", value, remedy))
    if is_concrete(value) and not abs(value) <= LARGEST:
        rule = f"must be one finite number of size at most {LARGEST:g}"
        raise ValueError(_message(name, rule, value, remedy))


def require_positive(name: str, value: Any, remedy: str = "") -> None:
    """Raise unless `value` is a finite number above zero."""
    require_real(name, value, remedy)
    if is_concrete(value) and value <= 0:
        raise ValueError(_message(name, "must be positive", value, remedy))
    if is_concrete(value) and value < 1 / LARGEST:
        raise ValueError(_message(name, f"must be at least {1 / LARGEST:g}", value, remedy))


def require_nonnegative(name: str, value: Any, remedy: str = "") -> None:
    """Raise unless `value` is a finite number at or above zero."""
    require_real(name, value, remedy)
    if is_concrete(value) and value < 0:
        raise ValueError(_message(name, "must be zero or positive", value, remedy))


def require_count(name: str, value: Any, least: int, remedy: str = "") -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    if not is_concrete(value) and not isinstance(value, _NEVER_NUMBERS):
        return
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        rule = f"must be a whole number of at least {least}"
        raise ValueError(_message(name, rule, value, remedy))


def require_seed(value: Any) -> None:
    """Raise unless `value` is a seed: a whole number in [0, 2³²)."""
    require_count("seed", value, 0)
    if value >= 2**32:
        raise ValueError(_message("seed", "must be below 2**32 = 4294967296", value, ""))


def _message(name: str, rule: str, value: Any, remedy: str) -> str:
    shown = value.item() if isinstance(value, np.generic) else value
    return f"{name} {rule}, got {shown!r}" + (f"; {remedy}" if remedy else "")
