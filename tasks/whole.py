"""How many whole ones an amount has."""

import math


def whole(amount: float) -> int:
    """Whole ones of an amount that was divided or summed up.

    In decimals ten tenths are a whole; in binary they are a little less.
    """
    return math.floor(amount + 1e-6)
