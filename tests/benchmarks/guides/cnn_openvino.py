"""The guide's way with the cnn workload, beside which ours is compiled."""

from tests.benchmarks.guides import pictures
from tests.benchmarks.script import arguments

if __name__ == "__main__":
    pictures.main(arguments(**pictures.KNOBS))
