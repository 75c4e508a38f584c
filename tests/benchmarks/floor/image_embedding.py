"""The floor of the image embedding workload."""

from tests.benchmarks.floor import pictures
from tests.benchmarks.script import arguments

if __name__ == "__main__":
    pictures.main(arguments(), "image_embedding")
