"""The model alone of the workload of generation on a GPU."""

import pyarrow.parquet as pq

from tests.benchmarks.floor.one_device import predict_all
from tests.benchmarks.script import arguments
from tests.benchmarks.workloads.gpu_generation import KEY

if __name__ == "__main__":
    given = arguments()
    predict_all("gpu_generation", pq.read_table(given.inputs), [KEY, "generated_text"], given)
