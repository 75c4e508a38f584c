"""The Prefect flows, and the command line that starts them.

Where to look:

- The flows: `batch_inference`, `backfill`, `preview`, `verify`, `redrive`, `search`, `demo`.
- A run from plan to end: `planning`, `at_work`, `attempts`, `headway`, `stage_tasks`.
- A run that is cancelled, or whose process dies: `cancellation`, `cancellation_hooks`,
  `orphaned_runs`, `lost_worker`, `ended_from_outside`, `heartbeats`.
- A run of a deployment: `deployment_run`, `own_folder`, `own_place`, `meant_time`, `callers_time`.
- The command line: `cli`, `command_spec`, `flow_commands`, `plain_commands`, `ending`.
- What it shows: `console`, `terminal`, `log_at_terminal`, `printed_report`, `printing`.
- Prefect's server: `named_server`, `own_server`, `prefect_server`, `server_database`,
  `writers_in_turn`, `server_away`, `proxies`.
- The demo's data: `demo_data`, `demo_model`, `demo_texts`.
- For tests of one's own flows: `testing`, `server_for_tests`, `small_ray`.
"""
