"""The demo: real digits, some files broken, a model trained on the spot, the whole flow."""

import sys
from pathlib import Path
from typing import Any

from flows.console import console, escape, print_json, results
from flows.demo_data import DemoData, prepare_digits
from flows.flow_commands import run_flow
from flows.printed_report import print_report
from tasks.errors import InvalidSpec
from tasks.spec_file import load_spec


def run_demo(folder: Path, as_json: bool) -> None:
    """Prepare the data, run the flow, say what came of it and what to try next.

    Raises:
        InvalidSpec: the folder is none, or cannot be written to.
    """
    if folder.exists() and not folder.is_dir():
        problem = "is a file; give a folder, which need not exist yet"
        raise InvalidSpec.at("FOLDER", str(folder), problem)
    console.print(
        "[bold]preparing[/] handwritten digits and training a small model on some of them"
    )
    try:
        data = prepare_digits(folder.resolve())
    except OSError as error:
        raise InvalidSpec.at("FOLDER", str(folder), f"is not usable: {error}") from error
    files = f"{data.num_held_out} images it has never seen and {data.num_broken} broken files"
    console.print(f"[bold]running[/] the flow over {files}")
    spec = load_spec(data.spec)
    figures = run_flow(spec)
    tell(data, figures)
    if as_json:
        print_json(figures)


def tell(data: DemoData, figures: dict[str, Any]) -> None:
    """The demo's last page."""
    print_report(results, figures)
    if figures["accuracy"] is not None:
        share = f"{figures['accuracy']:.1%}"
        results.print(f"[bold]accuracy[/] on images the model has never seen: {share}")
    results.print(
        f"[bold]next[/] run it again to see that nothing is done twice:\n  {escape(sys.argv[0])} "
        f"run {escape(str(data.spec))}\nor add your own images to the folder to see that only "
        f"they are done:\n  {escape(str(data.held_out))}",
        soft_wrap=True,
    )
