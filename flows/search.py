"""Published rows that are like what is asked for, found by their embeddings, with pictures."""

import time
from datetime import datetime
from typing import Any

from prefect import flow, task
from prefect.runtime import flow_run

from flows.batch_inference import OURS
from tasks.artifacts import artifact_key, show_page
from tasks.errors import InvalidSpec
from tasks.reporting.search_page import Search, search_page
from tasks.scheduled import at_time
from tasks.searching.embedding import vector_of
from tasks.searching.published import published_vectors
from tasks.searching.query import QueryForm, read_query
from tasks.spec import BatchInferenceSpec

embed_query = task(name="embed query", persist_result=False)(vector_of)


@flow(name="search", **OURS)
def search(
    spec: BatchInferenceSpec,
    query: str,
    k: int = 10,
    query_as: QueryForm = "auto",
    column: str | None = None,
    any_model: bool = False,
    scheduled_time: datetime | None = None,
) -> dict[str, Any]:
    """Find the published rows whose embeddings are nearest to a query's, by their cosine.

    Every published vector is compared, none is guessed at. A Markdown artifact shows query and
    matches, images as pictures.

    Args:
        spec: What made the embeddings; its sink says where they are, its model embeds the query.
        query: A text, an image (file or URL), or a vector (a JSON list, or a .npy file or URL).
        k: How many rows to find.
        query_as: What the query is, where its look is misleading.
        column: The column of embeddings; empty: `embedding`, or the only one that holds vectors.
        any_model: Search also where another model made the embeddings.
        scheduled_time: What {scheduled:...} in paths stands for; else when the run was to start.

    Returns:
        The matches, best first, and figures, as JSON.

    Raises:
        BatchInferenceError: nothing can be found that way; the message says what can be done.
    """
    if k < 1:
        raise InvalidSpec.at("k", k, "must be at least 1")
    spec = at_time(spec, scheduled_time or flow_run.scheduled_start_time)
    asked = read_query(spec, query, query_as)
    vectors = published_vectors(spec, column)
    started = time.perf_counter()
    vector = embed_query(vectors, asked, any_model)
    embedded = time.perf_counter()
    nearest = vectors.nearest(vector, k)
    seconds = {"query": embedded - started, "search": time.perf_counter() - embedded}
    found = Search(vectors, asked, nearest, seconds)
    show_page(artifact_key(spec.name, "search"), search_page(found))
    return found.as_json()
