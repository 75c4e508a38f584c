"""The bare floor: one process a core, inputs in memory, the model only; one script a workload."""
