"""What people get wrong in a spec is told in a line, with the way out and without secrets."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.places import check_source
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import complete_spec, load_spec, parse_spec
from tasks.spec_reading.words import PATTERNS

HTTP = {"kind": "http", "url": "http://127.0.0.1:9/v1", "model": "m"}


def raw(**changes: Any) -> dict[str, Any]:
    return {
        "source": {"kind": "parquet", "path": "/in"},
        "model": {"kind": "python", "class": "a:B"},
        "sink": {"kind": "parquet", "path": "/out"},
        **changes,
    }


def refused(**changes: Any) -> str:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(raw(**changes))
    return str(caught.value)


SPEC = """\
name: twice
source: {kind: parquet, path: /in}
model: {kind: python, class: "a:B", init: &init {x: 1}}
sink: {kind: parquet, path: /out}
"""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("source: {kind: csv, path: /other}\n", "has 'source' twice, in line 2 and in line 5"),
        ("'name': other\n", "has 'name' twice, in line 1 and in line 5: keep one of them"),
        ("cost:\n  per_gpu_hour: 1\n  per_gpu_hour: 2\n", "has 'per_gpu_hour' twice, in line 6"),
    ],
)
def test_a_key_that_is_written_twice_is_refused(tmp_path: Path, more: str, message: str) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC + more)
    with pytest.raises(InvalidSpec, match=f"^SPEC: .*spec.yaml' {message}"):
        load_spec(file)


def test_what_an_anchor_brings_may_be_overruled(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(
        SPEC.replace(
            "init: &init {x: 1}",
            "init: {a: &a {x: 1, y: 1}, b: &b {<<: *a, x: 2}, c: {<<: *b, <<: {z: 0}, x: 3}}",
        )
    )
    found = load_spec(file).model.model_dump()["init"]
    assert found["b"] == {"x": 2, "y": 1}
    assert found["c"] == {"x": 3, "y": 1, "z": 0}


def test_one_place_is_set_and_not_all_that_share_an_anchor(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.replace("init: &init {x: 1}", "init: {a: &a {x: 1}, b: *a}"))
    found = load_spec(file, ["model.init.b.x=2"]).model.model_dump()["init"]
    assert found == {"a": {"x": 1}, "b": {"x": 2}}


@pytest.mark.parametrize(
    ("init", "problem"),
    [
        ({"labels": {0: "cat"}}, "the key 0 is not text: put it in quotes"),
        ({"days": [date(2026, 1, 31)]}, "2026-01-31 is of type date: write it as text, in quotes"),
    ],
)
def test_arguments_are_the_same_to_code_here_and_on_a_cluster(
    init: dict[str, Any], problem: str
) -> None:
    said = refused(model={"kind": "python", "class": "a:B", "init": init})
    assert said.startswith("model.init: ")
    assert problem in said


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"model": {**HTTP, "api_key": "sk-live-1"}}, "model.api_key: *** is given"),
        (
            {"sink": {"kind": "parquet", "path": "/o", "storage_option": {"secret": "sk-live-1"}}},
            "sink.storage_option: *** is given, but there is no such field; did you mean",
        ),
        ({"steps": {"a": [{"key": "sk-live-1"}]}}, "steps: *** is not allowed: it must be a list"),
        ({"zzz": "s3://me:sk-live-1@host/x"}, "zzz: *** is given"),
        ({"environment": {"env_vars": {"HF_TOKEN": ["sk-live-1"]}}}, "env_vars.HF_TOKEN: ***"),
    ],
)
def test_what_may_be_a_secret_is_not_quoted(changes: dict[str, Any], field: str) -> None:
    said = refused(**changes)
    assert field in said
    assert "sk-live-1" not in said


@pytest.mark.parametrize("part", ["source", "sink", "model"])
@pytest.mark.parametrize(
    ("options", "write"),
    [
        ({"anon": "false"}, "anon: false"),
        ({"anon": "True "}, "anon: true"),
        ({"client_kwargs": {"verify": "no"}}, "verify: false"),
        ({"requester_pays": "yes"}, "requester_pays: true"),
        ({"version_aware": "0"}, "version_aware: false"),
    ],
)
def test_no_text_is_taken_for_a_switch(part: str, options: dict[str, Any], write: str) -> None:
    """Python takes each for true, so that `anon: "false"` would ask without credentials."""
    kind = "sklearn" if part == "model" else "parquet"
    said = refused(**{part: {"kind": kind, "path": "s3://b/x", "storage_options": options}})
    assert said.startswith(f"{part}.storage_options: ")
    assert f"write {write}, without quotes" in said


@pytest.mark.parametrize(
    "options",
    [
        {"anon": False, "client_kwargs": {"verify": "/etc/own.pem"}, "requester_pays": "project"},
        {"s3_additional_kwargs": {"Metadata": {"verify": "yes"}}, "key": "true"},
        {"client_kwargs": None},
    ],
)
def test_other_texts_are_options(options: dict[str, Any]) -> None:
    source = {"kind": "parquet", "path": "s3://b/x", "storage_options": options}
    spec = complete_spec(raw(source=source), [], Path("/"))
    assert spec.source.storage_options == options


def test_what_is_no_secret_is_quoted() -> None:
    options = {**HTTP, "options": {"max_tokens": "many"}}
    assert "model.options.max_tokens: 'many' is not" in refused(model=options)
    source = {"kind": "sql", "path": "sqlite:////x.db", "table": "t", "key": 5}
    assert "source.key: 5 is not" in refused(source=source)


def test_an_override_that_fits_nowhere_does_not_show_its_secret() -> None:
    with pytest.raises(InvalidSpec, match=r"^--set: 'model\.0\.api_key=\*\*\*' does not") as caught:
        complete_spec(raw(), ["model.0.api_key=sk-live-1"], Path("/"))
    assert "sk-live-1" not in str(caught.value)


MISTAKES = {
    "out/{schedule:%Y-%m-%d}": r"has {schedule:%Y-%m-%d}, .* did you mean {scheduled:%Y-%m-%d}\?",
    "out/{ds}": r"has {ds}, which is not filled in: did you mean {scheduled:",
    "/out/day={date}/x": "has {date}, which is not",
    "out/{{ds}}/{scheduled:%Y}": "has {ds}, which is not",
    "out/{{ ds }}": r"has {{ ds }}, which is not filled in: did you mean {scheduled:%Y-%m-%d}\?",
    "out/{{ds}}": "has {{ds}}, which is not",
    "out/{{ execution_date }}/x": "has {{ execution_date }}, which is not",
    "out/{{ macros.ds_add(ds, -1) }}": r"has {{ macros.ds_add\(ds, -1\) }}, which is not",
    "out/${DAY}": r"has \${DAY}, which is not filled in: write its value, or {scheduled",
    "out/$DAY": r"has \$DAY, which is not",
    "s3:/bucket/x": r"^sink\.path: 's3:/bucket/x' .*did you mean s3://bucket/x\?",
    "arn:aws:s3:::bucket/x": r"^sink\.path: 'arn:aws.* is an ARN, .*did you mean s3://bucket/x\?",
    "arn:aws-cn:s3:cn-north-1:12:accesspoint/p/x": r"did you mean s3://arn:aws-cn:s3:cn-north-1:12:",
    "~nobody2/x": r"^sink\.path: '~nobody2/x' begins with ~nobody2, but there is no such user",
    "out/x ": r"did you mean '/specs/out/x'\?",
    " out/x": r"^sink\.path: ' out/x' .*did you mean 'out/x'\?",
}


@pytest.mark.parametrize(("path", "message"), MISTAKES.items(), ids=MISTAKES.keys())
def test_an_output_that_can_only_be_a_mistake(path: str, message: str) -> None:
    given = raw(sink={"kind": "parquet", "path": path})
    with pytest.raises(InvalidSpec, match=message):
        complete_spec(given, [], Path("/specs"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$HOME/kept", r"has \$HOME, which is not filled in"),
        ("s3:/bucket/kept", r"did you mean s3://bucket/kept\?"),
    ],
)
def test_a_place_for_kept_rows_that_can_only_be_a_mistake(path: str, message: str) -> None:
    given = raw(stages={"preprocess": {"materialize": True, "path": path}})
    with pytest.raises(InvalidSpec, match=rf"stages\.preprocess\.path: .*{message}"):
        complete_spec(given, [], Path("/specs"))


@pytest.mark.parametrize(
    "path",
    [
        "out/{scheduled:%Y-%m-%d}",
        "out/{{a,b}}/{scheduled:%Y}",
        "out/{{ a }}/{scheduled:%Y}",
        "out/{{}}",
        "out/{a,b}",
        "out/{}",
        "a b/c=d:e/f~g/5$",
        "s3://bucket/a:/b",
        "./~x",
        "file:///out",
    ],
)
def test_an_output_of_an_odd_name_is_one(path: str) -> None:
    given = raw(sink={"kind": "parquet", "path": path})
    assert complete_spec(given, [], Path("/specs")).sink.path.endswith(path.removeprefix("./"))


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("in/{ds}", "; it has {ds}, which"),
        ("in/{{ ds }}", "; it has {{ ds }}, which"),
        ("s3:/bkt/x", "; it is .* mean s3://bkt/x"),
        ("in", ""),
    ],
)
def test_an_input_that_is_not_there_may_be_a_mistake(path: str, hint: str, tmp_path: Path) -> None:
    given = raw(source={"kind": "parquet", "path": path})
    with pytest.raises(InputNotFound, match=f"does not exist; correct .*succeed{hint}") as caught:
        check_source(complete_spec(given, [], tmp_path).source)
    assert bool(hint) == (" it " in str(caught.value))


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/in/**.csv", "/in/**/*.csv"),
        ("s3://bucket/day**/x.csv", "s3://bucket/**/day*/x.csv"),
        (["/in/a.csv", "/in/***"], "/in/**/*"),
        ("/in/**/*.csv", None),
        ("/in/**", None),
    ],
    ids=str,
)
def test_folders_of_any_depth_are_a_part_of_a_path(path: Any, meant: str | None) -> None:
    """A shell takes `**.csv`; here the run would fail as it lists its inputs."""
    source = {"kind": "csv", "path": path}
    if meant is None:
        parse_spec(raw(source=source))
        return
    said = refused(source=source)
    assert said.startswith(f"source.path: {path!r} is not allowed: ** stands for folders of any")
    assert said.endswith(f"did you mean {meant}?")


def test_whole_gpus_or_a_part_of_one() -> None:
    for num_gpus in (-1, 1.5, -0.5):
        said = refused(resources={"num_gpus": num_gpus})
        assert said.startswith(f"resources.num_gpus: {num_gpus} is not allowed: ")
    for allowed in (0, 0.25, 1, 8, "auto"):
        assert parse_spec(raw(resources={"num_gpus": allowed})).resources.num_gpus == allowed


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"resources": {"num_gpus": "two"}},
            "resources.num_gpus: 'two' is not allowed: it must be a number; or: it must be 'auto'",
        ),
        (
            {"retries": {"max_attempts": 2.5}},
            "retries.max_attempts: 2.5 is not allowed: it must be a whole number",
        ),
        (
            {"errors": {"max_rejected_fraction": "5%"}},
            "errors.max_rejected_fraction: '5%' is not allowed: it must be a number",
        ),
        (
            {"errors": {"max_rejected_fraction": 5}},
            "errors.max_rejected_fraction: 5 is not allowed: it must be at most 1",
        ),
        (
            {"timeouts": {"run_seconds": 0}},
            "timeouts.run_seconds: 0 is not allowed: it must be more than 0",
        ),
        (
            {"stages": {"preprocess": {"materialize": "often"}}},
            "stages.preprocess.materialize: 'often' is not allowed: it must be true or false",
        ),
        (
            {"sink": {"kind": "parquet", "path": "/x", "mode": "appends"}},
            "sink.mode: 'appends' is not allowed: it must be 'append' or 'replace'; did you mean "
            "append?",
        ),
        (
            {"source": {"kind": "parquet", "path": 5}},
            "source.path: 5 is not allowed: it must be text, but YAML reads this as a number: "
            'put it in quotes: path: "5"; or: it must be a list, in brackets or with a dash '
            "before each item",
        ),
        (
            {"stages": {"infer": {"num_cpus": 2}}},
            "stages.infer: {'num_cpus': 2} is given, but there is no such field; set the model's "
            "stage in resources",
        ),
        (
            {"schedule": "0 2 * * *"},
            "schedule: '0 2 * * *' is given, but there is no such field; set schedules in the "
            "deployment: see deployments/README.md",
        ),
        (
            {"scheduled": "Europe/Berlin"},
            "scheduled: 'Europe/Berlin' is not allowed: it must have fields",
        ),
        (
            {"steps": [{"kind": "rename", "columns": ["a", "b"]}]},
            "steps.0.columns: ['a', 'b'] is not allowed: it must be names with values, as in "
            "{name: value}",
        ),
        (
            {"steps": [{"kind": "select", "columns": []}]},
            "steps.0.columns: [] is not allowed: it must not be empty",
        ),
        (
            {"steps": [{"kind": "filter", "expression": ""}]},
            "steps.0.expression: '' is not allowed: it must not be empty",
        ),
        (
            {"steps": [{"kind": "label_from_path", "column": ""}]},
            "steps.0.column: '' is not allowed: give a name; those that begin with __ are reserved",
        ),
        (
            {"cron": 1},
            "cron: 1 is given, but there is no such field; set schedules in the deployment: see "
            "deployments/README.md",
        ),
    ],
)
def test_what_is_wrong_is_told_in_one_line(changes: dict[str, Any], line: str) -> None:
    assert refused(**changes) == line


PARQUET = {"path": "/x"}


@pytest.mark.parametrize(
    ("changes", "start", "end"),
    [
        ({"source": {**PARQUET, "kind": "paruqet"}}, "source.kind: 'paruqet' is not", "parquet?"),
        ({"source": {**PARQUET, "kind": "CSV"}}, "source.kind: 'CSV' is not one of", "mean csv?"),
        ({"steps": [{"kind": "fil_ter"}]}, "steps.0.kind: 'fil_ter' is not one of", "mean filter?"),
        ({"cluster": {"kind": "rayjobs"}}, "cluster.kind: 'rayjobs' is not one", "mean ray_jobs?"),
        ({"source": {**PARQUET, "kind": "excel"}}, "source.kind: 'excel' is not one of", "'"),
        ({"source": {**PARQUET, "kind": 5}}, "source.kind: '5' is not one of 'images'", "'"),
        ({"sink": {**PARQUET, "knd": "csv"}}, "sink.kind: is missing; say", "instead of knd?"),
        ({"gates": [{"Kind": "rows"}]}, "gates.0.kind: is missing; say", "instead of Kind?"),
        ({"sink": PARQUET}, "sink.kind: is missing; say which kind: 'jsonl', 'parq", "'"),
    ],
    ids=str,
)
def test_the_kind_that_was_meant_is_named(changes: dict[str, Any], start: str, end: str) -> None:
    said = refused(**changes)
    assert said.startswith(start)
    assert said.endswith(end)
    assert ("did you mean" in said) == end.endswith("?")


@pytest.mark.parametrize(
    ("line", "given", "kind", "written"),
    [
        ("name: no", "False", "true or false", 'name: "no"'),
        ("name: Yes", "True", "true or false", 'name: "Yes"'),
        ("name: 007", "7", "a number", 'name: "007"'),
        ("name: 1.50", "1.5", "a number", 'name: "1.50"'),
        ("name: 2026-01-01", "2026-01-01", "a date", 'name: "2026-01-01"'),
        ("name: 2026-01-01 02:00:00", "2026-01-01 02:00:00", "a time", '"2026-01-01 02:00:00"'),
        ("name: {x}", "{'x': None}", "a field, for its braces", 'name: "{x}"'),
        ("environment: {pip: [torch, 1.0]}", "1.0", "a number", ' quotes: "1.0"'),
        ("environment: {env_vars: {LOUD: on}}", "True", "true or false", 'LOUD: "on"'),
        ("environment: {env_vars: {DB_PASSWORD: 123}}", "***", "a number", 'DB_PASSWORD: "..."'),
    ],
)
def test_what_yaml_takes_for_something_else_is_to_be_quoted(
    line: str, given: str, kind: str, written: str, tmp_path: Path
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.removeprefix("name: twice\n") + line)
    with pytest.raises(InvalidSpec) as caught:
        load_spec(file)
    said = str(caught.value)
    assert f": {given} is not allowed: it must be text, but YAML reads this as {kind}: put" in said
    assert said.endswith(written)


@pytest.mark.parametrize(
    ("override", "written"),
    [
        ("name=007", """--set 'name="007"'"""),
        ("name=", """--set 'name="..."'"""),
        ("source.path=2026-01-01", """--set 'source.path="2026-01-01"'; or: it must be a list"""),
        ("environment.env_vars.API_KEY=5", """--set 'environment.env_vars.API_KEY="..."'"""),
        ("environment={pip: [1]}", 'put it in quotes: "1"'),
    ],
)
def test_an_override_that_yaml_takes_for_something_else_is_to_be_quoted(
    override: str, written: str, tmp_path: Path
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    with pytest.raises(InvalidSpec) as caught:
        load_spec(file, [override])
    assert written in str(caught.value)


def test_words_of_a_list_are_to_be_quoted_as_they_are_written(tmp_path: Path) -> None:
    """Where the field may be a number as well."""
    file = tmp_path / "spec.yaml"
    model = "model: {kind: onnx, path: /a.onnx, labels: [no, cat]}\n"
    file.write_text("".join(model if "model:" in line else line for line in SPEC.splitlines(True)))
    with pytest.raises(InvalidSpec) as caught:
        load_spec(file)
    said = str(caught.value)
    assert said.startswith("model.labels.0: False is not allowed: it must be text")
    assert 'put it in quotes: "no"' in said


def test_a_value_without_its_file_is_to_be_quoted_too() -> None:
    assert refused(name=7).endswith('put it in quotes: name: "7"')
    assert refused(name=False).endswith('put it in quotes: name: "false"')
    assert refused(name=["a"]).endswith("is not allowed: it must be text")


def test_what_a_name_may_be_is_told_in_words() -> None:
    said = refused(name="sp ace/x")
    assert said == (
        "name: 'sp ace/x' is not allowed: it may contain A to Z, a to z, 0 to 9 and, "
        "after the first character, . _ -"
    )


def patterns_in(schema: Any) -> Iterator[str]:
    """The regular expressions of a JSON schema."""
    if isinstance(schema, dict) and isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    inner = schema.values() if isinstance(schema, dict) else schema
    for each in inner if isinstance(schema, (dict, list)) else ():
        yield from patterns_in(each)


def test_nobody_is_shown_a_regular_expression() -> None:
    assert set(patterns_in(BatchInferenceSpec.model_json_schema())) == {*PATTERNS}


def test_two_problems_are_two_lines() -> None:
    said = refused(resources={"num_gpus": "two", "num_cpus": 0})
    assert [line.partition(":")[0] for line in said.splitlines()] == [
        "resources.num_gpus",
        "resources.num_cpus",
    ]


def test_no_folder_has_a_nul_in_its_name() -> None:
    said = refused(environment={"working_dir": "/a\0b"})
    assert said.startswith("environment.working_dir: '/a\\x00b' is not allowed: a path can")


@pytest.mark.parametrize(("name", "value"), [("A=B", "sk-live-1"), ("", "x"), ("A", "a\0b")])
def test_a_variable_that_no_process_can_have_is_refused(name: str, value: str) -> None:
    said = refused(environment={"env_vars": {"B": "b", name: value}})
    assert said.startswith("environment.env_vars: ")
    assert f"{name!r} cannot be set: a name cannot be empty or contain =" in said
    assert "sk-live-1" not in said


@pytest.mark.parametrize(
    "address", ["127.0.0.1:6379/", "127.0.0.1", "host:port", ":6379", "a b:6379", "10.0.0.1:637900"]
)
def test_an_address_of_rays_has_a_host_and_a_port(address: str) -> None:
    said = refused(cluster={"kind": "local", "address": address})
    assert said.startswith(f"cluster.address: {address!r} is not allowed: give host and port")


@pytest.mark.parametrize("address", ["auto", "127.0.0.1:6379", "[::1]:6379", "ray://head:10001"])
def test_what_ray_itself_takes_for_an_address_is_one(address: str) -> None:
    complete_spec(raw(cluster={"kind": "local", "address": address}), [], Path("/"))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://ray:82650000", "give host and port"),
        ("http://ray:port", "give host and port"),
        ("http://:8265", "give host and port"),
        ("http://[::1", "give host and port"),
        (
            "http://ray:8265/#/overview",
            "give the dashboard's URL without the part that a browser adds",
        ),
        ("http://ray:8265/?a=1", "give the dashboard's URL without the part that a browser adds"),
    ],
)
def test_a_dashboards_url_leads_to_a_host(address: str, words: str) -> None:
    said = refused(cluster={"kind": "ray_jobs", "address": address})
    assert said.startswith(f"cluster.address: {address!r} is not allowed: {words}")


@pytest.mark.parametrize(
    "address", ["http://ray:8265/", "https://me:p@ray.example.com/path", "http://[::1]:8265"]
)
def test_a_dashboards_url_may_have_a_path_and_a_user(address: str) -> None:
    complete_spec(raw(cluster={"kind": "ray_jobs", "address": address}), [], Path("/"))


@pytest.mark.parametrize(
    ("section", "field", "wanted"),
    [
        ("errors", "max_rejected_fraction", "it must be a number"),
        ("errors", "rejected_rows_always_allowed", "it must be a whole number"),
        ("resources", "num_gpus", "it must be a number; or: it must be 'auto'"),
        ("retries", "max_attempts", "it must be a whole number"),
        ("source", "split_above_mib", "it must be a number"),
    ],
)
def test_yes_is_no_number(section: str, field: str, wanted: str) -> None:
    """As 1 it would let all rows be set aside, with `errors.max_rejected_fraction: yes`."""
    given = raw().get(section, {}) | {field: True}
    assert f"{section}.{field}: 'true' is not allowed: {wanted}" in refused(**{section: given})
    spec = parse_spec(raw(stages={"preprocess": {"materialize": True}}))
    assert spec.stages.preprocess.materialize is True
