"""The page for those who come with a script and a job: its files are valid, its names exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
import yaml
from pydantic import BaseModel

from deployments.prefect_file import Deployment, PrefectFile, load_prefect_file
from flows import cli
from tasks.kinds.sinks import AnySink
from tasks.kinds.sources import AnySource
from tasks.kinds.steps import AnyStep
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/from-a-ray-data-script.md").read_text()
LINES = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in re.findall(r"^\| .*", PAGE, re.M)]
NAMES = sorted({name for _, *here in LINES for name in re.findall(r"`([a-z_.]+)`", here[-1])})
OF_DEPLOYMENTS = {"work_pool.name", "work_pool.work_queue_name"}


def files() -> dict[str, str]:
    """The page's YAML, by the name in its first line."""
    return dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from models_in(each)


def is_field(models: list[type[BaseModel]], name: str) -> bool:
    """Whether any of the models has a field of that path."""
    first, _, rest = name.partition(".")
    for model in models:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if first in fields and (not rest or is_field([*models_in(fields[first].annotation)], rest)):
            return True
    return False


def kinds_of(union: Any) -> set[str]:
    """The kinds that a union picks from."""
    return {model.model_fields["kind"].default for model in models_in(union)}


def test_the_spec_is_one(tmp_path: Path) -> None:
    (file, text) = next((name, text) for name, text in files().items() if "specs/" in name)
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    spec = load_spec(path)
    assert (spec.model.kind, spec.cluster.kind) == ("python", "kuberay")
    assert spec.environment.working_dir == str(tmp_path)
    said = f'resources: {{"accelerator_type:{spec.resources.accelerator_type}": "1"}}'
    assert said in text, "of a kind that its group does not name Ray's autoscaler adds no GPU"


def test_the_deployment_is_one_and_reads_the_spec() -> None:
    found = PrefectFile.model_validate(yaml.safe_load(files()["deployments/dogs.yaml"]))
    (deployment,) = found.deployments
    ((step,),) = [[*each.values()] for each in deployment.build]
    assert step["file"] in files()
    assert deployment.parameters == {"spec": f"{{{{ {step['id']}.spec }}}}"}
    assert f"batch-inference/{deployment.name}" in PAGE
    shipped = load_prefect_file().deployments[0].work_pool.job_variables
    assert deployment.work_pool.job_variables == shipped  # else healthy runs count as crashed


def test_every_field_that_is_named_exists() -> None:
    kinds = kinds_of(AnyStep)
    dotted = [name for name in NAMES if "." in name]
    assert len(dotted) > 30
    for name in dotted:
        owner = Deployment if name in OF_DEPLOYMENTS else BatchInferenceSpec
        assert is_field([owner], name), name
    for name in set(NAMES) - set(dotted):
        known = is_field([BatchInferenceSpec, Deployment], name) or name in kinds
        assert known or is_field(
            [*models_in(Deployment.model_fields["schedules"].annotation)], name
        )


@pytest.mark.parametrize(("section", "union"), [("source", AnySource), ("sink", AnySink)])
def test_every_kind_that_is_named_exists(section: str, union: Any) -> None:
    (named,) = re.findall(rf"`{section}\.kind`: ([a-z_, ]+)", PAGE)
    assert set(named.strip().split(", ")) <= kinds_of(union)


def test_every_verb_that_is_named_exists() -> None:
    verbs = set(typer.main.get_group(cli.app).commands)
    named = set(re.findall(r"^batch-inference (\w+)|`batch-inference (\w+)", PAGE, re.M))
    assert {first or second for first, second in named} <= verbs


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((\.\./[^)]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
