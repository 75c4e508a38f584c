"""Names of the columns that models add to a row."""

from collections.abc import Iterable

from tasks.errors import InvalidSpec

PREDICTION = ("prediction",)
LABELS = ("predicted_label", "predicted_score")
ENTITIES = ("entities",)
ANSWER = ("answer", "score", "start", "end")
OBJECTS = ("boxes", "labels", "scores")
DEPTHS = ("depth", "depth_min", "depth_max")
SEGMENTS = ("segmentation", "labels", "label_ids", "shares")
EMBEDDING = ("embedding",)
TEXT = ("generated_text",)


def refuse_taken(made: Iterable[str], there: Iterable[str]) -> None:
    """See that no input column has an output column's name.

    Raises:
        InvalidSpec: one has.
    """
    if taken := [name for name in made if name in there]:
        problem = (
            "is also the name of a column that the model makes; rename or drop that input column"
        )
        raise InvalidSpec.at("input column", taken[0], problem)
