"""A model without weights, for people who test their own flows."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.fake_answers import made_up
from tasks.kinds.models.llm.answer_schema import AnswerSchema
from tasks.kinds.models.vision.grey_png import grey_png

Batch = dict[str, np.ndarray]
LABELS = ("LABEL_0", "LABEL_1")


@dataclass(frozen=True)
class FakeModel:
    """Predicts from a hash of the row: the same content gets the same prediction, anywhere.

    It stands for the model's output: columns, types, best label first, scores that add up to one
    at most. It runs as any class of yours does, so reading, steps, bad rows, gates, sink and
    publication are the real ones. It does not stand for the model itself: predictions mean
    nothing, nothing is tokenised or resized, no weights are looked for, and the speed is not the
    model's.
    """

    outputs: Sequence[str]
    """Columns to make, of those in MAKERS."""
    column: str | None = None
    """The column that the model reads; None: a row's prediction depends on all of it."""
    labels: Sequence[str] = LABELS
    top_k: int = 1
    """Labels to give, best first; more than one makes lists."""
    width: int = 8
    """Numbers in an embedding."""
    normalize: bool = False
    """Whether an embedding is of length 1."""
    answer_schema: dict[str, Any] = field(default_factory=dict)
    """What generated texts are JSON of; its properties may be columns too."""
    refuses: Sequence[Any] = ()
    """Values at which the model fails: rows that hold one are set aside."""

    def __post_init__(self) -> None:
        known = [*MAKERS, *self.answer.names]
        if unknown := [name for name in self.outputs if name not in known]:
            raise InvalidSpec.at("fake.outputs", unknown, f"must be among {sorted(known)}")

    @property
    def answer(self) -> AnswerSchema:
        """What texts hold."""
        return AnswerSchema(self.answer_schema)

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """The output columns of a batch.

        Raises:
            UserCodeBroke: the column that the model reads is not there.
            ValueError: a row holds what the model refuses.
        """
        names = sorted(batch) if self.column is None else [self.column]
        if missing := set(names) - set(batch):
            raise UserCodeBroke(f"the model reads {missing}, and the rows have {sorted(batch)}")
        rows = [list(each) for each in zip(*(batch[name] for name in names), strict=True)]
        for value in (value for row in rows for value in row if np.isscalar(value)):
            if value in self.refuses:
                raise ValueError(f"the fake model refuses {value!r}")
        seeds = [seed_of(dict(zip(names, row, strict=True))) for row in rows]
        made = {name: MAKERS[name](self, seeds) for name in self.outputs if name in MAKERS}
        return made | self.properties(seeds)

    def properties(self, seeds: list[int]) -> dict[str, Any]:
        """A column for each property of an answer that is among the outputs."""
        names = [name for name in self.answer.names if name in self.outputs]
        answers = [made_up(self.answer_schema, seed) for seed in seeds if names]
        return {name: [each[name] for each in answers] for name in names}

    def rankings(self, seeds: list[int]) -> Iterator[list[tuple[float, str]]]:
        """Labels with their scores, best first."""
        for seed in seeds:
            scores = np.random.default_rng(seed).dirichlet(np.ones(len(self.labels)))
            ranked = sorted(zip(scores, self.labels, strict=True), reverse=True)
            yield ranked[: self.top_k]

    def ranked_labels(self, seeds: list[int]) -> list[list[str]]:
        """A list of labels for each row, as detection gives them."""
        return [[label for _, label in ranked] for ranked in self.rankings(seeds)]

    def ranked_scores(self, seeds: list[int]) -> list[list[np.float32]]:
        """Their scores."""
        return [[np.float32(score) for score, _ in ranked] for ranked in self.rankings(seeds)]

    def boxes(self, seeds: list[int]) -> list[list[list[np.float32]]]:
        """A box for each label, within an image of 100 pixels each way."""
        shape = (2, min(self.top_k, len(self.labels)), 2)
        draws = [np.sort(np.random.default_rng(seed).random(shape), axis=0) for seed in seeds]
        corners = [(100 * np.hstack([*draw])).tolist() for draw in draws]
        return [[[*map(np.float32, box)] for box in boxes] for boxes in corners]

    def entities(self, seeds: list[int]) -> list[list[dict[str, Any]]]:
        """One entity a row, of the first character."""
        place = {"word": "fake", "start": np.int32(0), "end": np.int32(1)}
        return [
            [{"entity_group": label, "score": np.float32(score), **place}]
            for ((score, label), *_) in self.rankings(seeds)
        ]

    def maps(self, seeds: list[int]) -> list[bytes]:
        """Images of a hundred lines, of which each label has as many as its share."""
        made = []
        for ids, shares in zip(self.label_ids(seeds), self.ranked_scores(seeds), strict=True):
            ends = np.round(100 * np.cumsum(shares))
            lines = np.searchsorted(ends, np.arange(100), side="right").clip(max=len(ids) - 1)
            classes = np.asarray(ids, np.uint8)[lines]
            made.append(grey_png(np.repeat(classes[:, None], 100, axis=1)))
        return made

    def depths(self, seeds: list[int]) -> list[bytes]:
        """Images of a hundred lines, each farther away than the one above it."""
        lines = np.linspace(0, 0xFFFF, 100).astype(np.uint16)
        return [grey_png(np.repeat(lines[:, None], 100, axis=1))] * len(seeds)

    def nearest(self, seeds: list[int]) -> np.ndarray:
        """What the first line of each stands for: from 0 to 1."""
        return self.numbers(seeds).astype(np.float32)

    def farthest(self, seeds: list[int]) -> np.ndarray:
        """What the last one stands for."""
        return self.nearest(seeds) + np.float32(1)

    def label_ids(self, seeds: list[int]) -> list[list[np.int32]]:
        """Which of the labels those of each row are."""
        at = {label: np.int32(number) for number, label in enumerate(self.labels)}
        return [[at[label] for label in labels] for labels in self.ranked_labels(seeds)]

    def answers(self, seeds: list[int]) -> list[str]:
        """One answer, of the first characters."""
        return ["fake"] * len(seeds)

    def sureness(self, seeds: list[int]) -> list[np.float32]:
        """How sure it is of each."""
        return [np.float32(score) for ((score, _), *_) in self.rankings(seeds)]

    def starts(self, seeds: list[int]) -> np.ndarray:
        """Where answers begin."""
        return np.zeros(len(seeds), np.int32)

    def ends(self, seeds: list[int]) -> np.ndarray:
        """Where answers end."""
        return np.full(len(seeds), len("fake"), np.int32)

    def best_labels(self, seeds: list[int]) -> list[Any]:
        """One label a row, or a list of them."""
        found = self.ranked_labels(seeds)
        return found if self.top_k > 1 else [label for (label,) in found]

    def best_scores(self, seeds: list[int]) -> list[Any]:
        """Their scores."""
        found = self.ranked_scores(seeds)
        return found if self.top_k > 1 else [score for (score,) in found]

    def embeddings(self, seeds: list[int]) -> np.ndarray:
        """One vector a row."""
        draws = [np.random.default_rng(seed).standard_normal(self.width) for seed in seeds]
        vectors = np.asarray(draws, np.float32).reshape(len(seeds), self.width)
        length = np.linalg.norm(vectors, axis=1, keepdims=True) if self.normalize else 1
        return np.asarray(vectors / length, np.float32)

    def texts(self, seeds: list[int]) -> list[str]:
        """A word of its own for each content; JSON, where texts are to be that."""
        if self.answer_schema:
            return [json.dumps(made_up(self.answer_schema, seed)) for seed in seeds]
        return [f"fake-{seed:016x}" for seed in seeds]

    def reasons(self, seeds: list[int]) -> list[str]:
        """Why each text ends."""
        return ["stop"] * len(seeds)

    def counts(self, seeds: list[int]) -> np.ndarray:
        """Tokens of each text: from 1 to 100."""
        return np.asarray([1 + seed % 100 for seed in seeds], np.int32)

    def names(self, seeds: list[int]) -> list[str]:
        """Who wrote each text."""
        return ["fake"] * len(seeds)

    def numbers(self, seeds: list[int]) -> np.ndarray:
        """A number between 0 and 1."""
        return np.asarray([np.random.default_rng(seed).random() for seed in seeds])


MAKERS: dict[str, Callable[[FakeModel, list[int]], Any]] = {
    "predicted_label": FakeModel.best_labels,
    "predicted_score": FakeModel.best_scores,
    "boxes": FakeModel.boxes,
    "entities": FakeModel.entities,
    "answer": FakeModel.answers,
    "score": FakeModel.sureness,
    "start": FakeModel.starts,
    "end": FakeModel.ends,
    "labels": FakeModel.ranked_labels,
    "scores": FakeModel.ranked_scores,
    "segmentation": FakeModel.maps,
    "label_ids": FakeModel.label_ids,
    "shares": FakeModel.ranked_scores,
    "depth": FakeModel.depths,
    "depth_min": FakeModel.nearest,
    "depth_max": FakeModel.farthest,
    "embedding": FakeModel.embeddings,
    "generated_text": FakeModel.texts,
    "finish_reason": FakeModel.reasons,
    "prompt_tokens": FakeModel.counts,
    "completion_tokens": FakeModel.counts,
    "served_model": FakeModel.names,
    "system_fingerprint": FakeModel.names,
    "prediction": FakeModel.numbers,
}


def seed_of(row: dict[str, Any]) -> int:
    """A number that follows from a row's content, in whatever batch the row travels."""
    content = json.dumps({name: plain(value) for name, value in row.items()}, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest())


def plain(value: Any) -> Any:
    """A value as JSON; in a batch with nulls NumPy makes integers floats, and null NaN."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        number = np.ascontiguousarray(value).astype(np.float64)
        return [value.shape, hashlib.blake2b(number.tobytes()).hexdigest()]
    if isinstance(value, (list, np.ndarray)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return None if np.isnan(value) else float(value)
    return None if value is None else str(value)
