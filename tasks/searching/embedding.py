"""Makes a query's vector with the model that made the published ones."""

import pyarrow as pa

from tasks.errors import BatchInferenceError, InvalidSpec
from tasks.kinds.column_types import IMAGE, MEDIA
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.media import decode_media_columns
from tasks.kinds.models import Model
from tasks.kinds.models.model import Placement
from tasks.machine import cores
from tasks.outputs import output_of
from tasks.planning.config import model_digest
from tasks.planning.equal_configs import equals_of
from tasks.planning.preflight import check_code, check_model
from tasks.protocol.batch import ROW
from tasks.protocol.ledger import Snapshot
from tasks.searching.published import PublishedVectors
from tasks.searching.query import MediaQuery, Query, VectorQuery, shortened
from tasks.searching.scoring import Vector, unit
from tasks.spec import BatchInferenceSpec

COLUMNS = {"text": "text", "image": "image"}
"""What the input column is called, where the model does not say."""


def vector_of(
    vectors: PublishedVectors, query: Query, any_model: bool = False, prefix: str | None = None
) -> Vector:
    """A query's vector, of length 1.

    A text or an image goes to the spec's model, on this machine's CPU; the spec's steps are for
    rows, and are not applied to it.

    Args:
        vectors: what is to be searched in.
        query: what is searched for.
        any_model: whether another model may have made the published vectors.
        prefix: to be put before a text, in place of what the model knows itself.

    Raises:
        InvalidSpec: the model cannot make a vector of it, or is not the one that made the
            published ones; says what can be done.
    """
    if isinstance(query, VectorQuery):
        return query.vector
    spec, column = vectors.spec, vectors.column
    check_code(spec)
    check_model(spec)
    if not any_model:
        refuse_other_model(spec, vectors.seen)
    try:
        rows = embedded(spec.model.embedder(query.media, prefix), query)
        if column not in rows.column_names:
            problem = "is not a column that the spec's model makes; give a vector as query"
            raise InvalidSpec.at("column", column, problem)
        return unit(column_to_numpy(rows[column])[0])
    except BatchInferenceError:
        raise
    except Exception as error:  # the model may be the user's own
        told = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        way_out = "; to search for it as a text, use --as text" if query.media == "image" else ""
        raise InvalidSpec.at("query", shortened(query.given), f"{told}{way_out}") from error


def refuse_other_model(spec: BatchInferenceSpec, seen: Snapshot) -> None:
    """Never compare vectors of two models: their cosines mean nothing.

    Raises:
        InvalidSpec: says which version another model made, and the ways out.
    """
    ours = model_digest(spec.model, spec.model.fingerprint())
    equal = equals_of(*output_of(spec), [ours])
    live = {file.run_id for file in seen.files.values()}
    for version, entry in seen.entries.items():
        if entry["run_id"] in live and entry.get("model_digest") not in equal:
            raise InvalidSpec(
                f"the spec's model is not the one that made the vectors of version {version} (run "
                f"{entry['run_id']}): give the spec that made them, or a vector as query; if you "
                "know that they can be compared, use --any-model"
            )


def embedded(model: Model, query: MediaQuery) -> pa.Table:
    """What the model makes of the query, as a row."""
    (name,) = model.input_columns or [COLUMNS[query.media]]
    rows = pa.table(
        {ROW: [0], name: [query.content]},
        pa.schema([(ROW, pa.int64()), field_of(name, query)]),
    )
    if query.media == "image" and not model.takes_encoded_media:
        rows = decode_media_columns(rows)
    prepare = model.preprocessor()
    predict = model.predictor(Placement(num_threads=cores()))
    return predict(prepare(rows) if prepare else rows)


def field_of(name: str, query: MediaQuery) -> pa.Field:
    """The column, as sources give it."""
    if query.media == "text":
        return pa.field(name, pa.string())
    return pa.field(name, pa.binary(), metadata={MEDIA: IMAGE})
