"""The network between orchestrator and cluster, as something that can be cut."""

from typing import Literal, Protocol

Cut = Literal["drop", "refuse"]


class Link(Protocol):
    """A way to a cluster's Jobs API."""

    @property
    def address(self) -> str:
        """URL of the Jobs API at the orchestrator's end."""

    def cut(self, how: Cut) -> None:
        """Let nothing through: packets vanish, or are refused."""

    def restore(self) -> None:
        """Let everything through again."""
