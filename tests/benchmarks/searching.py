"""Searching a million published vectors, beside plain pyarrow and NumPy, and with an index."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.protocol.ids import IdRuns
from tasks.protocol.ledger_lines import LedgerFile
from tasks.searching.indexing import bring_up_to_date
from tasks.searching.published import PublishedVectors
from tasks.searching.scoring import unit
from tests.searching.outputs import seen_with, spec_at

FILES, ROWS_PER_FILE, WIDTH, COUNT = 50, 20_000, 384, 10
ROUNDS = 3
INDEXED_FILES, CENTRES, QUERIES = 10, 2_000, 50
"""The index has vectors around centres, as embeddings lie: among vectors that lie nowhere near each
other no index finds the nearest without looking at most."""
SCHEMA = pa.schema([("id", pa.int64()), ("embedding", pa.list_(pa.float32(), WIDTH))])


def measure(folder: Path) -> list[str]:
    """Both ways in turn, each in a process of its own, and what they found."""
    write_vectors(folder)
    taken: dict[str, list[list[float]]] = {"search": [], "plain": []}
    for _ in range(ROUNDS):
        answers = []
        for way, rounds in taken.items():
            code = f"from tests.benchmarks.searching import {way}, timed; timed({way})"
            out = subprocess.run(
                [sys.executable, "-c", code, str(folder)], check=True, capture_output=True
            )
            *figures, ids = json.loads(out.stdout)
            rounds.append(figures)
            answers.append(ids)
        assert answers[0] == answers[1], answers
    return [*table_of(taken), "", *measure_index(folder / "indexed")]


def measure_index(folder: Path) -> list[str]:
    """The exact answer and the index's, over queries that are like the vectors."""
    folder.mkdir()
    random = np.random.default_rng(2)
    centres = random.standard_normal((CENTRES, WIDTH), dtype=np.float32)

    def near(count: int) -> np.ndarray:
        noise = random.standard_normal((count, WIDTH), dtype=np.float32)
        return centres[random.integers(0, CENTRES, count)] + noise

    write_files(folder, INDEXED_FILES, near)
    vectors = published_at(folder)
    begun, used = time.perf_counter(), time.process_time()
    indexed = bring_up_to_date(vectors, 0.95)
    built = time.perf_counter() - begun, time.process_time() - used
    spent: dict[str, list[float]] = {"exact": [], "indexed": []}
    hits = 0
    for each in map(unit, near(QUERIES)):
        found = []
        for name, ways in (("exact", vectors), ("indexed", indexed)):
            begun = time.perf_counter()
            found.append({row["id"] for row in ways.nearest(each, COUNT).rows})
            spent[name].append(time.perf_counter() - begun)
        hits += len(found[0] & found[1])
    exact, fast = (1000 * float(np.median(times)) for times in spent.values())
    state = indexed.state
    return [
        f"An index of {INDEXED_FILES * ROWS_PER_FILE:,} such vectors around {CENTRES:,} centres, "
        f"made in {built[0]:.0f} s ({built[1]:.0f} CPU seconds); {QUERIES} queries like them. In "
        f"the trial it found {state.recall:.0%}, looking at {state.looked_at} of {state.groups} "
        "groups.",
        "",
        "| way | ms a query, median | of the exact answer |",
        "| --- | --- | --- |",
        f"| each vector compared | {exact:,.0f} | 100 % |",
        f"| index | {fast:,.0f} | {100 * hits / (COUNT * QUERIES):.1f} % |",
    ]


def table_of(taken: dict[str, list[list[float]]]) -> list[str]:
    """Medians, and the ratios of each round."""
    ours, plain = (np.median(rounds, axis=0) for rounds in taken.values())
    ratios = np.array(taken["search"]) / np.array(taken["plain"])
    middle, low, high = np.median(ratios, axis=0), ratios.min(axis=0), ratios.max(axis=0)
    spans = [f"{m:.2f} ({a:.2f} to {b:.2f})" for m, a, b in zip(middle, low, high, strict=True)]
    return [
        f"The nearest {COUNT} of {FILES * ROWS_PER_FILE:,} vectors of {WIDTH} single floats, in "
        f"{FILES} Parquet files; {ROUNDS} rounds in turn, files in the page cache, imports left "
        "out; memory added at its highest. All at once: `pyarrow.parquet.read_table`, then NumPy.",
        "",
        "| way | seconds | CPU seconds | memory |",
        "| --- | --- | --- | --- |",
        f"| all at once | {plain[0]:.1f} | {plain[1]:.1f} | {plain[2]:,.0f} MiB |",
        f"| search | {ours[0]:.1f} | {ours[1]:.1f} | {ours[2]:,.0f} MiB |",
        f"| search ÷ all at once: median (lowest to highest) | {' | '.join(spans)} |",
    ]


def write_vectors(folder: Path) -> None:
    """Files as a run publishes them."""
    random = np.random.default_rng(0)
    write_files(folder, FILES, lambda n: random.standard_normal((n, WIDTH), dtype=np.float32))


def write_files(folder: Path, count: int, vectors_of: Callable[[int], np.ndarray]) -> None:
    """So many files with vectors that somebody makes."""
    sink = spec_at(folder).sink
    (folder / "out").mkdir()
    for number in range(count):
        flat = pa.array(vectors_of(ROWS_PER_FILE).ravel())
        ids = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE))
        vectors = pa.FixedSizeListArray.from_arrays(flat, WIDTH)
        data = sink.encode(pa.table([ids, vectors], schema=SCHEMA))
        (folder / "out" / f"{number:03d}.parquet").write_bytes(data)


def query() -> np.ndarray:
    """What is searched for."""
    return unit(np.random.default_rng(1).standard_normal(WIDTH))


def search(folder: Path) -> list[int]:
    """As the flow does it."""
    return [row["id"] for row in published_at(folder).nearest(query(), COUNT).rows]


def published_at(folder: Path) -> PublishedVectors:
    """The files as what a run has published."""
    ids = IdRuns.of(np.arange(ROWS_PER_FILE))
    files = [
        LedgerFile(path.name, "", "run", path.stat().st_size, ids, version=1)
        for path in sorted((folder / "out").iterdir())
    ]
    return PublishedVectors(spec_at(folder), seen_with(files), SCHEMA, "embedding")


def plain(folder: Path) -> list[int]:
    """What a page of a notebook would do."""
    rows = pq.read_table(folder / "out")
    matrix = rows["embedding"].combine_chunks().flatten().to_numpy().reshape(-1, WIDTH)
    scores = matrix @ query().astype(np.float32) / np.linalg.norm(matrix, axis=1)
    best = np.argpartition(-scores, COUNT)[:COUNT]
    ordered = best[np.argsort(-scores[best], kind="stable")]
    return rows["id"].take(pa.array(ordered)).to_pylist()


def timed(way: Callable[[Path], list[int]]) -> None:
    """Print seconds, CPU seconds, MiB added, and what was found."""
    before, begun, used = peak_mib(), time.perf_counter(), time.process_time()
    found = way(Path(sys.argv[1]))
    taken = time.perf_counter() - begun, time.process_time() - used, peak_mib() - before
    print(json.dumps([*taken, found]))


def peak_mib() -> float:
    """The most memory that this process has had."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s*(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0
