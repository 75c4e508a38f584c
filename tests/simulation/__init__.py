"""Runs the protocol's own code under thousands of seeded schedules, in one thread."""
