"""What is published, as a table in memory."""

import numpy as np
import pyarrow as pa

from tasks.published import in_order


def test_batches_whose_texts_are_more_than_an_array_holds_are_put_in_order() -> None:
    """Without a copy: they lie here once."""
    text, size = "x" * (1 << 20), 70
    texts = pa.array([text] * size)
    batches = [
        pa.table({
            "text": texts,
            "__version": pa.repeat(number % 2, size),
            "__row": np.arange(size) - number * size,
        })
        for number in range(32)
    ]  # fmt: skip
    before = pa.total_allocated_bytes()
    rows = in_order(pa.concat_tables(batches))
    assert pa.total_allocated_bytes() - before < 1 << 20
    expected = [(number % 2, at - number * size) for number in range(32) for at in range(size)]
    found = zip(rows["__version"].to_pylist(), rows["__row"].to_pylist(), strict=True)
    assert list(found) == sorted(expected)
    assert in_order(rows.slice(0, 0)).num_rows == 0
