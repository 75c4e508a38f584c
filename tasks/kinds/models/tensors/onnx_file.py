"""Whether an ONNX file is whole, from its outermost fields alone."""

import os
from typing import IO

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5
"""How a field is written, in the last three bits of its tag."""
FIXED_BYTES = {FIXED_64: 8, FIXED_32: 4}
GRAPH = 7
NO_ONNX = "is not an ONNX model: export it again, for example with torch.onnx.export"


def check_file(file: IO[bytes]) -> None:
    """See that a file is an ONNX model and as long as it says; no weight is read.

    Args:
        file: from its beginning.

    Raises:
        ValueError: says what is wrong, and the way out.

    Source: `ModelProto` in onnx.proto; Protocol Buffers' encoding.
    """
    size = file.seek(0, os.SEEK_END)
    place, fields = 0, set[int]()
    while place < size:
        file.seek(place)
        field, place = end_of_field(file)
        fields.add(field)
    if GRAPH not in fields:
        raise ValueError(NO_ONNX)
    if place != size:
        raise ValueError(f"is incomplete: it has {size} bytes of {place}; download it again")


def end_of_field(file: IO[bytes]) -> tuple[int, int]:
    """The number of the field that begins here, and where it ends.

    Raises:
        ValueError: there is none.
    """
    field, form = divmod(varint(file), 8)
    if field == 0:
        raise ValueError(NO_ONNX)
    if form == VARINT:
        varint(file)
        return field, file.tell()
    if form == LENGTH:
        return field, varint(file) + file.tell()
    if form in FIXED_BYTES:
        return field, file.tell() + FIXED_BYTES[form]
    raise ValueError(NO_ONNX)


def varint(file: IO[bytes]) -> int:
    """A number of up to ten bytes, whose last one is below 128.

    Raises:
        ValueError: it does not end.
    """
    number = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            break
        number |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return number
    raise ValueError(NO_ONNX)
