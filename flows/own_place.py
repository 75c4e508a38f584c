"""A run's place below its deployment's limit, which Prefect takes back as the run ends."""

from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import ConcurrencyLeaseHolder, FlowRun
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

KEPT_SECONDS = 3600.0
"""For a job to stop. Were its process to die meanwhile, the next run waits as long."""
NOTHING = "prefect-ray-data-nothing"
"""A limit that is not there: Prefect gives a lease on it to everybody."""
NO_PLACE = (422, 423)
"""What Prefect answers where a limit is 0, or others have all places."""
GONE = 410


def lease_on_own_place(client: SyncPrefectClient, run: FlowRun) -> UUID | None:
    """The lease with which a run that is to end gives back its own place, and none but that.

    Prefect has taken the place back already where somebody has said that the run has ended, and
    takes it once more when it has: from whoever has it by then. So it is taken anew; where others
    were quicker the lease is on nothing.

    Args:
        client: of the server.
        run: as the server has it now.

    Returns:
        None where its deployment has no limit, or is no more.
    """
    if run.deployment_id is None or run.state is None:
        return None
    try:
        limit = client.read_deployment(run.deployment_id).global_concurrency_limit
    except ObjectNotFound:  # deleted, and its limit with it; who is at work stays
        return None
    if limit is None:
        return None
    lease = run.state.state_details.deployment_concurrency_lease_id
    if lease is not None and is_renewed(client, lease):
        return lease
    return taken(client, run, limit.name) or taken(client, run, NOTHING)


def give_back(client: SyncPrefectClient, run: FlowRun, lease: UUID | None) -> None:
    """Give a place back at once that was taken for a state which the run has not come to.

    Args:
        client: of the server.
        run: whose place it is.
        lease: what `lease_on_own_place` returned.

    Raises:
        Exception: the server does not answer.
    """
    state = client.read_flow_run(run.id).state  # that of which only the answer was lost, perhaps
    if lease and not (state and state.state_details.deployment_concurrency_lease_id == lease):
        client.release_concurrency_slots_with_lease(lease)


def is_renewed(client: SyncPrefectClient, lease: UUID) -> bool:
    """Whether a lease is there, which then stays so for a while."""
    try:
        client.renew_concurrency_lease(lease, KEPT_SECONDS)
    except PrefectHTTPStatusError as error:
        if error.response.status_code != GONE:
            raise
        return False
    return True


def taken(client: SyncPrefectClient, run: FlowRun, limit: str) -> UUID | None:
    """A lease on one place below a limit; None where there is none to be had."""
    holder = ConcurrencyLeaseHolder(type="flow_run", id=run.id)
    try:
        answer = client.increment_concurrency_slots_with_lease(
            [limit], 1, "concurrency", KEPT_SECONDS, holder
        )
    except PrefectHTTPStatusError as error:
        if error.response.status_code not in NO_PLACE:
            raise
        return None
    return ConcurrencyLimitWithLeaseResponse.model_validate(answer.json()).lease_id
