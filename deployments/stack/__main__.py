"""`python -m deployments.stack up|down|status`: a whole stack on this machine."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from deployments.prefect_command import DeployFailedError
from deployments.stack.processes import ServiceFailedError
from deployments.stack.stack import SERVICES, Stack
from deployments.stack.stack import down as take_down
from deployments.stack.stack import up as bring_up
from deployments.stack.state import DEFAULT_FOLDER, load_state
from tasks.errors import BatchInferenceError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
Folder = Annotated[Path, typer.Option(help="The stack's database, data and logs.")]


@app.command()
def up(folder: Folder = DEFAULT_FOLDER) -> None:
    """Start what does not run, and bring the deployments to it as they are now."""
    state = load_state(folder)
    if state and all(state.is_alive(service) for service in SERVICES):
        console.print("the stack is already up")
    try:
        stack = bring_up(folder, say)
    except (ServiceFailedError, DeployFailedError, BatchInferenceError) as error:
        console.print(f"[red]{type(error).__name__}[/] ", end="")
        console.print(str(error), markup=False)
        raise typer.Exit(1) from None
    introduce(stack)


@app.command()
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """End the stack's processes and no others; database, data and logs stay."""
    if not take_down(folder, say):
        console.print("no stack is up")


@app.command()
def status(folder: Folder = DEFAULT_FOLDER) -> None:
    """Which of the stack's services run; exit code 1 where one does not."""
    state = load_state(folder)
    if state is None:
        console.print("no stack is up")
        raise typer.Exit(1)
    for service in SERVICES:
        running = state.is_alive(service)
        said = f"process {state.processes[service].pid}" if running else "[red]not running[/]"
        console.print(f"{service:8}{said}")
    console.print(f"Prefect {state.ui_url}\nRay     {state.ray_url}")
    if not all(state.is_alive(service) for service in SERVICES):
        raise typer.Exit(1)


def say(what: str) -> None:
    """A line about what is going on."""
    console.print(what, style="dim", markup=False)


def introduce(stack: Stack) -> None:
    """Where everything is, and what to do next."""
    folder = escape(str(stack.folder))
    console.print(
        f"[bold]Prefect[/]   {stack.ui_url}/v2/deployments\n"
        f"[bold]Ray[/]       {stack.ray_url}, needs the ray_token in {folder}/stack.json\n"
        f"[bold]next[/]      open Prefect's page, pick classify-images, Run, Custom run, Submit;\n"
        "          then the run: four bars fill, and its report is among the artifacts\n"
        f"          or on the command line: export PREFECT_API_URL={stack.api_url}\n"
        "          prefect deployment run batch-inference/classify-images --watch\n"
        f"[bold]logs[/]      {folder}/logs\n"
        "[bold]end[/]       make down"
    )


if __name__ == "__main__":
    app()
