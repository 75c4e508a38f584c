"""Pipelines, inputs and faults drawn by chance, and whether every row is published once."""
