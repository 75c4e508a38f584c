"""Plain Ray Data with the image embedding workload."""

from tests.benchmarks.plain import pictures
from tests.benchmarks.script import arguments

GRID = pictures.GRID

if __name__ == "__main__":
    pictures.run(arguments(**pictures.DEFAULTS), "image_embedding")
