"""Columns of encoded media: decoded where they are used, and encoded as before where untouched."""

import numpy as np
import pyarrow as pa

from tasks.kinds import column_types, columns
from tasks.kinds.audio import audio_rate, decode_audio_column
from tasks.kinds.images import decode_column
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW


def decode_media_columns(rows: pa.Table) -> pa.Table:
    """Rows with their encoded images and sound decoded.

    Raises:
        ValueError: one of them cannot be decoded.
    """
    for at, each in enumerate(rows.schema if len(rows) else ()):
        if column_types.is_encoded(each, column_types.IMAGE):
            # Of one type whatever their sizes: rows around a broken one are decoded in parts.
            decoded = tensor_array(decode_column(rows[each.name]))
        elif column_types.is_encoded(each, column_types.AUDIO):
            decoded = decode_audio_column(rows[each.name], audio_rate(each))
        else:
            continue
        rows = rows.set_column(at, each.with_type(decoded.type), decoded)
    return rows


def encode_untouched(rows: pa.Table, decoded: pa.Table, returned: pa.Table) -> pa.Table:
    """What user code made of decoded rows, with media that it left alone encoded as before.

    So they stay small, and models that decode images themselves find what they look for.
    """
    media = [each for each in rows.schema if column_types.is_media(each)]
    media = [each for each in media if each.name in returned.column_names]
    order = order_of(rows, returned) if media else None
    for each in media:
        at, back = returned.column_names.index(each.name), returned[each.name]
        if order is not None and is_same(decoded[each.name].take(order), back):
            back = rows[each.name].take(order)
        returned = returned.set_column(at, each.with_type(back.type), back)
    return returned


def is_same(sent: pa.ChunkedArray, back: pa.ChunkedArray) -> bool:
    """Whether media came back as they were sent."""
    arrays = map(columns.column_to_numpy, (sent, back))
    return all(map(np.array_equal, *arrays))


def order_of(rows: pa.Table, returned: pa.Table) -> pa.Array | None:
    """Which row each returned one was; None where that cannot be told."""
    if ROW not in returned.column_names:
        return pa.array(range(len(rows)), pa.int64()) if len(rows) == len(returned) else None
    ids = rows[ROW].to_pylist()
    known = {row: at for at, row in enumerate(ids)}
    order = [known.get(row) for row in returned[ROW].to_pylist()]
    return None if None in order or len(known) < len(ids) else pa.array(order, pa.int64())
