"""The counting actor: the stages' counts, also as metrics of the cluster they run on."""

from tasks.ray_job.counts import Counts, Report, Snapshot

METRICS = {
    "prefect_ray_data_rows": "Rows that are through with a stage, set-aside rows included.",
    "prefect_ray_data_set_aside_rows": "Rows that a stage set aside with a reason.",
    "prefect_ray_data_busy_seconds": "Seconds that a stage's workers were busy, all together.",
}
"""Ray puts `ray_` before these names, and `_total` after them."""
TAGS = ("stage", "run_id", "run_name")


class CountingActor:
    """Counts for the driver, and for whoever scrapes Ray's metrics.

    One actor speaks for all workers: what the metrics say is then what the driver sees, and a
    worker that dies takes nothing with it.
    """

    def __init__(self, run_id: str, run_name: str) -> None:
        from ray.util.metrics import Counter

        self.counts = Counts()
        tags = {"run_id": run_id, "run_name": run_name}
        self.metrics = [
            Counter(name, text, tag_keys=TAGS).set_default_tags(tags)
            for name, text in METRICS.items()
        ]

    def add(self, report: Report) -> None:
        """Take a stage's report."""
        self.counts.add(report)
        amounts = (report.rows, report.rejected, report.seconds)
        for metric, amount in zip(self.metrics, amounts, strict=True):
            if amount > 0:  # Ray refuses to add nothing
                metric.inc(amount, tags={"stage": report.stage})

    def snapshot(self) -> Snapshot:
        """All counts as JSON."""
        return self.counts.snapshot()
