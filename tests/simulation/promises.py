"""What must hold whenever somebody looks: rows published equal rows expected, by id and value."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tests.simulation.actors import OUTPUT
from tests.simulation.inputs import FILTERED, FLAKY, REJECTED, Inputs
from tests.simulation.storage import SimStorage
from tests.simulation.world import Violation

Row = tuple[str, str, int]
"""Path, identity, row in the file."""


def check_published(storage: SimStorage, seen: Snapshot, inputs: Inputs) -> None:
    """Follow the ledger's files and compare every row with what the inputs held."""
    keys = Counter(entry["run_key"] for entry in seen.entries.values())
    if keys and max(keys.values()) > 1:
        raise Violation(f"one run published twice: {keys}")
    check_inputs_once(seen)
    expected = expected_rows(seen, inputs)
    rows, rows_aside = read_all(storage, seen.files), read_all(storage, seen.quarantine)
    check_runs(seen, [*rows, *rows_aside])
    published = children_of(rows)
    aside = Counter(tuple(value[:3]) for value in rows_aside)
    stray = (published.keys() | aside.keys()) - expected.keys()
    if stray:
        raise Violation(f"rows of no published input: {sorted(stray)[:3]}")
    for row, outcome in expected.items():
        ways = (bool(published.get(row)), aside[row])
        if ways not in allowed(outcome):
            raise Violation(f"{row} is {outcome!r}, but (published, set aside) = {ways}")
        if outcome not in (FILTERED, REJECTED):
            check_children(row, published.get(row, []))


def check_inputs_once(seen: Snapshot) -> None:
    """No version of an input is predicted twice, but for a new version of the output."""
    lines = seen.of("input", ["path", "identity", "version"]).to_pylist()
    anew = {version for version, entry in seen.entries.items() if entry["replaces"]}
    known = {(line["path"], line["identity"], line["version"]) for line in lines}
    twice = Counter(key[:2] for key in known if key[2] not in anew)
    if twice and max(twice.values()) > 1:
        raise Violation(f"an input is published twice: {twice}")


def allowed(outcome: str) -> list[tuple[bool, int]]:
    if outcome == FILTERED:
        return [(False, 0)]
    if outcome == REJECTED:
        return [(False, 1)]
    return [(True, 0), (False, 1)] if outcome == FLAKY else [(True, 0)]


def expected_rows(seen: Snapshot, inputs: Inputs) -> dict[Row, str]:
    """Every row of every published input, and what must have become of it."""
    rows: dict[Row, str] = {}
    for line in seen.inputs.select(["path", "identity"]).to_pylist():
        path, identity = line["path"], line["identity"]
        for number, outcome in enumerate(inputs.content(path, identity).rows):
            rows[path, identity, number] = outcome
    return rows


def check_runs(seen: Snapshot, values: list[list[Any]]) -> None:
    """Every row is of a run that the ledger names for its input."""
    lines = seen.holders.select(["path", "identity", "run_id"]).to_pylist()
    known = {(line["path"], line["identity"], line["run_id"]) for line in lines}
    for path, identity, _, run_id, *_ in values:
        if (path, identity, run_id) not in known:
            raise Violation(f"{path} {identity} has rows of {run_id}")


def read_all(storage: SimStorage, files: Mapping[str, LedgerFile]) -> list[list[Any]]:
    """Values of published rows; a file not moved yet is read where it was staged."""
    values = []
    for file in files.values():
        content = storage.objects.get(file.target(OUTPUT))
        content = content or storage.objects.get(file.source(OUTPUT))
        if content is None:
            raise Violation(f"{file.path} is published but lies nowhere")
        pairs = json.loads(content)
        if [row_id for row_id, _ in pairs] != file.ids.ids().tolist():
            raise Violation(f"{file.path} does not hold the rows that the ledger says")
        values += [json.loads(value) for _, value in pairs]
    return values


def children_of(values: list[list[Any]]) -> dict[Row, list[tuple[str, int, int]]]:
    """Published values by row: execution, number, how many."""
    found = defaultdict(list)
    for path, identity, row, _, execution, k, n in values:
        found[path, identity, row].append((execution, k, n))
    return dict(found)


def check_children(row: Row, children: list[tuple[str, int, int]]) -> None:
    """All children of one execution, each once."""
    if not children:
        return
    execution, _, n = children[0]
    if sorted(children) != [(execution, k, n) for k in range(n)]:
        raise Violation(f"{row} is published as {sorted(children)}")


def check_folder(storage: SimStorage, seen: Snapshot) -> None:
    """With nothing under way, readers who list the folder see what the ledger says."""
    live = [*seen.files.values(), *seen.quarantine.values()]
    wanted = {file.target(OUTPUT) for file in live}
    prefixes = (f"{OUTPUT.path}/", f"{OUTPUT.quarantine}/")
    found = {path for path in storage.objects if path.startswith(prefixes)}
    if found - {OUTPUT.success} != wanted:
        raise Violation(f"listing differs from the ledger: {sorted(found ^ wanted)[:4]}")
    if seen.version and storage.objects.get(OUTPUT.success) != b"":
        raise Violation("_SUCCESS is missing")


def check_complete(seen: Snapshot, inputs: Inputs) -> None:
    """Every input that lies there is published as it is now."""
    lines = seen.inputs.select(["path", "identity"]).to_pydict()
    published = dict(zip(lines["path"], lines["identity"], strict=True))
    for path in inputs.versions:
        if published.get(path) != inputs.identity(path):
            raise Violation(f"{path}: {published.get(path)} is published")
