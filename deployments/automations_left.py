"""Automations that watch or start a deployment which its server has no more."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.events.schemas.automations import Automation

OF_DEPLOYMENT = re.compile(r'(?:"prefect\.deployment\.|"deployment_id":")([0-9a-f-]{36})"')
"""Where an automation, as JSON, names one."""


def automations_left(client: "SyncPrefectClient", deployments: set[str]) -> list[str]:
    """Names of automations that a deployment has left behind, as where it was deleted.

    One that alerts when nothing has completed does so for ever, also where a deployment of the same
    name was made since: that has another id, and nobody watches it. One that is switched off rests.

    Args:
        client: of the server.
        deployments: ids of all that it has.
    """
    found: list[Automation] = []
    while page := client.read_automations(offset=len(found)):
        found += page
    return [
        each.name
        for each in found
        if each.enabled
        and (named := set(OF_DEPLOYMENT.findall(each.model_dump_json())))
        and not named & deployments
    ]
