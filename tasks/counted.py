"""How many of something, as messages and reports say it."""


def counted(number: float, thing: str) -> str:
    """As in `1 row`, `0 rows`, `2,048 rows`, `0.5 GPUs`.

    Args:
        number: how many; of whole numbers all digits are shown.
        thing: what one of them is called.
    """
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {thing}" if number == 1 else f"{shown} {thing}s"
