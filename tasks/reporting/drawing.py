"""What the report's charts are drawn with: SVG, so that a page carries them and nothing is run."""

import base64
import html
import math

from tasks.reporting.redaction import cell, printable


def as_image(title: str, svg: str) -> str:
    """A drawing as an HTML image; the title is for whom does not see it."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<p><img alt="{cell(title)}" src="data:image/svg+xml;base64,{data}"></p>'


def as_svg(width: int, height: int, font_size: int, parts: list[str]) -> str:
    """Parts as one drawing; all sizes are pixels."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="{font_size}">'
        # A background of its own: the page behind it may be dark.
        '<rect width="100%" height="100%" rx="6" fill="#ffffff"/>' + "".join(parts) + "</svg>"
    )


def line(x1: float, y1: float, x2: float, y2: float, stroke: str = "#999999") -> str:
    """A thin line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>'


def text(
    x: float,
    y: float,
    words: str,
    anchor: str = "start",
    fill: str = "#222222",
    weight: str = "normal",
) -> str:
    """Words."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
        f'font-weight="{weight}">{html.escape(printable(words))}</text>'
    )


def round_step(size: float) -> float:
    """The next 1, 2 or 5 with zeros."""
    power = float(10 ** math.floor(math.log10(size)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= size)
