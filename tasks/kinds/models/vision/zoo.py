"""torchvision's models by name: which there are, which weights they have, how they are built."""

import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec, Unreachable

SECONDS_TO_ANSWER = 20
HASH = re.compile(r"-([0-9a-f]+)\.")
"""The beginning of the SHA-256 of a file of weights, in its name."""


@dataclass(frozen=True)
class Architecture:
    """A classifier or detector, and one of the weights that torchvision lists for it."""

    name: str
    entry: Any
    """A member of the model's WeightsEnum: address, transforms, names of the classes."""

    @classmethod
    def of(cls, name: str, weights: str) -> "Architecture":
        """Look both up.

        Raises:
            InvalidSpec: there is no such model or entry, or it is for another kind of task.
        """
        from torchvision import models

        known = models.list_models(module=models) + models.list_models(module=models.detection)
        if name not in known:
            listed = name in models.list_models()
            problem = "is neither a classifier nor a detector" if listed else "does not exist"
            problem += f"; in this torchvision are {', '.join(known)}"
            raise InvalidSpec.at("model.name", name, problem)
        entries = models.get_model_weights(name)
        if weights not in entries.__members__:
            problem = f"does not exist for {name}, which has {', '.join(entries.__members__)}"
            raise InvalidSpec.at("model.weights", weights, problem)
        return cls(name, entries[weights])

    @property
    def detects(self) -> bool:
        """Whether it finds objects; else it classifies whole images."""
        from torchvision import models

        return self.name in models.list_models(module=models.detection)

    @property
    def transforms(self) -> Any:
        """What the weights want to be done to an image."""
        return self.entry.transforms()

    @property
    def classes(self) -> list[str]:
        """Names, in the order of the model's outputs; a detector's first is the background."""
        return [*self.entry.meta["categories"]]

    @property
    def file_name(self) -> str:
        """Of the weights; a part of their hash is in it."""
        return str(self.entry.url).rpartition("/")[2]

    @property
    def cached(self) -> Path:
        """Where torch keeps that file on this node."""
        import torch

        return Path(torch.hub.get_dir()) / "checkpoints" / self.file_name

    def check_download(self) -> None:
        """See that the weights can be had: they are in torch's cache, or their server answers.

        Raises:
            InvalidSpec: neither.
        """
        if self.cached.is_file():
            return
        asked = urllib.request.Request(self.entry.url, method="HEAD")
        try:
            urllib.request.urlopen(asked, timeout=SECONDS_TO_ANSWER).close()
        except OSError as error:
            problem = f"is at {self.entry.url}, which cannot be reached {self.way_out(error)}"
            raise InvalidSpec.at("model.weights", self.entry.name, problem) from error

    def downloaded(self) -> Path:
        """The file of weights in torch's cache, where it is fetched once.

        Raises:
            Unreachable: the server does not answer, or something else came from it.
        """
        import torch

        file = self.cached
        if file.is_file():
            return file
        file.parent.mkdir(parents=True, exist_ok=True)
        named = HASH.search(file.name)
        try:
            torch.hub.download_url_to_file(
                self.entry.url, str(file), named and named[1], progress=False
            )
        except (OSError, RuntimeError) as error:  # the latter where the hash is another
            problem = f"was not downloaded completely from {self.entry.url} {self.way_out(error)}"
            raise Unreachable(f"model.weights: {self.entry.name!r} {problem}") from error
        return file

    def way_out(self, error: Exception) -> str:
        """What to do without the server."""
        return (
            f"({error}): put that file in {self.cached.parent} on every node, or set it as "
            "model.path"
        )

    def built(self, weights: Mapping[str, Any], classes: Sequence[str]) -> Any:
        """The model, as torchvision builds it for its own weights, with these, in their memory.

        Raises:
            RuntimeError: they do not fit.
        """
        from torchvision import models

        with instead_of_its_own(self.entry, weights, classes):
            model = models.get_model(self.name, weights=self.entry).eval()
        # torchvision copies weights; those of a mapped file are shared with other replicas. It has
        # thrown away what is for training only, so that some find no place any more.
        model.load_state_dict(weights, strict=False, assign=True)
        return model.float()  # as it was built, where a file is in half precision


@contextmanager
def instead_of_its_own(
    entry: Any, weights: Mapping[str, Any], classes: Sequence[str]
) -> Iterator[None]:
    """Let an entry give other weights and classes.

    A model that is built without an entry differs in more than its weights: in its kind of batch
    normalisation, in small constants, in what it does to its input.
    """
    own = entry.value.meta
    entry.get_state_dict = lambda *_, **__: weights
    entry.value.meta = {**own, "categories": [*classes]}
    try:
        yield
    finally:
        del entry.get_state_dict
        entry.value.meta = own
