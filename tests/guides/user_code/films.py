"""A module of a user's own, most of which is tables."""

import os
import time
from pathlib import Path

import torch  # noqa: TID253 - a user imports it so


class Rating(torch.nn.Module):
    """How well a user's vector goes with a film's, and what that film gets on the whole."""

    def __init__(
        self, users: int, films: int, width: int, log: str | None = None, replicas: int = 1
    ) -> None:
        super().__init__()
        self.users = torch.nn.Embedding(users, width)
        self.films = torch.nn.Embedding(films, width)
        self.usual = torch.nn.Embedding(films, 1)
        self.log, self.replicas = log and Path(log), replicas

    def forward(self, user: torch.Tensor, film: torch.Tensor) -> torch.Tensor:
        if self.log:
            meet(self.log, self.replicas)
            self.log = None  # once
        return (self.users(user) * self.films(film)).sum(1) + self.usual(film)[:, 0]


def meet(log: Path, replicas: int) -> None:
    """Note what this process may use of its node, and wait until so many are at work."""
    import ray

    held = ray.get_runtime_context().get_assigned_resources()
    (log / str(os.getpid())).write_text(str(held["memory"] / 2**30))
    until = time.monotonic() + 240
    while len(list(log.iterdir())) < replicas and time.monotonic() < until:
        time.sleep(0.05)
