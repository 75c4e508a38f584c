"""Fuzzes what reads other people's bytes: `python -m tests.fuzz --seconds 600 --seed 1`."""
