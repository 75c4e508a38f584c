"""Brings the deployments of a prefect.yaml to a Prefect server, as they are now.

`python -m deployments.deploying` does what `prefect deploy --all` does, and what that leaves: it
drops misspelt keys without a word, keeps schedules that the file has lost, which start runs as
ever, and lets deployments go on that somebody has paused.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from deployments.automations_left import automations_left
from deployments.entry_defaults import enforce_schemas, keep_places
from deployments.known_deployments import Known, all_deployments, known_of, left_behind, moved
from deployments.lost_days import refuse_lost_days
from deployments.lost_schedules import remove_lost_schedules
from deployments.misfits import refuse_misfit_values
from deployments.misspelt import flow_of, refuse_unknown_parameters, refuse_unknown_steps
from deployments.named_server import named_server
from deployments.new_queues import queues_lacking, told_of_queue
from deployments.parameters import full_spec, place_of
from deployments.prefect_command import DeployFailedError, run_prefect
from deployments.prefect_file import PREFECT_FILE, Deployment, Step, load_prefect_file
from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec, parse_spec, written_out
from tasks.spec_reading.yaml import parse_yaml

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FULL_SPEC = f"{full_spec.__module__}.{full_spec.__name__}"


def deploy(
    client: "SyncPrefectClient",
    environment: Mapping[str, str],
    prefect_file: Path = PREFECT_FILE,
    folder: Path | None = None,
    tell: Callable[[str], None] = print,
) -> None:
    """Bring every deployment of a prefect.yaml to a server.

    Args:
        client: of the server.
        environment: of Prefect's command; names the same server.
        prefect_file: says what is to be there.
        folder: what paths of its build steps count from; where empty, the current one.
        tell: is told what has gone, what goes on that the file does not name, and what Prefect has
            made beside it.

    Raises:
        InvalidSpec: the file has a key that Prefect would drop without a word, or names a step or a
            parameter that is not there, or a value or a spec of its is wrong, or its work pool is
            not there; nothing is deployed then.
        DeployFailedError: Prefect refuses it.
    """
    wanted = checked(prefect_file, folder)
    for each in wanted:
        refuse_no_pool(client, each)
    lacking = queues_lacking(client, wanted)
    raw = written_out(parse_yaml(prefect_file.read_text(encoding="utf-8")))
    known = known_of(client, wanted)
    leave_at_rest(raw["deployments"], known | moved(client, wanted, known))
    keep_places(raw["deployments"])
    enforce_schemas(raw["deployments"])
    with TemporaryDirectory() as place:
        filled = Path(place) / prefect_file.name
        filled.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
        run_prefect(filled, environment, folder)
    for queue in lacking:
        tell(told_of_queue(queue))
    known = known_of(client, wanted)
    for each in wanted:
        if found := known.get((each.entrypoint, each.name)):
            remove_lost_schedules(client, found, each, tell)
    tell_of_leftovers(client, wanted, prefect_file, tell)


def tell_of_leftovers(
    client: "SyncPrefectClient",
    wanted: list[Deployment],
    prefect_file: Path,
    tell: Callable[[str], None],
) -> None:
    """Tell what goes on though the file does not name it: deployments, and automations of some."""
    if others := left_behind(client, wanted):
        tell(
            f"{counted(len(others), 'deployment')} of the same work pool, not in {prefect_file}, "
            f"on a schedule: {', '.join(others)}; one that is not in another file either is a "
            "leftover: prefect deployment delete NAME removes it"
        )
    for name in automations_left(client, {str(each.id) for each in all_deployments(client)}):
        tell(
            f"the automation {name!r} belongs to a deployment that is gone, but still runs: "
            "create it again for the current deployment, or delete it in Prefect's UI"
        )


def checked(prefect_file: Path, folder: Path | None) -> list[Deployment]:
    """The deployments of a prefect.yaml, once it is seen that none of its runs fails by it.

    Raises:
        InvalidSpec: as `deploy`.
    """
    file = load_prefect_file(prefect_file)
    refuse_unknown_steps(file)
    for each in file.deployments:
        refuse_unknown_steps(each)
        refuse_unknown_parameters(each)
        refuse_misfit_values(each)
        check_specs(each, folder, file.build)
        check_specs_of_schedules(each)
    return file.deployments


def refuse_no_pool(client: "SyncPrefectClient", deployment: Deployment) -> None:
    """See that there is the work pool in which a deployment's runs are to start.

    Prefect would find that out amid the others, some of them deployed.

    Raises:
        InvalidSpec: there is none; says how to make it.
    """
    from prefect.exceptions import ObjectNotFound

    name = deployment.work_pool.name
    if "{{" in name:
        return  # what Prefect fills in is not known here
    try:
        client.read_work_pool(name)
    except ObjectNotFound as error:
        place = f"{deployment.name}: work_pool.name"
        problem = f"is not on this server: prefect work-pool create {name} --type process"
        raise InvalidSpec.at(place, name, f"{problem} makes it") from error


def check_specs(deployment: Deployment, folder: Path | None, of_file: Sequence[Step] = ()) -> None:
    """See that the specs of a deployment's build steps are right, and go with its schedules.

    Prefect would find that out amid the others, some of them deployed, and show where in its code.

    Args:
        deployment: of a file.
        folder: what paths count from; where empty, the current one.
        of_file: the file's own steps, for deployments that have none.

    Raises:
        InvalidSpec: one is not; says whose.
    """
    for step in deployment.build or of_file:
        for name, inputs in step.items():
            file, changes = inputs.get("file"), inputs.get("changes")
            if name != FULL_SPEC or "{{" in f"{file} {changes}":
                continue  # what Prefect fills in is not known here
            try:
                spec = load_spec(place_of(str(file), folder), changes)
                for schedule in deployment.schedules:
                    refuse_lost_days(spec, schedule)
            except InvalidSpec as error:
                raise InvalidSpec(f"{deployment.name}: {file}: {error}") from error


def check_specs_of_schedules(deployment: Deployment) -> None:
    """See that a schedule's own spec is a whole one: Prefect puts it in the deployment's place.

    Raises:
        InvalidSpec: it is not, and each of its runs would fail; says what to do.
    """
    for schedule in deployment.schedules:
        given = schedule.parameters.get("spec")
        if not isinstance(given, dict) or "{{" in str(given) or not takes_spec(deployment):
            continue  # what Prefect fills in is not known here
        try:
            parse_spec(given)
        except InvalidSpec as error:
            raise InvalidSpec(
                f"{deployment.name}: schedules.parameters.spec replaces the deployment's whole "
                "spec: make it with another full_spec step with its own id and changes, and use "
                f"its output here. Now {error}"
            ) from error


def takes_spec(deployment: Deployment) -> bool:
    """Whether a deployment's parameter `spec` is one of ours."""
    flow = flow_of(deployment.entrypoint)
    taken = inspect.signature(flow.fn).parameters.get("spec") if flow else None
    return taken is not None and taken.annotation is BatchInferenceSpec


def leave_at_rest(entries: list[dict[str, Any]], known: Known) -> None:
    """Write into a file's entries what somebody has paused or switched off on the server.

    Where an entry says itself what is to be, that counts.

    Args:
        entries: the file's deployments.
        known: the server's.
    """
    for entry in entries:
        found = known.get((entry["entrypoint"], entry["name"]))
        if found is None:
            continue
        if found.paused and entry.get("paused") is None:
            entry["paused"] = True
        off = {each.slug for each in found.schedules if each.slug and not each.active}
        for schedule in entry.get("schedules") or []:
            is_off = {schedule.get("slug"), schedule.get("replaces")} & off
            if is_off and schedule.get("active") is None:
                schedule["active"] = False


@app.command()
def main(
    prefect_file: Annotated[Path, typer.Option(help="Names the deployments.")] = PREFECT_FILE,
) -> None:
    """Bring the deployments of a prefect.yaml to the server that PREFECT_API_URL names."""
    from prefect.client.orchestration import get_client

    with named_server(DeployFailedError), get_client(sync_client=True) as client:
        deploy(client, os.environ, prefect_file)
        print(f"{client.api_url} has the deployments of {prefect_file}")


if __name__ == "__main__":
    app()
