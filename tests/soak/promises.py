"""What must hold after every run: rows, rows set aside, ledger, manifests, staging."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.soak.oracle import Promise
from tests.soak.published import TABLES, Output


@dataclass
class Found:
    """What a look at an output has shown."""

    rows: int = 0
    lost: int = 0
    doubled: int = 0
    """Also rows that should not be there at all."""
    problems: list[str] = field(default_factory=list)

    def note(self, is_wrong: object, problem: str) -> None:
        """Note a problem, where there is one."""
        if is_wrong:
            self.problems.append(problem)


def check(output: Output, promise: Promise, *, counts: bool) -> Found:
    """Look at an output from all sides.

    Args:
        output: where to look.
        promise: what must be there.
        counts: whether the entries' counts must add up to those of the inputs.
    """
    found, lines = Found(), output.lines()
    compare_rows(found, output, promise)
    set_aside = output.set_aside()
    compare_set_aside(found, set_aside, promise)
    entries = {each["run_id"]: json.loads(each["details"]) for each in of(lines, "entry")}
    compare_files(found, output, lines)
    if counts:
        said = sum((Counter(each["rows"]) for each in entries.values()), Counter[str]())
        found.note(+said != +promise.counts, f"the ledger counts {said}, not {promise.counts}")
    for run_id, manifest in output.manifests().items():
        rows = entries[run_id]["rows"] if run_id in entries else None
        found.note(manifest["rows"] != rows, f"manifest {manifest['rows']}, ledger {rows}")
    return found


def has_manifest(output: Output) -> bool:
    """Whether the run that has published last has left its manifest."""
    last = max(of(output.lines(), "entry"), key=lambda line: line["version"])
    return last["run_id"] in output.manifests()


def of(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The ledger's lines of a kind."""
    return [line for line in lines if line["line"] == kind]


def compare_rows(found: Found, output: Output, promise: Promise) -> None:
    """Published rows, as a multiset."""
    there, wanted = output.rows, promise.rows
    missing, surplus = wanted - there, there - wanted
    found.rows, found.lost, found.doubled = there.total(), missing.total(), surplus.total()
    found.note(missing, f"lost {[*missing][:2]}")
    found.note(surplus, f"doubled or wrong {[*surplus][:2]}")


def compare_set_aside(found: Found, rows: list[dict[str, Any]], promise: Promise) -> None:
    """Which rows are set aside, and that each has a reason."""
    there = Counter((str(row["source"]).rsplit("/", 1)[-1], row["row"]) for row in rows)
    wanted = promise.set_aside
    found.note(wanted - there, f"not set aside: {[*(wanted - there)][:3]}")
    found.note(there - wanted, f"set aside, and should not: {[*(there - wanted)][:3]}")
    unexplained = [row for row in rows if not (row["error_type"] and row["error_message"])]
    found.note(unexplained, f"{len(unexplained)} rows were set aside without a reason")


def compare_files(found: Found, output: Output, lines: list[dict[str, Any]]) -> None:
    """The ledger's files are those that lie there, and none is left where it was staged."""
    live = {line["path"]: line for line in live_files(lines)}
    total = sum(each["rows"] for each in live.values())
    found.note(total != found.rows, f"the ledger has {total} rows, the output {found.rows}")
    names = {each["staged"].rsplit("/", 1)[-1] for each in live.values()}
    left = [name for name in output.staged() if name.rsplit("/", 1)[-1] in names]
    found.note(left, f"{len(left)} published files are staged still")
    if output.kind not in TABLES:
        lying = {name.removeprefix(f"{output.path}/") for name in output.find("")} - {"_SUCCESS"}
        found.note(lying != {*live}, f"files and ledger differ by {sorted(lying ^ {*live})[:3]}")


def live_files(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of the files that no later entry has removed."""
    removed = {line["path"] for line in of(lines, "removed")}
    anew = [e["version"] for e in of(lines, "entry") if json.loads(e["details"])["replaces"]]
    first = max(anew, default=0)
    files = of(lines, "file")
    return [each for each in files if each["version"] >= first and each["path"] not in removed]
