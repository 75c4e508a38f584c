"""A Ray cluster of a head and two nodes on this machine, in a process of its own.

`python -m tests.chaos.nodes` prints address and raylets' pids, and stays until it is killed.
"""

import json
import signal

NODES = 2


def main() -> None:
    """Start the cluster and wait."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 500 << 20}
    )
    nodes = [cluster.add_node(num_cpus=2, object_store_memory=500 << 20) for _ in range(NODES)]
    cluster.wait_for_nodes()
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
