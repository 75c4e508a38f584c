"""The model alone of the workload of images on a GPU."""

import pyarrow as pa

from tests.benchmarks.floor.one_device import predict_all
from tests.benchmarks.script import arguments
from tests.benchmarks.workloads.pictures import COLUMNS

if __name__ == "__main__":
    given = arguments()
    files = sorted(given.inputs.iterdir())
    read = {"path": [*map(str, files)], "image": [each.read_bytes() for each in files]}
    predict_all("gpu_images", pa.table(read), COLUMNS, given)
