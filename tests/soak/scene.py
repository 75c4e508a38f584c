"""What the rounds of a case share."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from tasks.run_options import RunOptions
from tests.soak.drawn import Case, Input, Lying, Strike
from tests.soak.formats import encoded
from tests.soak.oracle import Promise
from tests.soak.published import Output, output_of
from tests.soak.results import Result
from tests.soak.specs import save_estimator
from tests.soak.stand import Run, Stand


@dataclass
class Scene:
    """A case that is being played: where its files lie, and the runs that were started."""

    stand: Stand
    case: Case
    result: Result
    lying: Lying = field(default_factory=Lying)
    started: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site = self.stand.site(self.case)
        self.promise = Promise(self.case.pipeline)
        self.numbers = count()
        if self.case.pipeline.model == "sklearn":
            save_estimator(self.site.estimator)

    @cached_property
    def endpoint(self) -> str:
        """The storage past the proxy; empty where it is a disk."""
        return self.stand.s3.endpoint_url if self.site.options else ""

    def output(self, path: str) -> Output:
        """An output as others see it."""
        return output_of(self.case.pipeline.sink, self.site, path, self.endpoint)

    def put(self, files: tuple[Input, ...], removed: tuple[str, ...] = ()) -> None:
        """Store inputs, and delete some."""
        source = self.output(self.site.inputs)
        source.files.makedirs(source.path, exist_ok=True)
        for file in files:
            source.files.pipe_file(
                f"{source.path}/{file.name}", encoded(self.case.pipeline.source, file)
            )
        for name in removed:
            source.files.rm_file(f"{source.path}/{name}")
        self.lying = self.lying.changed(files, removed)

    def start(self, raw: dict[str, Any], options: RunOptions, what: Strike) -> Run:
        """Start a run."""
        log = self.site.folder / f"run{next(self.numbers)}.log"
        self.started.append(self.stand.start(raw, options, what, log))
        return self.started[-1]

    def end(self) -> None:
        """Leave nothing running."""
        for run in self.started:
            run.end()
        if self.site.options:
            self.stand.proxy.behave = lambda asked: None
        self.stand.clusters.kill_if_broken()
