"""Lists of many lengths, as of texts' tokens, and rectangles of them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.kinds.models.arrays import Index


class Ragged:
    """A column of lists, as one flat array and each row's start in it."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        whole = pa.concat_arrays(column.chunks) if column.num_chunks else column.combine_chunks()
        self.offsets = whole.offsets.to_numpy().astype(np.int64)
        self.values = whole.values.to_numpy(zero_copy_only=False)

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each row."""
        return np.diff(self.offsets)

    @property
    def own_values(self) -> npt.NDArray[np.int32]:
        """Those of all rows, without others that lie in the same memory."""
        return self.values[self.offsets[0] : self.offsets[-1]]

    def row(self, at: int) -> npt.NDArray[np.int32]:
        """One row."""
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    def padded(self, index: Index, padding: int, left: bool, width: int = 1) -> np.ndarray:
        """Some rows as a rectangle, at least so wide."""
        is_own = self.is_own(index, left, width)
        out = np.full(is_own.shape, padding, dtype=np.int64)
        lengths = self.lengths[index]
        # In one go: row by row, of short texts, Python would take longer than a GPU.
        before = np.repeat(self.offsets[index] - (lengths.cumsum() - lengths), lengths)
        out[is_own] = self.values[before + np.arange(len(before))]
        return out

    def mask(self, index: Index, left: bool, width: int = 1) -> np.ndarray:
        """Ones where that rectangle has a row's own values, and zeros where it is filled up."""
        return self.is_own(index, left, width).astype(np.int64)

    def is_own(self, index: Index, left: bool, width: int) -> npt.NDArray[np.bool_]:
        """Where in that rectangle a row's own values are."""
        lengths = self.lengths[index][:, None]
        places = np.arange(max(width, lengths.max()))
        return (places[::-1] if left else places) < lengths
