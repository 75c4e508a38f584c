"""Numbers as a person reads them."""


def write_number(value: float) -> str:
    """A number in four digits, or all those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"
