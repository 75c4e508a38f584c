"""What every model does: prepare rows on a CPU, predict on a device."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.kind import Kind
from tasks.kinds.models.batch_limit import BatchLimit
from tasks.kinds.models.runtimes.runtime_used import RuntimeLog

Function = Callable[[pa.Table], pa.Table]
Media = Literal["text", "image"]
DType = Literal["auto", "float32", "float16", "bfloat16"]
FILE_SAYS = "the model's file sets its precision"


@dataclass(frozen=True)
class Placement:
    """Where one replica runs."""

    device: str = "cpu"
    """`cpu` or `cuda`, as torch names it."""
    num_threads: int = 1
    batch_size: int | None = None
    """Rows the user asked for in a batch; None: the model's own choice."""
    dtype: DType = "auto"
    limit: BatchLimit = field(default_factory=BatchLimit)
    runtimes: RuntimeLog = field(default_factory=RuntimeLog)
    """Where the model tells what it calculates with."""

    def rows(self, default: int) -> int:
        """Rows in a batch: as the user asked, else the default; less once memory has run out.

        To be asked anew for each batch.
        """
        return self.limit.rows(self.batch_size or default)


def refuse_dtype(dtype: DType, why: str | None) -> None:
    """Refuse a precision that a model has no say in.

    Args:
        dtype: that is asked for.
        why: it cannot be had, and the way out; None where it can.

    Raises:
        InvalidSpec: one is asked for.
    """
    if why and dtype != "auto":
        raise InvalidSpec.at("resources.dtype", dtype, f"is not possible: {why}")


class Model(Kind):
    """What makes predictions.

    `preprocessor` and `predictor` build functions over tables that keep every row and its order.
    The predictor gets the preprocessor's rows and adds its output columns; what it needs only on
    the way lies in columns whose names start with `__`.
    """

    batch_size: ClassVar[int | None] = None
    """Rows handed to the predictor at a time; None: it takes what comes and cuts it itself."""

    uses_threads: ClassVar[bool] = False
    """Whether any such model computes on as many threads as its placement says."""

    calls_may_grow: ClassVar[bool] = False
    """Whether `rows_per_call` is where to begin, and calls that are quick get more."""

    rows_per_batch: ClassVar[int] = 2_048
    """Rows that travel together and are recorded together at most, where the user has no wish."""

    weights_field: ClassVar[str] = "path"
    """The field that says where the weights lie, where there are any."""

    slow_imports: ClassVar[tuple[str, ...]] = ()
    """Modules that loading the model imports, and that take seconds."""

    own_precision: ClassVar[str | None] = None
    """Why no other precision than its own can be asked for, and the way out; None where one can."""

    needs_gpu: ClassVar[bool] = False
    """Whether it predicts on GPUs only."""

    @property
    def takes_encoded_media(self) -> bool:
        """Whether images are decoded by its preprocessor, or not at all; else it gets arrays."""
        return False

    @property
    def least_gpus(self) -> int:
        """GPUs that a replica takes at least, where its own settings share it out among some."""
        return 1

    @property
    def writes_dates(self) -> bool:
        """Whether what it makes of a row may follow from the day: it is told in `PLANNED_ON`."""
        return False

    @property
    def can_use_gpu(self) -> bool:
        """Whether `num_gpus: auto` is to take one where there is any."""
        return True

    def bound(self, rows_per_minute: float) -> str | None:
        """What bounds it that more replicas do not change, and the way out; None where none is.

        Args:
            rows_per_minute: that a replica did while it was busy.
        """
        return None

    @property
    def is_known_by_content(self) -> bool:
        """Whether two models whose fingerprints are the same are one, wherever they lie."""
        return True

    @property
    def weights_places(self) -> list[str]:
        """Where the weights lie: files, folders, or names of what is elsewhere."""
        placed: str | list[str] | None = getattr(self, self.weights_field, None)
        return [placed] if isinstance(placed, str) else [*(placed or [])]

    @property
    def weights_bytes(self) -> int | None:
        """Bytes of the weights, where each row goes through all of them and they are at hand."""
        return None

    @property
    def prefers_threads(self) -> bool:
        """Whether one replica of two cores is as quick as two of one, its preprocessing too."""
        return False

    @property
    def least_rows_per_batch(self) -> int:
        """Rows that travel together at least, where there are so many: fewer are not worth it."""
        return 256

    @property
    def rows_per_call(self) -> int | None:
        """Rows handed to the predictor at a time, where the user has no wish."""
        return self.batch_size

    @property
    def least_rows_per_call(self) -> int | None:
        """Rows of the first call, and of those that would take long, where some may take minutes.

        None: each gets `rows_per_call`, or more.
        """
        return None

    @property
    def preprocesses(self) -> bool:
        """Whether there is a preprocessor."""
        return False

    @property
    def input_columns(self) -> list[str]:
        """Columns that must be there; empty where only the model's code knows."""
        return []

    @property
    def input_field(self) -> str:
        """The field that names them."""
        return "column"

    @property
    def reads(self) -> dict[str, list[str]]:
        """Input columns, by the field that names them."""
        return {self.input_field: self.input_columns}

    def refuse_types(self, schema: pa.Schema) -> None:
        """See that the input columns are of types that the model can do with, where that shows.

        Args:
            schema: of the columns that are there, the input columns among them.

        Raises:
            InvalidSpec: one is not.
        """

    @property
    def output_columns(self) -> tuple[str, ...] | None:
        """What is added to a row, in order; None where only its code or its file knows."""
        return None

    def check(self) -> None:
        """Find what is wrong without loading the model.

        Raises:
            InvalidSpec: says which field, and the way out.
        """

    def fingerprint(self) -> str:
        """Changes when the weights do: a resolved revision or a content hash."""
        raise NotImplementedError

    def has_changed(self, fingerprint: str) -> bool:
        """Whether what lies at the weights' place is known to be no more what `fingerprint` is of.

        To be asked once the model is loaded.
        """
        return False

    def pinned(self, fingerprint: str) -> Self:
        """The model whose weights `fingerprint` stands for, whatever its name stands for later."""
        return self

    def preprocessor(self, num_threads: int = 1) -> Function | None:
        """The CPU part, for the preprocess stage; None where there is none.

        Args:
            num_threads: that images, and whatever else takes its time, are shared out among.
        """
        return None

    def predictor(self, placement: Placement) -> Function:
        """The model itself, loaded; called once in each replica."""
        raise NotImplementedError

    def embedder(self, media: Media, prefix: str | None = None) -> Self:
        """The model that puts a text or an image among the vectors that this one makes.

        Args:
            media: what it is.
            prefix: to be put before a text, in place of what the model knows itself.

        Raises:
            InvalidSpec: there is none.
        """
        problem = f"does not embed {media}: search with a vector, as a JSON list or a .npy file"
        raise InvalidSpec.at("model", type(self).__name__, problem)
