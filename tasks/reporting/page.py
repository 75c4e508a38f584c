"""The report as Markdown: what an operator reads in the run's folder and in Prefect.

Whatever comes from data, errors or the spec stands in HTML, escaped: a browser renders it.
"""

from typing import Any

import yaml

from tasks.counted import counted
from tasks.errors import GateFailed
from tasks.kinds.gates.comparison import Comparison
from tasks.publishing.rejections import error_lines
from tasks.reporting.addresses import named_on
from tasks.reporting.confusion import confusion_image
from tasks.reporting.evidence import Evidence
from tasks.reporting.file_sizes import told_files
from tasks.reporting.gates import gates_part
from tasks.reporting.manifest import published_files, versions
from tasks.reporting.numbers import write_number
from tasks.reporting.past_runs import past_runs
from tasks.reporting.redaction import block, cell, lines_block, scrub, shown_spec, table
from tasks.reporting.samples import run_sample
from tasks.reporting.stage_tables import replicas_table, stages_table
from tasks.reporting.timeline import timeline_image
from tasks.reporting.trend import trend_part
from tasks.reporting.verdict import sentence
from tasks.reporting.versions import told_version
from tasks.run import left_to_do

SHOWN_FILES = 20
SHOWN_PROFILES = 8
OVERTAKEN = (
    "<p>Nothing: others have published since this run was planned, or have given it up, so the "
    "next run is another one.</p>"
)
"""Of a run that nobody can go on with."""


def success_page(evidence: Evidence, report: dict[str, Any], compared: Comparison | None) -> str:
    """The page of a run that was published."""
    planned = evidence.planned
    return joined(
        f"# {planned.spec.name}: {counted(report['rows']['written'], 'row')} published",
        output_line(report),
        section("Rows", counts_table(report, redrives=planned.plan.redrives)),
        section("Time", timeline_image(evidence.all_attempts), time_table(report)),
        section("Stages", stages_table(report), replicas_table(report)),
        section("Profiles", profiles_part(evidence)),
        section("Gates", gates_part(evidence, report["accepted"]) if report["gates"] else ""),
        section("Accuracy", accuracy_part(compared)),
        section("Last runs", *trend_part(past_runs(evidence, report))),
        section("Sample predictions", run_sample(evidence)),
        section("Rows set aside", lines_block(report["set_aside"])),
        section("Files", told_files(report["file_sizes"]), files_table(evidence)),
        section("Made with", versions_table(evidence)),
        spec_part(evidence),
    )


def failure_page(evidence: Evidence, error: BaseException, seconds: float) -> str:
    """The page of a run that has failed so far."""
    planned, accepted = evidence.planned, evidence.accepted
    where = {
        "error": type(error).__name__,
        "stage": getattr(error, "stage", None),
        "source": scrub(getattr(error, "source", None) or "", planned.spec) or None,
        "row": getattr(error, "row", None),
        "after": f"{seconds:.1f} s; attempts of the run so far: {len(evidence.all_attempts)}",
    }
    return joined(
        f"# {planned.spec.name}: failed, {published_so_far(evidence)}",
        pairs({name: value for name, value in where.items() if value is not None}),
        block(scrub(str(error), planned.spec)),
        *held_sections(evidence, error),
        section("What the next run resumes", resume_part(evidence)),
        section("Time", timeline_image(evidence.all_attempts)),
        section("Rows set aside", rejections_part(evidence) if len(accepted.rejected) else ""),
        section("Made with", versions_table(evidence)),
        spec_part(evidence),
    )


def held_sections(evidence: Evidence, error: BaseException) -> list[str]:
    """What a person looks at before they publish what a gate holds back; else nothing."""
    if not isinstance(error, GateFailed):
        return []
    sample = run_sample(evidence)
    return [section("Gates", gates_part(evidence)), section("Sample predictions", sample)]


def published_so_far(evidence: Evidence) -> str:
    """What the failure has left of the run's rows in the output: all or none."""
    if evidence.ledger.version_of(evidence.planned.run_key) is None:
        return "nothing published"
    return "but published: the next run finishes it"


def joined(*parts: str) -> str:
    """The parts that are not empty, with an empty line between them."""
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, *parts: str) -> str:
    """A heading and what is below it; nothing where nothing is below it."""
    return joined(f"## {title}", *parts).rstrip() if any(parts) else ""


def pairs(values: dict[str, Any]) -> str:
    """Names and values as a table."""
    return table([], [[cell(name), cell(value)] for name, value in values.items()])


def output_line(report: dict[str, Any]) -> str:
    """Where the rows are."""
    where = {"output": report["output"], "version": report["version"], "run": report["run_id"]}
    if report["replaced_by"]:
        where["replaced"] = told_version(report)
    if report["scheduled_time"]:
        where["scheduled time"] = report["scheduled_time"]
    return pairs(where)


def counts_table(report: dict[str, Any], *, redrives: bool) -> str:
    """What became of the rows."""
    rows = report["rows"]
    names = {"read": "read", "written": "written", "set aside": "rejected", "filtered": "filtered"}
    values = {name: f"{rows[key]:,}" for name, key in names.items()}
    if "superseded" in rows:
        values["superseded"] = f"{rows['superseded']:,} (by newer rows with the same keys)"
    why = "changed or gone since" if redrives else "published before"
    values["inputs skipped"] = f"{report['inputs_skipped']:,} ({why})"
    values["resumed"] = f"{report['resumed_rows']:,} (done before this call)"
    values["redone"] = f"{report['redone_rows']:,} (predicted again: lost, changed or set aside)"
    return pairs(values)


def time_table(report: dict[str, Any]) -> str:
    """How long it took, how fast it was, and what bounds it."""
    seconds = report["seconds"]
    values = {name: f"{value:.1f} s" for name, value in seconds.items() if value is not None}
    if report["rows_per_second"] is not None:
        values["throughput"] = f"{write_number(report['rows_per_second'])} rows/s, steady"
    values["attempts"] = report["attempts"]
    if report["batch_halvings"]:
        values["batches"] = f"{halved(report['batch_halvings'])}: memory ran out; remembered"
    if report["runtimes"]:
        values["model ran on"] = "; ".join(map(ran_on, report["runtimes"]))
    held = report["held"]
    values["held"] = f"{held['cpu_hours']:.4g} CPU hours, {held['gpu_hours']:.4g} GPU hours"
    if report["cost"] is not None:
        values["cost"] = f"{write_number(report['cost'])} (all attempts of the run)"
    if report["bottleneck"]:
        values["bottleneck"] = sentence(report["bottleneck"])
    return pairs(values)


def ran_on(used: dict[str, Any]) -> str:
    """What a replica calculated with, how far that is from eager, and why it was not as asked."""
    runtime = used["used"] if used["used"] == "eager" else f"{used['used']} {used['version']}"
    place = f"{runtime}, {used['precision']} on {used['device']}"
    if used["problem"]:
        return f"{place}, not on {used['asked']} as asked: {used['problem']}"
    if used["difference"] is None:
        return place
    return f"{place}, within {used['difference']:.0e} of eager (of an output's largest value)"


def profiles_part(evidence: Evidence) -> str:
    """Where the stages' profiles lie, and the tables of the times that functions took."""
    storage = evidence.planned.storage
    if not evidence.profiles:
        return ""
    words = (
        "Chrome traces (.json.gz) open in ui.perfetto.dev, .pstats in snakeviz or python -m pstats."
    )
    lines = [[cell(named_on(storage, path))] for path in evidence.profiles]
    own = set(evidence.profiles) - set(evidence.first_job.profiles)
    texts = sorted(path for path in own if path.endswith(".txt"))
    tables = [
        f"<details><summary>{cell(path.rpartition('/')[2])}</summary>\n"
        f"{block(storage.read(path).decode())}\n</details>"
        for path in texts[:SHOWN_PROFILES]
    ]
    return joined(words, table(["file"], lines), *tables).rstrip()


def halved(halvings: list[dict[str, Any]]) -> str:
    """How much smaller batches have become, by device."""
    most: dict[str, int] = {}
    for each in halvings:
        most[each["device"]] = max(most.get(each["device"], 0), each["halvings"])
    return ", ".join(f"1/{1 << times} on {device}" for device, times in most.items())


def accuracy_part(compared: Comparison | None) -> str:
    """How often predictions are right, and which are taken for which."""
    if compared is None:
        return ""
    line = f"{compared.accuracy * 100:.2f} % of {counted(compared.total, 'row')} with a label"
    return joined(line, confusion_image(compared)).rstrip()


def rejections_part(evidence: Evidence) -> str:
    """The errors, grouped, with some of their rows."""
    lines = error_lines(evidence.rejections)
    return block(scrub("\n".join(lines), evidence.planned.spec)) if lines else ""


def rejections_told(evidence: Evidence) -> list[str]:
    """The same as lines, with where all of them lie once they are published, and what to do."""
    if not (lines := error_lines(evidence.rejections)):
        return []
    storage, output = evidence.planned.storage, evidence.planned.output
    lines.append(
        f"All of them, with their inputs: {named_on(storage, output.quarantine)}; "
        "`batch-inference redrive SPEC` runs them again, once code, model or spec is fixed; a "
        "fixed input is the next run's"
    )
    return [scrub(line, evidence.planned.spec) for line in lines]


def resume_part(evidence: Evidence) -> str:
    """What stays good, and what the next run does, if anything but to publish."""
    planned, seen = evidence.planned, evidence.ledger
    is_published = seen.version_of(planned.run_key) is not None
    is_behind = seen.version != planned.plan.pins["ledger_version"]
    if not is_published and (is_behind or planned.storage.stat(planned.run.abandoned)):
        return OVERTAKEN
    gap = left_to_do(planned, tried=False)
    rows = counted(gap.rows, "row") if gap.rows is not None else "rows not counted yet"
    aside = "set aside, tried again" if gap else "set aside, not tried again"
    return pairs(
        {
            "settled, not done again": counted(len(evidence.accepted.settled), "row"),
            aside: counted(len(evidence.accepted.rejected), "row"),
            "left to do": f"{rows}; files or parts of files: {len(gap.shards):,}",
        }
    )


def files_table(evidence: Evidence) -> str:
    """The run's published files."""
    files = [*published_files(evidence), *published_files(evidence, "quarantine")]
    lines = [
        [cell(file["path"]), f"{file['rows']:,}", f"{file['bytes']:,}"]
        for file in files[:SHOWN_FILES]
    ]
    if len(files) > SHOWN_FILES:
        lines.append([f"and {len(files) - SHOWN_FILES:,} more", "", ""])
    return table(["file", "rows", "bytes"], lines) if files else ""


def versions_table(evidence: Evidence) -> str:
    """Versions of packages, and digests of weights and code."""
    prints = evidence.planned.plan.pins["fingerprints"]
    return pairs({**versions(), **{f"{name} digest": value for name, value in prints.items()}})


def spec_part(evidence: Evidence) -> str:
    """The spec, folded."""
    text = yaml.safe_dump(shown_spec(evidence.planned.spec), sort_keys=False, allow_unicode=True)
    return f"<details><summary>The spec</summary>\n{block(text)}\n</details>"
