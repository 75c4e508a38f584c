"""Which classes are taken for which: labels down, predictions across, drawn as a matrix."""

from collections import Counter

from tasks.kinds.gates.comparison import NO_PREDICTION, OTHER, Comparison
from tasks.reporting.drawing import as_image, as_svg, text

SHOWN_CLASSES = 20
SHOWN_CHARACTERS = 22
CELL, MARGIN = 36, 24
ACROSS, UP = 7.0, 5.0
"""Pixels that a character of a name takes, written straight and slanted."""
LEGEND = "label \\ predicted"
RIGHT_HUE, WRONG_HUE, UNKNOWN_HUE = "26,127,55", "207,34,46", "110,119,129"

Counts = Counter[tuple[str, str]]


def confusion_image(found: Comparison) -> str:
    """The matrix as an HTML image."""
    return as_image("How often each label met each prediction", confusion_svg(found))


def confusion_svg(found: Comparison) -> str:
    """The matrix; a cell is the darker the more of its label's rows are in it."""
    names, counts = shown_counts(found)
    down = [name for name in names if any(counts[name, other] for other in names)]
    across = [name for name in names if any(counts[other, name] for other in names)]
    left = MARGIN + round(ACROSS * max(len(shortened(each)) for each in [*down, LEGEND]))
    slant = round(UP * max(len(shortened(each)) for each in across))
    parts = [text(-8, -12, LEGEND, "end", "#57606a")]
    for column, name in enumerate(across):
        x, words = (column + 0.6) * CELL, text(0, 0, shortened(name))
        parts.append(f'<g transform="translate({x:.1f} -8) rotate(-45)">{words}</g>')
    for row, label in enumerate(down):
        parts.append(text(-8, (row + 0.5) * CELL + 4, shortened(label), "end"))
        total = sum(counts[label, guess] for guess in across)
        for column, guess in enumerate(across):
            hue = hue_of(label, guess)
            parts += cell_parts(row, column, counts[label, guess], total, hue)
    width, height = left + len(across) * CELL + slant, slant + MARGIN + (len(down) + 1) * CELL
    moved = f'<g transform="translate({left} {slant + MARGIN})">{"".join(parts)}</g>'
    return as_svg(width, height, 12, [moved])


def hue_of(label: str, guess: str) -> str:
    """Green where a prediction is right, red where it is wrong, grey where that is not told."""
    if label == guess == OTHER:
        return UNKNOWN_HUE
    return RIGHT_HUE if label == guess else WRONG_HUE


def cell_parts(row: int, column: int, count: int, total: int, hue: str) -> list[str]:
    """One cell with its number; a zero is left out, so that errors are seen."""
    x, y = column * CELL, row * CELL
    shade = 0.12 + 0.78 * count / total if count else 0.0
    parts = [
        f'<rect x="{x}" y="{y}" width="{CELL - 1}" height="{CELL - 1}" fill="rgb({hue})" '
        f'fill-opacity="{shade:.3f}" stroke="#d0d7de" stroke-width="0.5"/>'
    ]
    if count:
        fill = "#ffffff" if shade > 0.5 else "#222222"
        parts.append(text(x + CELL / 2 - 0.5, y + CELL / 2 + 4, in_short(count), "middle", fill))
    return parts


def shown_counts(found: Comparison) -> tuple[list[str], Counts]:
    """The most frequent classes, by name, and how often each pair of them met."""
    pairs: Counts = Counter()
    frequent: Counter[str] = Counter()
    for (label, known), count in found.pairs.items():
        guess = NO_PREDICTION if known is None else known
        pairs[label, guess] += count
        frequent[label] += count
        frequent[guess] += count
    names = sorted(name for name, _ in frequent.most_common(SHOWN_CLASSES))
    kept, cells = {*names}, Counts()
    for (label, guess), count in pairs.items():
        cells[label if label in kept else OTHER, guess if guess in kept else OTHER] += count
    return ([*names, OTHER] if len(frequent) > len(names) else names), cells


def shortened(name: str) -> str:
    """A class's name in the room that there is."""
    line = " ".join(name.split()) or "(empty)"
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1]}…"


def in_short(count: int) -> str:
    """A number in at most four characters, up to a million millions."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            share = count / size
            return f"{share:.1f}{letter}" if share < 10 else f"{share:.0f}{letter}"
    return str(count)
