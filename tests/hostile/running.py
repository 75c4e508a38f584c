"""Runs the corpus: all of a kind in one job, and each file alone."""

import re
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tasks.errors import InvalidSpec
from tasks.kinds.images import decode_image
from tasks.kinds.sources import AnySource, Source
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.plan import make_plan
from tasks.protocol.plan_file import shards_of
from tasks.publish import publish_planned
from tasks.published import rows_set_aside
from tasks.spec_file import parse_spec
from tests.hostile.files import Hostile
from tests.reporting import run_attempt

CODE = Path(__file__).parent / "user_code"
SOURCE: TypeAdapter[Source] = TypeAdapter(AnySource)
SUBJECT = re.compile(
    r"\b(file|line|row|record|header|column|key|value|quote|type|sample|archive|image|pixels|sound|video|frame)\b"
)
BARE = re.compile(
    r"index out of range|has no attribute|object is not|NoneType|unpack requires|codec can't"
    r"|invalid literal for|not subscriptable|takes \d+ positional|<class |0x[0-9a-f]{8}"
)
"""What libraries say to programmers."""


@dataclass
class Found:
    """What became of a file."""

    good: int = 0
    reasons: list[str] = field(default_factory=list)
    seconds: float = 0.0
    mebibytes: float = 0.0

    def complaints(self, file: Hostile) -> list[str]:
        """Where that is not as it should be."""
        said = [f"{each!r} tells nobody what is wrong" for each in self.reasons if not clear(each)]
        if file.good not in (None, self.good):
            said.append(f"{self.good} good rows instead of {file.good}")
        if file.bad not in (None, bool(self.reasons)):
            said.append(f"set aside: {self.reasons[:1]}")
        return [f"{file.kind} {file.name!r}: {each}" for each in said[:2]]


def clear(reason: str) -> bool:
    """Whether a person learns from a reason what is wrong with what."""
    return bool(SUBJECT.search(reason)) and not BARE.search(reason) and len(reason) <= 2_000


def run(kind: str, folder: Path) -> dict[str, Found]:
    """A whole run over a folder, without Ray or Prefect; what became of each file, by name."""
    spec = parse_spec(
        {
            "source": {"kind": kind, "path": str(folder)},
            "model": {"kind": "python", "class": "hostile_code:Look"},
            "sink": {"kind": "parquet", "path": str(folder.parent / f"{kind} out")},
            "cluster": {"kind": "inline"},
            "environment": {"working_dir": str(CODE)},
            "errors": {"max_rejected_fraction": 1.0},
        }
    )
    planned = make_plan(spec)
    run_attempt(planned)
    publish_planned(planned)
    accepted = planned.accepted()
    files = {shard.number: Path(shard.path).name for shard in shards_of(planned.plan.shards)}
    found: dict[str, Found] = {name: Found() for name in files.values()}
    for record in accepted.records:
        for shard, count in Counter((record.ok.ids() >> 32).tolist()).items():
            found[files[shard]].good += count
    for each in rows_set_aside(spec):
        found[Path(each["source"]).name].reasons.append(each["error_message"])
    return found


def alone(file: Hostile, folder: Path) -> Found:
    """A file read where no other says what columns there are."""
    (folder / file.name).write_bytes(file.content)
    found, before = Found(), high_water()
    begun = time.process_time()
    source = SOURCE.validate_python({"kind": file.kind, "path": str(folder)})
    storage, inputs = list_inputs(source)
    try:
        pins = source.pin(storage, inputs)
    except InvalidSpec as error:  # a file of which no row could be read
        pins, inputs = {}, inputs[:0]
        found.reasons.append(str(error))
    for stat in inputs:
        for shard in source.split(storage, stat):
            for read in source.read(storage, shard, pins):
                if isinstance(read, BadRow):
                    found.reasons.append(str(read.error))
                else:
                    found.good += len(read)
                    see(read.to_pylist() if file.kind == "images" else [], found)
    found.seconds = time.process_time() - begun
    found.mebibytes = high_water(reset=False) - before
    (folder / file.name).unlink()
    return found


def see(rows: list[dict[str, Any]], found: Found) -> None:
    """Decode images."""
    for row in rows:
        try:
            decode_image(row["image"])
        except ValueError as error:
            found.good -= 1
            found.reasons.append(str(error))


def high_water(*, reset: bool = True) -> float:
    """The most memory that this process has had, MiB; counted from now on where it is reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
