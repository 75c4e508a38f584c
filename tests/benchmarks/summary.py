"""`python -m tests.benchmarks.summary`: docs/measured.md's table of speeds, made of RESULTS.md."""

import re

from tests.benchmarks.__main__ import read_sections

WAYS = {
    "guide": "Ray's guides",
    "plain": "plain Ray Data, tuned",
    "daft_ray": "Daft on Ray",
    "daft": "Daft, one process",
    "floor": "the model alone",
}
WORK = {
    "texts": "text embedding",
    "generation": "text generation",
    "images": "a small ViT over photos",
    "cnn": "ResNet-50 over photos",
    "cnn_openvino": "ResNet-50 over photos, `runtime: openvino`",
    "image_embedding": "image embedding",
    "tabular": "trees over taxi rides",
    "offers": "trees over three offers for each of half the taxi rides",
    "rides": "next to nothing with taxi rides",
    "gpu_images": "ViT-large over photos, on a GPU",
    "gpu_texts": "text embedding by BERT-base, on a GPU",
    "gpu_generation": "text generation, on a GPU",
}
OPTIONS = {"inline": "--cluster inline", "small": "--size small"}
HEAD = (
    "| beside | work, rows | ours on | steady | whole run | memory | `make bench ROW=` |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def table() -> str:
    """A line for each other way of doing each work; theirs over ours, above 1 is in our favour."""
    sections = read_sections()
    rows = [(way, title) for way in WAYS for title in sections if way == way_of(title)]
    return "\n".join([*HEAD, *(line(way, title, sections[title]) for way, title in rows)])


def way_of(title: str) -> str | None:
    """Which way a section compares us with; None where it does something else."""
    row = title.partition(",")[0]
    return next((way for way in WAYS if row.removeprefix(f"{way}_") in WORK), None)


def line(way: str, title: str, section: list[str]) -> str:
    """A section as one line."""
    row, *variants = title.split(", ")
    text = "\n".join(section)
    count = re.search(r"^([\d,]+) rows", text, re.MULTILINE)
    assert count, title
    cells = [
        WAYS[way],
        f"{WORK[row.removeprefix(f'{way}_')]}, {count[1]}",
        "`inline`" if "`cluster: inline`" in text else "`local`",
        ratio(text, "steady, s"),
        ratio(text, "whole run, s"),
        ratio(text, "private memory at most, MiB").partition(" ")[0],
        command(row, variants),
    ]
    return f"| {' | '.join(cells)} |"


def ratio(text: str, what: str) -> str:
    """A figure's ratio: median and range, of ten rounds the interval too."""
    found = re.search(rf"^\| {re.escape(what)} \|[^|]+\|[^|]+\|([^|]+)\|", text, re.MULTILINE)
    assert found, what
    return found[1].strip()


def command(row: str, variants: list[str]) -> str:
    """What measures it again."""
    options = " ".join(OPTIONS[each] for each in variants)
    return f'`"{row} {options}"`' if options else f"`{row}`"


if __name__ == "__main__":
    print(table())
