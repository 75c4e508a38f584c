"""The model alone of the workload of texts on a GPU."""

import pyarrow.parquet as pq

from tests.benchmarks.floor.one_device import predict_all
from tests.benchmarks.script import arguments
from tests.benchmarks.workloads.gpu_texts import KEY

if __name__ == "__main__":
    given = arguments()
    predict_all("gpu_texts", pq.read_table(given.inputs), [KEY, "embedding"], given)
