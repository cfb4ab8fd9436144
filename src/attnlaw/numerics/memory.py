"""How much memory there is, and a refusal before it is exceeded."""

import os
from pathlib import Path


def available_memory() -> float:
    """Bytes that a new computation can use on this machine."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def require_memory(needed: float, what: str, remedy: str) -> None:
    """Raise ValueError when `needed` bytes are more than the machine has free."""
    free = available_memory()
    if needed > free:
        raise ValueError(
            f"memory for {what} must fit in {free / 2**30:.1f} GiB, got a need of "
            f"{needed / 2**30:.1f} GiB; {remedy}"
        )
