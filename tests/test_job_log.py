"""What of a job's log is handed on: whole lines, without noise, in batches, up to a cap."""

import json
import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from prefect.settings import PREFECT_LOGGING_TO_API_MAX_LOG_SIZE

from tasks import job_log
from tasks.job_log import JobLog


@dataclass
class Speaker:
    """A job that has said so much."""

    said: str = ""
    asked: int = 0
    where: str = "http://cluster/#/jobs/1"

    def log(self) -> str:
        self.asked += 1
        return self.said

    def is_alive(self) -> bool | None:
        return True

    def stop(self) -> None:
        """Nothing to stop."""


@dataclass
class Heard:
    """What was handed on."""

    batches: list[str] = field(default_factory=list)

    def __call__(self, batch: str) -> None:
        self.batches.append(batch)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is told at once."""
    monkeypatch.setattr(job_log, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(job_log, "FETCHED_PER_SECOND", math.inf)


def test_lines_come_in_batches_every_few_seconds() -> None:
    log, job, heard = JobLog(), Speaker("one\ntwo\n"), Heard()
    log.forward(job, heard)
    job.said += "three\n"
    log.forward(job, heard)
    assert (heard.batches, job.asked) == (["one\ntwo"], 1)
    log.forward(job, heard, now=True)
    assert heard.batches == ["one\ntwo", "three"]


def test_a_long_log_is_fetched_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it comes each time: one of 5 MB, in a run of twelve hours, would be 43 GB."""
    clock = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(job_log, "time", SimpleNamespace(monotonic=lambda: clock.now))
    log, job, heard = JobLog(), Speaker("50%, 9.5it/s]\n" * 300_000), Heard()
    for _ in range(600):
        log.forward(job, heard)
        clock.now += 1
    assert job.asked * len(job.said) <= 601 * job_log.FETCHED_PER_SECOND + len(job.said)


@pytest.mark.usefixtures("impatient")
def test_half_a_line_waits_for_its_end_or_the_jobs() -> None:
    log, job, heard = JobLog(), Speaker("one\ntw"), Heard()
    log.forward(job, heard)
    job.said += "o\nthr"
    log.forward(job, heard)
    assert heard.batches == ["one", "two"]
    log.forward(job, heard, now=True)
    assert heard.batches == ["one", "two", "thr"]


@pytest.mark.usefixtures("impatient")
def test_nothing_is_said_twice_after_the_cluster_was_away() -> None:
    log, job, heard = JobLog(), Speaker("one\n"), Heard()
    log.forward(job, heard)
    job.said = ""  # this is what a cluster that does not answer says
    log.forward(job, heard)
    job.said = "one\ntwo\n"
    log.forward(job, heard)
    assert heard.batches == ["one", "two"]


NOISE = [
    "Running 0:  12%|█▏        | 120/1000 [00:01<00:08, 101.5 row/s]\r",
    "- MapBatches(Infer): Tasks: 1; Actors: 1:  50%|█████     | 500/1.00k [00:03<00:03, 150 row/s]",
    " 66%|######6   | 2/3 [00:01<00:00, 2.5it/s]",
    "Running: 3.0/4.0 CPU, 1.0/2.0 GPU, 12.0MiB/100.0MiB object store",
    "Running Dataset: dataset_3_0. Active & requested resources: 2/4 CPU",
    "✔️  Dataset dataset_3_0 execution finished in 3.2 seconds",
    ":actor_name:MapWorker(MapBatches(Infer))",
    ":task_name:Write",
    ":job_id:0a000000",
    "2026-11-21 13:29:14,153 WARNING __init__.py:28 -- Progress bars disabled. To enable, set ...",
    "",
    "   ",
]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("line", NOISE)
def test_noise_is_left_out(line: str) -> None:
    log, job, heard = JobLog(), Speaker(f"before\n{line}\nafter\n"), Heard()
    log.forward(job, heard)
    assert heard.batches == ["before\nafter"]
    job.said += f"{line}\n"
    log.forward(job, heard)
    assert len(heard.batches) == 1, "of noise alone nothing is told"


SAID = [
    "Running the model on node 3",
    "loss 0.5",
    "block 7 of 9 is done",
    "a: b: c",
    "10 it",
    "embedded at 250 rows/s",
]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("line", SAID)
def test_what_people_print_is_handed_on(line: str) -> None:
    heard = Heard()
    JobLog().forward(Speaker(f"{line}\n"), heard)
    assert heard.batches == [line]


@pytest.mark.usefixtures("impatient")
def test_colors_are_for_terminals() -> None:
    heard = Heard()
    JobLog().forward(Speaker("\x1b[36m(Infer pid=7)\x1b[0m loaded\n"), heard)
    assert heard.batches == ["(Infer pid=7) loaded"]


@pytest.mark.usefixtures("impatient")
def test_at_the_cap_it_says_where_the_rest_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "MAX_CHARACTERS", 100)
    log, job, heard = JobLog(), Speaker(), Heard()
    for _ in range(10):
        job.said += "x" * 29 + "\n"
        log.forward(job, heard)
    assert [len(batch) for batch in heard.batches[:3]] == [29, 29, 29]
    assert heard.batches[3:] == [f"{'x' * 13}\n... the rest is at {job.where}"]
    assert job.asked == 4, "what is not told is not asked for"


@pytest.mark.usefixtures("impatient")
def test_a_log_of_noise_is_not_fetched_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "MAX_SEEN", 100)
    log, job, heard = JobLog(), Speaker("50%, 9.5it/s]\n" * 20), Heard()
    for _ in range(3):
        log.forward(job, heard)
    assert heard.batches == ["\n... the rest is at http://cluster/#/jobs/1"]
    assert job.asked == 1


def test_what_postgres_cannot_keep_is_written_out() -> None:
    heard = Heard()
    JobLog().forward(Speaker("a\0b\n"), heard, now=True)
    assert heard.batches == ["a\\x00b"]


@pytest.mark.parametrize("said", ["😀" * 39 + "\n", "😀"], ids=["lines", "one line"])
def test_of_much_that_is_said_at_once_prefect_keeps_all(said: str) -> None:
    """Such as what a job has said by the time that somebody follows it again."""
    whole, heard = (said * (200_000 // len(said))).rstrip("\n"), Heard()
    JobLog().forward(Speaker(whole), heard, now=True)
    between = "\n" if "\n" in said else ""
    assert between.join(heard.batches) == whole
    largest = max(len(json.dumps(batch)) for batch in heard.batches)
    assert largest < PREFECT_LOGGING_TO_API_MAX_LOG_SIZE.value()
