"""Draws a case: the same seed, the same case."""

import random
from dataclasses import replace

from tests.chaos.calls import CALLS
from tests.soak.drawn import Action, Case, Input, Lying, Pipeline, Round, Row, Strike, Where
from tests.soak.formats import FORMATS

PLACES: tuple[Where, ...] = ("inline", "cluster")
ROWS = {"inline": (40, 160), "cluster": (160, 480)}
ROUNDS = {"inline": (1, 2, 2, 3), "cluster": (1, 1, 1, 2)}
OWN = ("Model", "Model", "Model", "Frames", "Reordering")
MODELS = {"inline": (*OWN, *OWN, "sklearn"), "cluster": OWN}
FAULTS = {
    "inline": ("killed", "killed", "killed", "stopped", "race", "storage error", "none"),
    "cluster": (
        "worker",
        "worker",
        "replica",
        "driver",
        "driver",
        "node",
        "killed",
        "follower",
        "job",
        "stopped",
        "race",
    ),
}
MOST_CALLS = {"data": 6, "record": 6, "listing": 8, "move": 6, "todo": 3}
PUBLISHING = ("commit", "move", "marker", "applied")
ON_S3 = 0.1
BETWEEN = 0.3
"""How often inputs change between a run that was struck and the next."""


def draw(seed: int, where: Where | None = None) -> Case:
    """What a seed says; where it runs too, if nobody else says so."""
    drawn: Where = random.Random(seed).choice(PLACES)
    return Drawing(seed, where or drawn).case()


class Drawing:
    """Dice, and what they have said so far."""

    def __init__(self, seed: int, where: Where) -> None:
        self.seed, self.where = seed, where
        self.dice = random.Random(f"{seed} {where}")
        self.next_id = 0
        self.kind = self.dice.choice(list(FORMATS))

    def case(self) -> Case:
        """All of it."""
        pipeline = self.pipeline()
        inputs = self.inputs(self.dice.randint(*ROWS[self.where]))
        lying = Lying().changed(inputs)
        rounds = []
        for number in range(self.dice.choice(ROUNDS[self.where])):
            drawn = self.round(pipeline, lying, is_first=number == 0)
            lying = lying.changed(drawn.before).changed(drawn.between, drawn.removed)
            rounds.append(drawn)
        return Case(self.seed, self.where, pipeline, inputs, tuple(rounds))

    def pipeline(self) -> Pipeline:
        """Source, steps, model, sink, sizes."""
        dice, format_ = self.dice, FORMATS[self.kind]
        chance = dice.random
        tiles = self.kind == "images" and chance() < 0.5
        steps = ["tiles"] if tiles else []
        steps += format_.steps
        steps += [step for step in ("filter", "thin") if chance() < 0.3 and not tiles]
        steps += ["multiply"] if chance() < 0.3 and not tiles else []
        steps += ["select"] if chance() < 0.3 and not {"tiles", "multiply"} & {*steps} else []
        on_s3 = chance() < ON_S3
        files, tables = ["parquet", "parquet", "jsonl", "csv"], ["delta", "iceberg", "lance"]
        sink = dice.choice(files if on_s3 else files + tables)
        model = dice.choice(MODELS[self.where])
        of_code = random.Random(f"{self.seed} {self.where} code")  # all else is as it was before it
        if model == "Model" and of_code.random() < 0.4:
            model = "Tables"
        return Pipeline(
            source=self.kind,
            steps=tuple(steps),
            model=model,
            sink=sink,
            mode="replace" if chance() < 0.15 else "append",
            partitioned=sink != "lance" and chance() < 0.25,
            on_s3=on_s3,
            batch_size=dice.choice((1, 7, 16, 64)) if self.where == "inline" else 16,
            replicas=1 if self.where == "inline" else dice.choice((1, 1, 2)),
            rows_per_batch=dice.choice((5, 16, 50)) if self.where == "inline" else 32,
            rows_per_file=dice.choice((None, None, 30)),
            budget=dice.choice((1.0, 1.0, 1.0, 0.02)),
            filter_below=dice.randint(0, 100),
            broken_every=0 if model == "sklearn" else dice.choice((0, 5, 17)),
            row_by_row=of_code.random() < 0.5 and bool({*steps} & {"thin", "multiply"}),
        )

    def inputs(self, rows: int) -> tuple[Input, ...]:
        """Files with so many rows together; now and then one is empty, bad in part or in whole."""
        files: list[Input] = []
        while rows > 0:
            size = min(rows, FORMATS[self.kind].rows_per_file or self.dice.randint(1, 60))
            files.append(self.file(f"{len(files):04d}", size))
            rows -= size
        return tuple(files)

    def file(self, stem: str, size: int) -> Input:
        """One file; its rows' ids are new."""
        format_ = FORMATS[self.kind]
        bad = 0.03 if format_.can_have_bad_rows and self.dice.random() < 0.4 else 0.0
        if format_.rows_per_file is None and self.dice.random() < 0.05:
            size = 0
        rows = tuple(
            Row(self.next_id + at, self.dice.randint(0, 255), self.dice.random() < bad)
            for at in range(size)
        )
        self.next_id += size
        is_damaged = format_.can_be_damaged and self.dice.random() < 0.1
        return Input(f"{stem}{format_.suffix}", rows, is_damaged)

    def round(self, pipeline: Pipeline, lying: Lying, *, is_first: bool) -> Round:
        """What happens next."""
        actions: list[Action] = ["run", "run", "run", "replace", "limit"]
        if not is_first:
            actions += ["redrive", "redrive"] if pipeline.broken_every else []
        action = "run" if is_first and self.dice.random() < 0.8 else self.dice.choice(actions)
        before = () if is_first or action == "redrive" else self.changes(lying)
        strike = self.strike(pipeline)
        changes = action in ("run", "replace") and self.dice.random() < BETWEEN
        between = self.changes(lying.changed(before)) if changes else ()
        is_gone = changes and len(lying.files) > 2 and self.dice.random() < 0.5
        removed = [self.dice.choice([*lying.files])] if is_gone else []
        return Round(action, strike, before, between, tuple(removed))

    def changes(self, lying: Lying) -> tuple[Input, ...]:
        """New files, and old ones with other rows."""
        size = FORMATS[self.kind].rows_per_file or self.dice.randint(1, 40)
        found = [self.file(f"n{self.next_id:06d}", size) for _ in range(self.dice.randint(1, 2))]
        if self.dice.random() < 0.5:
            old = self.dice.choice([*lying.files])
            other = self.file("other", self.dice.randint(1, size))
            found.append(replace(other, name=old))
        return tuple(found)

    def strike(self, pipeline: Pipeline) -> Strike:
        """What happens to the run."""
        dice = self.dice
        is_on_s3 = pipeline.on_s3 and dice.random() < 0.5
        fault = "S3" if is_on_s3 else dice.choice(FAULTS[self.where])
        if fault in ("killed", "stopped", "storage error"):
            is_ours = fault == "stopped" or self.where == "cluster"
            call = dice.choice(PUBLISHING if is_ours else list(CALLS))
            number = dice.randint(1, MOST_CALLS.get(call, 1))
            return Strike(fault, call, number, after=dice.random() < 0.5)
        moment = -dice.uniform(0, 5) if dice.random() < 0.15 else dice.uniform(0, 0.8)
        return Strike(fault, moment=moment)
