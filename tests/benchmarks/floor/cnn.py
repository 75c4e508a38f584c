"""The floor of the cnn workload."""

from tests.benchmarks.floor import pictures
from tests.benchmarks.script import arguments

if __name__ == "__main__":
    pictures.main(arguments(), "cnn")
