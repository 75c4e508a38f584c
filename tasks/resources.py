"""What the stages of a run may use: replicas of the model, and the workers around it."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tasks.kinds.form import FormModel
from tasks.kinds.models.model import DType
from tasks.protocol.urls import as_folder

Auto = Literal["auto"]


class Resources(FormModel):
    """What one replica of the model gets, and how many there may be."""

    num_gpus: Annotated[float, Field(ge=0)] | Auto = Field(
        "auto",
        description="GPUs of one replica. auto: one if any node has a GPU when the job starts, or "
        "if KubeRay's manifest declares any. On other clusters that add GPU nodes only on demand, "
        "give a number.",
    )
    num_cpus: Annotated[float, Field(gt=0)] | Auto = Field(
        "auto",
        description="CPU cores of one replica, and threads of its model. auto: one. On this "
        "machine without a GPU: two for models of Hugging Face and torchvision of 40 MiB or more, "
        "which halves the copies of the weights in memory. inline: all, up to 8, for models of "
        "Hugging Face, torchvision, torch, onnx and xgboost, and as many for preprocessing.",
    )
    memory_gb: float | None = Field(None, gt=0, description="Memory of one replica, in GiB.")
    accelerator_type: str | None = Field(None, description="Use only this type of GPU, e.g. A100.")
    min_replicas: int = Field(1, ge=1, description="Replicas to start with.")
    max_replicas: int | None = Field(
        None,
        ge=1,
        description="Maximum number of replicas, if the cluster has room. Empty: 4 on a cluster or "
        "a Ray that is joined; on a Ray started for the run, as many as this machine has GPUs for, "
        "or CPU cores if it has no GPU.",
    )
    batch_size: Annotated[int, Field(ge=1)] | Auto = Field(
        "auto",
        description="Rows the model gets at a time; your own class gets everything that steps made "
        "of this many, such as the tiles of 64 images. auto: what suits the model; your own class "
        "gets 64, and more while calls take less than a twentieth of a second.",
    )
    dtype: DType = Field(
        "auto",
        description="Precision of the weights. auto: float32 on CPUs; on GPUs bfloat16, or float16 "
        "if there is no bfloat16, for models of Hugging Face and torchvision, except detectors, "
        "which need float32 to tell pixels apart. Compared with float32, embeddings differ by up "
        "to 1 % of their largest value with bfloat16, and 0.1 % with float16. float32 is exact "
        "everywhere, and keeps convolutions on GPUs from using TF32.",
    )

    @field_validator("num_gpus")
    @classmethod
    def _whole_or_part_of_one(cls, num_gpus: float | Auto) -> float | Auto:
        if num_gpus != "auto" and num_gpus > 1 and num_gpus % 1:
            raise ValueError(
                "above 1, Ray takes only a whole number of GPUs: write one, or a part of one "
                "GPU, such as 0.5"
            )
        return num_gpus

    @model_validator(mode="after")
    def _most_are_not_fewer(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(
                f"resources.max_replicas: {self.max_replicas} is less than min_replicas "
                f"{self.min_replicas}: raise it, leave it out, or lower min_replicas"
            )
        return self

    @property
    def cores(self) -> float:
        """CPU cores of one replica, at least."""
        return 1 if self.num_cpus == "auto" else self.num_cpus

    def most_replicas(self, usual: int = 4) -> int:
        """Replicas at most; as many as usual where the user named no number."""
        return max(self.min_replicas, self.max_replicas or usual)


class StageOptions(FormModel):
    """Resources of a stage."""

    num_cpus: float = Field(1, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(None, ge=1, description="Maximum number of workers.")


class ReadOptions(StageOptions):
    """Resources of the read stage, and how much travels at a time."""

    num_cpus: float = Field(0.5, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(
        None,
        ge=1,
        description="Maximum number of workers. Empty: as many as there are cores and parts of the "
        "input for; on this machine, for files on its disk, one for every two cores, and at least "
        "2, unless num_cpus is changed.",
    )
    rows_per_batch: Annotated[int, Field(ge=1)] | Auto = Field(
        "auto",
        description="Rows that travel and are recorded together: what a crash can cost. auto: "
        "2048; 16384 for your own code (a slow batch is recorded in parts); 131072 for sklearn; "
        "524288 if the source has only numbers; 1048576 for xgboost; resources.batch_size if that "
        "is larger. Fewer if there would not be twelve batches a replica; if only reading tells "
        "how many rows there are, this is estimated from the beginnings of a few inputs. Never "
        "more than sink.rows_per_file; a batch also ends at 32 MiB, or at 2048 rows that cannot be "
        "read.",
    )


class PreprocessOptions(StageOptions):
    """Resources of the preprocess stage, and whether its rows are kept."""

    materialize: bool = Field(
        False,
        description="Split the run into two jobs, each retried on its own: the first reads, "
        "applies the steps and keeps the rows; the second does the rest. Later runs with the same "
        "source, steps, code, environment.pip and environment.env_vars reuse the kept rows, "
        "whatever their model. Nothing else counts, such as an installed package or a file that "
        "your step opens: run --replace-output with an unchanged spec prepares all rows again. "
        "They take the space of the rows after the steps, compressed, and stay until somebody "
        "deletes them. --limit, preview and redrive run as one job.",
    )
    max_workers: int | None = Field(
        None,
        ge=1,
        description="Maximum number of workers. On this machine without a GPU there are none, and "
        "replicas prepare their own batches, unless this is set, num_cpus is changed, or replicas "
        "have cores that they could not prepare on.",
    )
    path: str | None = Field(
        None,
        min_length=1,
        pattern=r"^[^{}]+$",
        description="Folder of the kept rows, reached with the sink's storage_options; specs with "
        "the same folder share them. Empty: <sink.path>.state/prepared.",
    )

    @field_validator("path")
    @classmethod
    def _as_folder(cls, path: str | None) -> str | None:
        return path and as_folder(path)


class WriteOptions(StageOptions):
    """Resources of the write stage."""

    # A writer that waits for a core would let predictions pile up, to be lost in a crash.
    num_cpus: float = Field(0, ge=0, description="CPU cores of one worker.")
    max_workers: int | None = Field(
        None,
        ge=1,
        description="Maximum number of workers. Empty: 4; on this machine, for an output on its "
        "disk, one for every two cores, at least 2 and at most 4.",
    )


class Stages(FormModel):
    """Settings of the other stages, if the defaults do not suit."""

    read: ReadOptions = ReadOptions()
    preprocess: PreprocessOptions = PreprocessOptions()
    write: WriteOptions = WriteOptions()
