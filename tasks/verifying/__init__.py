"""Published rows predicted again, to see whether they come out the same."""
