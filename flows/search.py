"""Finds the published rows most similar to a query by their embeddings, and shows them."""

import time
from datetime import datetime
from typing import Any, Literal

from prefect import flow, task

from flows.batch_inference import OURS
from flows.cancellation_hooks import say_stopped
from flows.heartbeats import heartbeats
from flows.meant_time import time_to_start
from flows.server_away import await_server, kept_report
from tasks.artifacts import artifact_key, not_vital, show_page
from tasks.errors import InvalidSpec
from tasks.reporting.search_page import Search, search_page
from tasks.scheduled import at_time
from tasks.searching.embedding import vector_of
from tasks.searching.index import with_index
from tasks.searching.indexing import bring_up_to_date
from tasks.searching.published import PublishedVectors, published_vectors
from tasks.searching.query import Query, QueryForm, read_query
from tasks.spec import BatchInferenceSpec
from tasks.timeouts import at_output, storage_of_output

IndexUse = Literal["auto", "update", "off"]
embed_query = task(name="embed query", persist_result=False, retries=0)(vector_of)


@flow(name="search", on_cancellation=[say_stopped], **OURS)
def search(
    spec: BatchInferenceSpec,
    query: str,
    k: int = 10,
    query_as: QueryForm = "auto",
    column: str | None = None,
    any_model: bool = False,
    index: IndexUse = "auto",
    recall: float = 0.95,
    prefix: str | None = None,
    scheduled_time: datetime | None = None,
) -> dict[str, Any]:
    """Find the published rows whose embeddings are nearest to the query's, by cosine similarity.

    Every published vector is compared, so the answer is exact. With an index, most vectors are not
    compared, and the page says how much of the exact answer is found that way. A Markdown artifact
    shows the query and the matches, images as pictures.

    Args:
        spec: The spec that made the embeddings. Its sink says where they are; its model embeds the
            query.
        query: A text, an image (file or URL), or a vector (a JSON list, or a .npy file or URL).
        k: How many rows to find.
        query_as: What the query is: text, image or vector. Set it if auto would guess wrong.
        column: The column of embeddings. Empty: `embedding`, or the only column that holds vectors.
        any_model: Search also if another model made the embeddings.
        index: auto: use an index if there is one. update: first make it or bring it up to date.
            off: compare with every vector.
        recall: Share of the ten nearest rows that the index is to find; takes effect when the index
            is made or updated.
        prefix: Put before a query that is a text, as in 'query: '. Empty: what the model's
            sentence-transformers files have for queries, or what is put before the rows' texts.
        scheduled_time: The time that {scheduled:...} in paths stands for. Empty: the time at which
            the run was to start.

    Returns:
        The matches, best first, and figures, as JSON.

    Raises:
        BatchInferenceError: nothing can be found that way. The message says what to do.
    """
    refuse_call(k, recall)
    spec = at_time(spec, scheduled_time or time_to_start())
    asked = read_query(spec, query, query_as)
    refuse_prefix(asked, prefix)
    with heartbeats():
        with at_output(spec):
            # `column` is empty if its box in the form was cleared.
            vectors = searchable(published_vectors(spec, column or None), index, recall)
        matches = nearest_to(asked, vectors, k, any_model, prefix)
        page = search_page(matches)
        await_server()
        with not_vital("what was found"):
            show_page(artifact_key(spec.name, "search"), page)
        return kept_report(search.name, matches.as_json())


def refuse_call(k: int, recall: float) -> None:
    """Raise InvalidSpec if no rows are asked for, or the recall is no share."""
    if k < 1:
        raise InvalidSpec.at("k", k, "must be at least 1")
    if not 0 < recall <= 1:
        raise InvalidSpec.at("recall", recall, "must be above 0, and at most 1")


def refuse_prefix(asked: Query, prefix: str | None) -> None:
    """Raise InvalidSpec if something is to be put before what is no text."""
    if prefix and asked.media != "text":
        raise InvalidSpec.at("prefix", prefix, f"is for texts, and the query is {asked.media}")


def nearest_to(
    asked: Query, vectors: PublishedVectors, k: int, any_model: bool, prefix: str | None
) -> Search:
    """The rows whose vectors are nearest to the query's, and how long the search took."""
    started = time.perf_counter()
    vector = embed_query(vectors, asked, any_model, prefix or None)  # a box may be cleared
    embedded = time.perf_counter()
    with storage_of_output():
        nearest = vectors.nearest(vector, k)
    seconds = {"query": embedded - started, "search": time.perf_counter() - embedded}
    return Search(vectors, asked, nearest, seconds)


def searchable(vectors: PublishedVectors, index: IndexUse, recall: float) -> PublishedVectors:
    """The published vectors, with their index if it is to be used."""
    if index == "off":
        return vectors
    return bring_up_to_date(vectors, recall) if index == "update" else with_index(vectors)
