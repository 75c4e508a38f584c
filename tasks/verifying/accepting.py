"""Whether runs may go on under a config other than the one that has published, and word of it."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.outputs import AtOutput
from tasks.planning.config import config_digests, model_digest, other_config
from tasks.planning.config_parts import NAMES, UNREADABLE, UNSHOWN, differing_parts, left_by
from tasks.planning.equal_configs import equals_of, leave_word
from tasks.protocol.ledger import Snapshot
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tasks.verifying.drawing import PublishedShards
from tasks.verifying.sample import Sample

OF_ROWS = ("sink", UNSHOWN["cut"], NAMES["limit"])
"""What decides how rows lie, and not what they say: to look at values tells nothing of that."""
OF_DEVICE = (NAMES["dtype"], "model.runtime")
"""What is another thing on another device."""
NAMED_OTHERWISE = "in nothing that is known, as where another release published it"
ENOUGH = 64
"""Rows that a config is accepted by, where so many are published."""


@dataclass(frozen=True)
class Configs(AtOutput):
    """The config that is asked for, beside those that have published."""

    spec: BatchInferenceSpec
    fingerprints: dict[str, str]
    """Of weights and code."""
    seen: Snapshot
    """What is published."""

    @cached_property
    def own(self) -> tuple[str, str]:
        """Digests of the one that is asked for."""
        return config_digests(self.spec, self.fingerprints, None)

    @cached_property
    def other(self) -> int | None:
        """The first version that one has published which does not count as this one."""
        return other_config(self.seen, equals_of(self.storage, self.output, self.own))

    @property
    def is_known(self) -> bool:
        """Whether it can be told in what it differs."""
        return bool(self.differs) and UNREADABLE not in self.differs

    @cached_property
    def differs(self) -> list[str]:
        """In what it differs from that one, as far as that is known."""
        if self.other is None:
            return []
        run = self.output.run(self.seen.entries[self.other]["run_id"])
        call = RunOptions().call
        found = differing_parts(self.storage, run, self.spec, self.fingerprints, call)[1]
        return found or ([NAMED_OTHERWISE] if left_by(self.storage, run) else [])

    def why_not(self, *, is_where_runs_go: bool) -> str:
        """Why equal values would not let runs go on; empty where they would.

        Args:
            is_where_runs_go: whether the rows are predicted there.
        """
        if self.other is None:
            return ""
        if not self.is_known:
            return f"the difference is unknown: {', '.join(self.differs) or 'that spec is gone'}"
        if found := [each for each in self.differs if each.startswith(OF_ROWS)]:
            return f"values cannot show that: {', '.join(found)}"
        of_device = [each for each in self.differs if each.startswith(OF_DEVICE)]
        if of_device and not is_where_runs_go:
            return f"{', '.join(of_device)} shows where runs go, with --cluster (on_cluster)"
        return ""

    def refuse_other_form(self, *, is_where_runs_go: bool) -> None:
        """Refuse to accept by values what these do not tell.

        Args:
            is_where_runs_go: whether the rows are predicted there.

        Raises:
            InvalidSpec: says what differs, and the ways out.
        """
        if why := self.why_not(is_where_runs_go=is_where_runs_go):
            raise InvalidSpec(
                f"version {self.other} was published by another config, and runs could not "
                f"continue even if its rows come out the same: {why}. Verify without --accept to "
                "compare them; undo what differs, or run `batch-inference backfill SPEC` to "
                "predict every input again"
            )

    def accept(self, evidence: dict[str, Any]) -> None:
        """Have runs go on under this config: its rows are those that are published.

        Args:
            evidence: how that was seen.
        """
        model = model_digest(self.spec.model, self.fingerprints["model"])
        equal = [[*self.own, *self.published("config")], [model, *self.published("model_digest")]]
        words = {"at": time.time(), "differs": self.differs, **evidence}
        leave_word(self.storage, self.output, equal, words)

    def published(self, name: str) -> list[str]:
        """Digests of what has published; redrives, which may be of any config, have none."""
        entries = [each for v, each in self.seen.entries.items() if v >= self.seen.base]
        return sorted({each[name] for each in entries if each.get("config") and each.get(name)})


def refuse_too_few(sample: Sample, unread: int = 0) -> None:
    """Accept no config by a handful of rows, where others are published.

    Args:
        sample: the rows.
        unread: of how many nobody can tell how they were published.

    Raises:
        InvalidSpec: says how many there are.
    """
    rows = len(sample.chosen) - unread
    if rows >= ENOUGH or not (sample.changed or unread):
        return
    left = PublishedShards(sample.storage, sample.output, sample.seen, sample.changed)
    has_more = left.has_more_than(len(sample.chosen))
    way_out = "more --rows sample more inputs" if has_more else "there are no others"
    raise InvalidSpec(
        f"only {counted(rows, 'row')} of {ENOUGH} with unchanged inputs and published files could "
        f"be compared: too few to accept a config; {way_out}. `batch-inference backfill SPEC` "
        "predicts every input again"
    )
