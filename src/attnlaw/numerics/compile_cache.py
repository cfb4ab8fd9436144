"""Compiled programs kept on disk, so that a second process does not compile them again."""

import hashlib
import os
import platform
import shutil
import warnings
from pathlib import Path
from typing import Any

from attnlaw.numerics.checks import require_instance

VARIABLE = "ATTNLAW_COMPILE_CACHE"
OFF = ("off", "0", "no", "false")
LARGEST_BYTES = 500_000_000
DAMAGED = "Error reading persistent compilation cache entry"


def use_compile_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep JAX's compiled programs on disk for this process and later ones.

    The command line calls this by itself. It sets JAX's own cache for the whole process, so a
    program that uses JAX otherwise has to ask for it. The folder may be shared between processes,
    is kept below 500 MB and may be deleted at any time.

    Args:
        folder: where to keep them. When not given, the environment variable ATTNLAW_COMPILE_CACHE
            decides: a folder, or `off`; when that is not set, a folder in the user's cache folder.

    Returns:
        The folder in use, or None when the cache is off or cannot be written.

    Raises:
        ValueError: the folder is neither a text nor a path.

    Example:
        >>> use_compile_cache("off") is None
        True
    """
    if folder is not None:
        require_instance("folder", folder, (str, os.PathLike), "for example '~/.cache/attnlaw'")
    chosen = str(folder or os.environ.get(VARIABLE, ""))
    if chosen.lower() in OFF:
        return None
    place = (Path(chosen) if chosen else _users_folder()) / _kind_of_machine()
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if not os.access(place, os.W_OK):
        return None
    import jax

    jax.config.update("jax_compilation_cache_max_size", LARGEST_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    jax.config.update("jax_compilation_cache_dir", str(place))
    _forget_when_damaged(place)
    return place


def _users_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("attnlaw", appauthor=False)


def _kind_of_machine() -> str:
    """A name for what compiled code depends on: versions and the processor's features."""
    from importlib.metadata import version

    features = platform.machine() + platform.processor()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        lines = cpu.read_text(errors="replace").splitlines()
        features += "".join(line for line in lines if line.startswith(("flags", "Features")))
    return f"jax-{version('jaxlib')}-{hashlib.sha256(features.encode()).hexdigest()[:12]}"


def _forget_when_damaged(place: Path) -> None:
    """Empty the folder instead of warning when an entry was cut short by a killed process."""
    usual = warnings.showwarning

    def show(message: Any, *rest: Any, **named: Any) -> None:
        if str(message).startswith(DAMAGED):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True, exist_ok=True)
        else:
            usual(message, *rest, **named)

    warnings.showwarning = show
