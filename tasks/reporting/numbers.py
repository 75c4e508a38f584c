"""Numbers as a person reads them."""

from tasks.counted import counted

SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
UNITS = ((86_400, "days"), (3_600, "hours"), (60, "minutes"))
SHORTEST = 0.1
"""Seconds; that of less is shown as none says nothing."""


def write_number(value: float) -> str:
    """A number in four digits, or all those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"


def duration(seconds: float) -> str:
    """Seconds in the unit that a person would use."""
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} seconds" if seconds >= SHORTEST else f"under {SHORTEST} seconds"


def with_range(value: str, low: str, high: str) -> str:
    """A value and between what it may lie; alone where both of these read as it does."""
    return value if value == low == high else f"{value} ({low} to {high})"


def size_of(count: int) -> str:
    """Bytes in the unit that a person would use."""
    for size, unit in SIZES:
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return counted(count, "byte")
