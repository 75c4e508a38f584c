"""Hostile input: a corpus of files made by script, and a fuzzer of readers and of the spec."""
