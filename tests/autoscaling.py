"""A cluster whose autoscaler starts nodes on this machine: Ray's own stand-in for a cloud."""

import json
from pathlib import Path

ENVIRONMENT = {
    "RAY_FAKE_CLUSTER": "1",
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    # The second version's stand-in reads a file that Ray's package does not have.
    "RAY_enable_autoscaler_v2": "0",
}
HEAD = "ray.head.default"
NO_COMMANDS: dict[str, list[str]] = {
    "initialization_commands": [],
    "setup_commands": [],
    "head_setup_commands": [],
    "worker_setup_commands": [],
    "head_start_ray_commands": [],
    "worker_start_ray_commands": [],
    "cluster_synced_files": [],
    "rsync_exclude": [],
    "rsync_filter": [],
}


def autoscaling(folder: Path, gcs_port: int, node: dict[str, float]) -> dict[str, str]:
    """What makes a head one whose autoscaler may start one node.

    Args:
        folder: for the configuration.
        gcs_port: where the head listens: the nodes must find it.
        node: what the node has, such as CPU, GPU.
    """
    worker = {"resources": node, "node_config": {}, "min_workers": 0, "max_workers": 1}
    config = {
        **NO_COMMANDS,
        "cluster_name": "autoscaled",
        "max_workers": 1,
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": 60,
        "provider": {"type": "fake_multinode", "gcs_address": f"127.0.0.1:{gcs_port}"},
        "auth": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        "head_node_type": HEAD,
        "available_node_types": {
            HEAD: {"resources": {"CPU": 1}, "node_config": {}, "max_workers": 0},
            "worker": worker,
        },
    }
    file = folder / "autoscaling.json"
    file.write_text(json.dumps(config))
    return {"autoscaling_config": str(file)}
