"""What a cell asks of Prefect's server."""

import json
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class PrefectApi:
    """The server's REST API."""

    url: str

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to a request."""
        request = urllib.request.Request(
            f"{self.url}/{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def planned_after(self, moment: float) -> float | None:
        """When the first plan task after a moment was done."""
        tasks = {"name": {"like_": "plan"}, "state": {"type": {"any_": ["COMPLETED"]}}}
        found = self.post("task_runs/filter", {"task_runs": tasks, "sort": "END_TIME_DESC"})
        ends = [datetime.fromisoformat(task["end_time"]).timestamp() for task in found]
        return min((end for end in ends if end > moment), default=None)

    def state(self, flow_run: str) -> str:
        """The type of a flow run's state."""
        with urllib.request.urlopen(f"{self.url}/flow_runs/{flow_run}", timeout=30) as answer:
            return str(json.load(answer)["state_type"])
