"""Rows of Parquet through a pool of models: what the plain scripts for texts share."""

from typing import Any

from tests.benchmarks.script import Arguments


def map_rows(given: Arguments, model: Any, knob: str) -> None:
    """Read, predict, write.

    Args:
        given: the script's arguments; its knobs hold pool, batch_size, threads, `knob`, and
            whether each batch is a block.
        model: a class over Arrow batches; takes weights, the value of `knob`, threads, clocks.
        knob: how the model cuts its batches.
    """
    import ray

    knobs = given.knobs
    ray.init(include_dashboard=False, logging_level="ERROR")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # Of few blocks the first actor to be there takes all, and the second is let go.
    context.wait_for_min_actors_s = 60
    rows = ray.data.read_parquet(str(given.inputs))
    if knobs["block_a_batch"]:
        # Ray makes one of all that is small, however many it is asked for: work for one actor.
        rows = rows.repartition(target_num_rows_per_block=knobs["batch_size"])
    predicted = rows.map_batches(
        model,
        compute=ray.data.ActorPoolStrategy(size=knobs["pool"]),
        batch_format="pyarrow",
        batch_size=knobs["batch_size"],
        zero_copy_batch=True,
        # Threads are what the cores are shared by; actors that ask for all let nothing read.
        num_cpus=0.5,
        fn_constructor_args=(
            str(given.weights),
            knobs[knob],
            knobs["threads"],
            str(given.clocks),
        ),
    )
    predicted.write_parquet(str(given.output))
    given.finish()
