"""What a run is made of, from its spec to its report; `flows` puts these parts together.

Where to look, each line from what comes first to what comes last:

- The spec: `spec`, `spec_parts`, `resources`, `spec_file`, `spec_reading`, `requirements`,
  `scheduled`, `outputs`.
- Its kinds of sources, steps, models, gates, sinks and clusters: `kinds`.
- The plan: `plan`, `planning`, `run_options`, `first_rows`, `rehearsal`, `access`, `own_process`,
  `without_ray`, `materializing_run`.
- An attempt: `run`, `run_folder`, `attempt`, `stages`, `stage_artifacts`, `stage_summary`,
  `clusters`, `ray_job`, `job_log`, `job_look`, `running_jobs`, `lease`.
- Exactly once: `protocol` keeps the records and the ledger; `ledgers`, `record_coverage`.
- The end: `publish`, `publishing`, `lineage`, `report`, `reporting`, `late_report`, `artifacts`.
- What is published: `published`, `output_status`, `cleaning`, `periods`, `previewing`,
  `left_previews`, `verifying`, `searching`.
- What all of them use: `errors`, `calendar`, `counted`, `machine`, `python_rows`, `quick_imports`,
  `temporary_folder`, `timeouts`, `whole`.
- For tests of one's own flows: `faked`, `fake_model`, `fake_answers`.
"""
