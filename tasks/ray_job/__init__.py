"""What runs where the rows are: on a Ray cluster, or in one process. Never imports Prefect.

Where to look, each line from what comes first to what comes last:

- A job from its start to its result: `job`, `waiting`, `__main__`, `connection`, `bare_head`,
  `raylet`, `driver`, `result`, `ending`.
- On Ray: `cluster`, `pipeline`, `datasource`, `operators`, `datasink`.
- In one process: `inline`, `stage_threads`, `gathering`.
- Read: `shares`, `opening`, `reading`, `read_materialized`.
- Preprocess and infer: `stage_functions`, `as_planned`, `mapped_files`, `stage_adapter`, `parents`,
  `runtimes`.
- Write: `writing`, `sink_encoding`, `output_schema`, `casting`, `untyped`, `widening`,
  `new_columns`.
- How much at a time: `batch_sizes`, `adaptive_batching`, `batch_limits`, `out_of_memory`.
- Which row is to blame: `blame`, `part_size`, `missing_values`, `stage_error`, `own_frame`,
  `lost_files`.
- What a dead worker leaves to the next: `head_notes`, `deterministic_replay`, `poison_rows`,
  `killed_replica`, `lost_device`, `forgotten_replica`.
- Whether there is room, and for whom: `cluster_capacity`, `nodes`, `excluded_nodes`, `gpu_queue`,
  `own_machine`, `lost_room`.
- While Ray works: `watch`, `executor_polling`, `executor_status`, `backpressure`,
  `local_autoscaling`, `bare_data`.
- What others see of it: `counts`, `metrics`, `occupancy`, `device_clock`, `progress`, `budget`,
  `follower_heartbeat`, `profiling`.
"""
