"""Goes on the Python path of a cell's job."""
