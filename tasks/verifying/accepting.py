"""Whether runs may go on under a config other than the one that has published, and word of it."""

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tasks.errors import InvalidSpec
from tasks.planning.config import config_digests, model_digest, other_config
from tasks.planning.config_parts import differing_parts
from tasks.planning.equal_configs import equals_of, leave_word
from tasks.protocol.ledger import Snapshot
from tasks.ray_job.job import AtOutput
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec

OF_ROWS = ("sink", "how the source is cut", "--limit")
"""What decides how rows lie, and not what they say: to look at values tells nothing of that."""


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

    @cached_property
    def differs(self) -> list[str]:
        """In what it differs from that one, as far as that is known."""
        if self.other is None:
            return []
        run = self.output.run(self.seen.entries[self.other]["run_id"])
        call = RunOptions().call
        return differing_parts(self.storage, run, self.spec, self.fingerprints, call)[1]

    def refuse_other_form(self) -> None:
        """Refuse to look at values where rows would lie otherwise, or nobody knows how they do.

        Raises:
            InvalidSpec: says what differs, and the ways out.
        """
        if self.other is None:
            return
        known = ", ".join(each for each in self.differs if each.startswith(OF_ROWS))
        if self.differs and not known:
            return
        what = known or "what differs is not known, since the spec of that run is gone"
        raise InvalidSpec(
            f"version {self.other} was published by another config, and that its rows come out the "
            f"same would not let runs go on: {what}. Put it back, or `batch-inference backfill "
            "SPEC` predicts every input again"
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
