"""Fixtures for people who test their own flows: `pytest_plugins = ["flows.testing"]`.

They are opted into, not installed as a plugin of every pytest on the machine: a fixture that comes
from nowhere surprises, and so do seconds of imports in a project that uses none of this.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.faked import faked
from tasks.kinds.placeholders import TOKEN
from tasks.kinds.sinks import CsvSink, JsonlSink, ParquetSink, Sink
from tasks.kinds.sources import AnySource, CsvSource
from tasks.outputs import output_of
from tasks.published import published_rows, rows_set_aside
from tasks.scheduled import at_time
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import complete_spec, load_spec

Spec = str | Path | dict[str, Any]
Row = dict[str, Any]
WRITERS: dict[str, type[Sink]] = {"parquet": ParquetSink, "csv": CsvSink, "jsonl": JsonlSink}
SMALL = (
    "cluster={kind: inline}",
    *(f"resources.{name}=1" for name in ("num_cpus", "min_replicas", "max_replicas")),
    "resources.num_gpus=0",
    "resources.memory_gb=null",
    "resources.accelerator_type=null",
    *(f"stages.{name}.max_workers=1" for name in ("read", "preprocess", "write")),
    *(f"stages.{name}.num_cpus=0.5" for name in ("read", "preprocess")),
    "stages.write.num_cpus=0",
    "stages.preprocess.path=null",
    "retries.max_attempts=1",
)
"""What a spec is changed to in a test: no Ray, no GPU, one of everything, no second attempt."""


@dataclass(frozen=True)
class FinishedRun:
    """What a flow returned, and what its output holds whenever one looks."""

    spec: BatchInferenceSpec
    report: dict[str, Any]
    """The flow's own return value."""

    @property
    def table(self) -> pa.Table:
        """Published rows, in the order of runs and of the inputs in each."""
        return published_rows(self.spec)

    @property
    def rows(self) -> list[Row]:
        """The same as dicts."""
        return self.table.to_pylist()

    @property
    def set_aside(self) -> list[Row]:
        """Rows in quarantine: source, row, stage, error_type, error_message, input_json."""
        return rows_set_aside(self.spec)

    @property
    def page(self) -> str:
        """The report in Markdown; empty where there was nothing to do."""
        path = self.report.get("report")
        return output_of(self.spec)[0].read(path).decode() if path else ""


@dataclass(frozen=True)
class RunSpec:
    """Runs specs in a test, each output in the test's own folder."""

    folder: Path
    ray_address: Callable[[], str]
    """Starts a Ray where there is none yet."""

    def __call__(
        self,
        spec: Spec,
        *overrides: str,
        rows: list[Row] | None = None,
        fake: bool | dict[str, Any] = False,
        ray: bool = False,
        flow: Callable[..., Any] | None = None,
        **options: Any,
    ) -> FinishedRun:
        """Run a whole flow: plan, read, preprocess, infer, write, gates, publish, report.

        The model, the steps, the error budget and the gates are the spec's. Its cluster becomes
        this process, its resources small, its output a folder of the test's: run again in the
        same test, it takes what is new.

        Args:
            spec: a YAML file, or its content; relative paths in the latter are relative to the
                current folder.
            overrides: `field.subfield=value` pairs, values in YAML; they have the last word.
            rows: read these, in the format of the spec's source, instead of what is there; in a
                later run of the same test they are new ones.
            fake: put a FakeModel in the model's place; a dict holds its arguments.
            ray: run on a small Ray, which all tests of the session share.
            flow: another flow than batch_inference, such as redrive or preview.
            options: the flow's other parameters, such as accept or scheduled_time.

        Raises:
            BatchInferenceError: what the flow raises: GateFailed, ErrorBudgetExceeded, ...
        """
        from flows.batch_inference import batch_inference

        changed = self.load(spec, [*self.own_overrides(ray), *overrides])
        if rows is not None:
            changed = changed.model_copy(
                update={
                    "source": few_rows(changed.source, rows, self.folder / "rows" / changed.name)
                }
            )
        if fake is not False:
            given = {} if fake is True else fake
            resources = changed.resources.model_copy(update={"dtype": "auto"})
            model = faked(changed.model, **given)
            changed = changed.model_copy(update={"model": model, "resources": resources})
        changed = at_time(changed, options.get("scheduled_time") or datetime.now(UTC))
        return FinishedRun(changed, (flow or batch_inference)(changed, **options))

    def load(self, spec: Spec, overrides: list[str]) -> BatchInferenceSpec:
        """The spec as it is run, but for rows and model."""
        if isinstance(spec, dict):
            loaded = complete_spec(deepcopy(spec), overrides, Path.cwd())
        else:
            loaded = load_spec(spec, overrides)
        if any(each.startswith("sink.path=") for each in overrides):
            return loaded
        # Hidden: the test may have put its inputs into the same folder. An output of each time
        # stays one.
        times = [token[0] for token in TOKEN.finditer(loaded.sink.path) if token["format"]]
        place = self.folder.joinpath("_published", loaded.name, *times)
        sink = loaded.sink.moved_to(str(place), {})
        return loaded.model_copy(update={"sink": sink})

    def own_overrides(self, ray: bool) -> list[str]:
        """The changes that every test needs."""
        if not ray:
            return [*SMALL]
        return [*SMALL, f"cluster={{kind: local, address: '{self.ray_address()}'}}"]


def few_rows(source: AnySource, rows: list[Row], folder: Path) -> AnySource:
    """The source, reading a folder to which a file of these rows is added.

    Raises:
        InvalidSpec: they are no rows, or the source's are no table's.
    """
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        problem = "must be a list of dicts, one for each row, such as [{'text': 'a'}]"
        raise InvalidSpec.at("rows", rows, problem)
    if source.kind not in WRITERS:
        problem = (
            f"cannot be written as {source.kind}: put a few files in a folder, and pass "
            '"source.path=that/folder"'
        )
        raise InvalidSpec.at("rows", counted(len(rows), "row"), problem)
    sink = WRITERS[source.kind](path=str(folder))
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{len(list(folder.iterdir()))}{sink.suffix}").write_bytes(sink.encode(table))
    changes: dict[str, Any] = {"path": str(folder), "exclude": [], "storage_options": {}}
    if isinstance(source, CsvSource):
        # The file begins with a header, in UTF-8, and has what our writer puts around values.
        changes |= {"column_names": None, "delimiter": ",", "quote_char": '"'}
        changes |= {"encoding": None, "skip_lines": 0}
    return source.model_copy(update=changes)


@pytest.fixture(scope="session")
def prefect_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A database for Prefect servers to begin with, of which they take a copy.

    It stays in pytest's cache, where there is one that can be written.
    """
    from flows.server_for_tests import database_in

    try:
        folder = request.config.cache.mkdir("prefect")
    except (AttributeError, OSError):
        folder = tmp_path_factory.mktemp("prefect")
    return database_in(folder)


@pytest.fixture(scope="session")
def prefect_server(prefect_database: Path) -> Iterator[None]:
    """A Prefect server with a database of its own; one, since clients hold on to it."""
    from flows.server_for_tests import server_for_tests

    with server_for_tests(prefect_database):
        yield


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """The address of a small Ray that lasts for the session."""
    from flows.small_ray import FOR_CLIENTS, small_ray

    with pytest.MonkeyPatch.context() as environment, small_ray() as address:
        for name, value in FOR_CLIENTS.items():  # drivers inherit it
            environment.setenv(name, value)
        yield address


@pytest.fixture
def run_spec(prefect_server: None, tmp_path: Path, request: pytest.FixtureRequest) -> RunSpec:
    """Runs a spec's whole flow, and shows what it has published."""
    return RunSpec(tmp_path, lambda: str(request.getfixturevalue("ray_address")))
