"""Daft scripts with the same model code, one a workload."""
