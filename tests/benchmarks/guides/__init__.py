"""The way Ray's guides tell people to do it, one script a workload."""
