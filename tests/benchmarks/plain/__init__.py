"""The best plain Ray Data scripts, one a workload, and the grids that their knobs come from."""
