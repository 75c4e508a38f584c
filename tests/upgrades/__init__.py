"""Outputs that earlier releases have left, which this one goes on with.

Each archive is a release's own and never changes; `making.py` says how the next one is made.
"""
