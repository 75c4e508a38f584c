"""torchvision's models by name: which there are, which weights they have, how they are built."""

import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec

SECONDS_TO_ANSWER = 20


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
            problem = "is neither a classifier nor a detector" if listed else "is not there"
            problem += f"; in this torchvision are {', '.join(known)}"
            raise InvalidSpec.at("model.name", name, problem)
        entries = models.get_model_weights(name)
        if weights not in entries.__members__:
            problem = f"is not there for {name}, which has {', '.join(entries.__members__)}"
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

    def check_download(self) -> None:
        """See that the weights can be had: they are in torch's cache, or their server answers.

        Raises:
            InvalidSpec: neither.
        """
        import torch

        cache = Path(torch.hub.get_dir()) / "checkpoints"
        if (cache / self.file_name).is_file():
            return
        asked = urllib.request.Request(self.entry.url, method="HEAD")
        try:
            urllib.request.urlopen(asked, timeout=SECONDS_TO_ANSWER).close()
        except OSError as error:
            problem = (
                f"lies at {self.entry.url}, which is out of reach ({error}): put that file into "
                f"{cache} on every node, or give it as model.path"
            )
            raise InvalidSpec.at("model.weights", self.entry.name, problem) from error

    def download(self) -> Mapping[str, Any]:
        """The weights as torchvision gives them out, from torch's cache where they are there."""
        from torch.hub import load_state_dict_from_url

        found: Mapping[str, Any] = load_state_dict_from_url(
            self.entry.url, map_location="cpu", progress=False, check_hash=True, weights_only=True
        )
        return found

    def built(self, weights: Mapping[str, Any], classes: Sequence[str]) -> Any:
        """The model, as torchvision builds it for its own weights, with these.

        Raises:
            RuntimeError: they do not fit.
        """
        from torchvision import models

        with instead_of_its_own(self.entry, weights, classes):
            return models.get_model(self.name, weights=self.entry).eval()


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
