"""The spec is the same after a trip through JSON, whatever is in it."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InvalidSpec
from tasks.kinds.mistaken_paths import mistake_in
from tasks.kinds.sinks.sink import HIDDEN
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import complete_spec, load_spec, parse_spec

TEXT = st.text(min_size=1, max_size=20).filter(lambda text: text.strip("/") != "")
SHOWN = TEXT.filter(lambda text: not text.startswith(HIDDEN) and "=" not in text)
PATHS = st.one_of(TEXT, st.lists(TEXT, min_size=1, max_size=3))
KINDS = st.sampled_from(["images", "binary", "parquet", "csv", "jsonl", "text"])
SOURCES = st.fixed_dictionaries(
    {"kind": KINDS, "path": PATHS},
    optional={"exclude": st.lists(TEXT), "on_empty": st.sampled_from(["fail", "succeed"])},
)
STEPS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("label_from_path"), "level": st.integers(-5, 5)}),
    st.fixed_dictionaries(
        {"kind": st.just("select"), "columns": st.lists(TEXT, min_size=1, max_size=3, unique=True)}
    ),
    st.fixed_dictionaries({"kind": st.just("filter"), "expression": TEXT}),
    st.fixed_dictionaries({"kind": st.just("python"), "function": TEXT}),
)
MODELS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("python"), "class": TEXT},
        optional={"init": st.dictionaries(TEXT, st.one_of(st.integers(), TEXT, st.booleans()))},
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("huggingface"),
            "task": st.just("image-classification"),
            "name_or_path": TEXT,
        },
        optional={"options": st.fixed_dictionaries({"top_k": st.integers(1, 9)})},
    ),
)
SINKS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["parquet", "jsonl", "csv"]),
        "path": TEXT.filter(lambda text: not mistake_in(text.rstrip("/"))),
    },
    optional={"partition_by": st.lists(SHOWN), "rows_per_file": st.integers(1, 10**9)},
)
FRACTIONS = st.floats(0, 1)
GATES = st.one_of(
    st.fixed_dictionaries({"kind": st.sampled_from(["accuracy", "f1"]), "minimum": FRACTIONS}),
    st.fixed_dictionaries({"kind": st.just("nulls"), "column": TEXT, "max_fraction": FRACTIONS}),
    st.fixed_dictionaries({"kind": st.just("bounds"), "column": TEXT, "minimum": st.floats(-9, 9)}),
    st.fixed_dictionaries({"kind": st.just("drift"), "column": TEXT, "maximum": st.floats(0, 9)}),
    st.fixed_dictionaries({"kind": st.just("rows"), "maximum": st.integers(0, 10**9)}),
)
SPECS = st.fixed_dictionaries(
    {"source": SOURCES, "steps": st.lists(STEPS, max_size=3), "model": MODELS, "sink": SINKS},
    optional={
        "cluster": st.fixed_dictionaries({"kind": st.sampled_from(["inline", "local"])}),
        "gates": st.lists(GATES, max_size=3),
        "errors": st.fixed_dictionaries(
            {"max_rejected_fraction": st.floats(0, 1)},
            optional={"rejected_rows_always_allowed": st.integers(0, 10**9)},
        ),
        "resources": st.fixed_dictionaries(
            {"num_gpus": st.one_of(st.just("auto"), st.floats(0, 1), st.integers(2, 8))}
        ),
    },
)


@given(raw=SPECS)
def test_json_round_trip(raw: dict[str, Any]) -> None:
    spec = parse_spec(raw)
    text = json.dumps(spec.model_dump(mode="json", by_alias=True))
    back = BatchInferenceSpec.model_validate(json.loads(text))
    assert back == spec
    assert back.model_dump() == spec.model_dump()


RAW: dict[str, Any] = {
    "source": {"kind": "parquet", "path": "/in"},
    "model": {"kind": "python", "class": "a:B"},
    "sink": {"kind": "parquet", "path": "/out"},
}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"modle": {}}, "model"),
        ({"source": {"kind": "csv", "path": "/in", "delimitr": ";"}}, "delimiter"),
        ({"source": {"kind": "text", "path": "/in", "skip_blanks": True}}, "skip_blank"),
        ({"model": {"kind": "python", "clas": "a:B"}}, "class"),
        ({"steps": [{"kind": "select", "clmns": ["x"]}]}, "columns"),
        ({"stages": {"read": {"rows_per_bach": 1}}}, "rows_per_batch"),
        ({"sink": {"kind": "parquet", "path": "/out", "catalogue": {}}}, None),  # iceberg's
        ({"cluster": {"kind": "inline", "addr": "x"}}, None),  # other clusters'
        ({"zzz": 1}, None),
    ],
)
def test_a_misspelt_field_is_told_what_it_may_mean(
    given: dict[str, Any], meant: str | None
) -> None:
    with pytest.raises(InvalidSpec) as raised:
        parse_spec({**RAW, **given})
    (line,) = (line for line in str(raised.value).splitlines() if "no such field" in line)
    assert line.endswith(f"; did you mean {meant}?") if meant else "did you mean" not in line


@pytest.mark.parametrize(("orphan", "ttl"), [(3600, 3600), (None, 1800), (7200, None)])
def test_a_job_ends_itself_before_its_cluster_is_deleted(
    orphan: int | None, ttl: int | None
) -> None:
    timeouts = {"orphan_seconds": orphan} if orphan else {}
    cluster = {"kind": "kuberay", **({"ttl_seconds": ttl} if ttl else {})}
    with pytest.raises(
        InvalidSpec,
        match=r"^timeouts\.orphan_seconds: \d+ must be less than cluster\.ttl_seconds \d+: a job",
    ):
        parse_spec({**RAW, "cluster": cluster, "timeouts": timeouts})
    parse_spec({**RAW, "timeouts": timeouts})


def test_paths_are_relative_to_the_file_and_written_without_steps_upwards(tmp_path: Path) -> None:
    folder = tmp_path / "specs/mine"
    folder.mkdir(parents=True)
    file = folder / "spec.yaml"
    sink = {"kind": "parquet", "path": "./out/."}
    gate = {"kind": "drift", "column": "score", "maximum": 0.2}
    source = {
        "kind": "parquet",
        "path": ["../.././rows", "../..", "../../", "/rows", "s3://bucket/../rows"],
    }
    model = {"kind": "python", "class": "models:Mine"}
    gates = [{**gate, "baseline": "../last"}, gate]
    raw = {"source": source, "model": model, "sink": sink, "gates": gates}
    file.write_text(json.dumps(raw))
    spec = load_spec(file)
    up = str(tmp_path)
    assert spec.source.paths == [f"{up}/rows", up, up, "/rows", "s3://bucket/../rows"]
    assert spec.sink.path == str(folder / "out")
    assert [each.compared_with for each in spec.gates] == [f"{up}/specs/last", None]


def test_a_part_without_a_line_is_left_at_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(RAW) + "resources:\n#  num_cpus: 2\nstages:\nenvironment:\n")
    spec = load_spec(file)
    defaults = parse_spec({**RAW, "environment": {"working_dir": str(tmp_path)}})
    assert spec.model_dump() == defaults.model_dump()
    file.write_text("source:\nmodel:\nsink:\n")
    with pytest.raises(InvalidSpec, match="source: is missing; add it"):
        load_spec(file)


@pytest.mark.parametrize("path", ["/a/..", "s3://bucket/a/../", "/a/../."])
def test_an_output_has_a_name(path: str) -> None:
    with pytest.raises(InvalidSpec, match=r"^sink\.path: .*write the folder itself"):
        parse_spec({**RAW, "sink": {"kind": "parquet", "path": path}})
    named = {**RAW, "sink": {"kind": "parquet", "path": "s3://bucket/a//./"}}
    assert parse_spec(named).sink.path == "s3://bucket/a"


def test_a_table_in_a_catalog_has_a_name_and_no_path(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    for path, wanted in [("sales.orders", "sales.orders"), ("a.metadata.json", str(tmp_path))]:
        source = {"kind": "iceberg", "path": path, "catalog": {"token": "${TOKEN}"}}
        file.write_text(json.dumps({**RAW, "source": source}))
        assert load_spec(file).source.paths[0].startswith(wanted)


@pytest.mark.parametrize(
    "catalog",
    [
        {"token": "abc123"},
        {"uri": "postgresql://me:abc123@host/lake"},
        {"uri": "postgresql://me:abc/123 @host/lake"},
        {"uri": "postgresql://host/lake?user=me&password=abc123"},
    ],
)
def test_a_catalog_spells_out_no_secret(catalog: dict[str, str]) -> None:
    for part in ({"source": {"kind": "iceberg"}}, {"sink": {"kind": "iceberg"}}):
        ((section, fields),) = part.items()
        given = {**RAW, section: {**fields, "path": "/a.b", "catalog": catalog}}
        with pytest.raises(InvalidSpec, match="contains a secret") as raised:
            parse_spec(given)
        assert "abc" not in str(raised.value)


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"kind": "accuracy"}, "gates.0.minimum: is missing; add it"),
        ({"kind": "accuracies"}, "gates.0.kind: 'accuracies' is not one of 'accuracy', 'f1'"),
        ({"minimum": 1}, "gates.0.kind: is missing; say which kind"),
        ({"kind": "rows"}, "^gates.0: give minimum, maximum or both$"),
        ({"kind": "f1", "minimum": 0, "average": "mean"}, "gates.0.average: 'mean' is not allowed"),
        ({"kind": "rows", "minimum": -1}, "gates.0.minimum: -1 is not allowed: it must be at"),
    ],
)
def test_a_wrong_gate_is_named(gate: dict[str, Any], message: str) -> None:
    raw = {"source": {"kind": "parquet", "path": "x"}, "sink": {"kind": "parquet", "path": "y"}}
    model = {"kind": "python", "class": "a:B"}
    with pytest.raises(InvalidSpec, match=message):
        parse_spec({**raw, "model": model, "gates": [gate]})


def test_a_rule_of_ours_is_said_in_our_words() -> None:
    with pytest.raises(InvalidSpec, match=r"^source\.path: \[\] is not allowed: must name"):
        parse_spec({**RAW, "source": {"kind": "parquet", "path": []}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: " + "[" * 1_000, "is nested too deeply"),
        ("source: &a [*a]", "is nested too deeply, or contains itself"),
        (
            "a: &a [0]\n"
            + "".join(f"{n}: &{n} [{f'*{o},' * 9}]\n" for o, n in pairwise("abcdefg")),
            "has",
        ),
        ("source: 2026-13-45", "is not YAML: month must be in"),
        ("source: !!bool x", "is not YAML"),
        ("name: {x} y", r"is not YAML: (?s:.*)\(text that begins with { or \[, or has a colon"),
        ("name: [x", "is not YAML: while parsing a flow sequence\n  in line 1, column 7"),
        ("a\0b", "is not YAML"),
    ],
)
def test_yaml_that_is_none_is_said_so(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(InvalidSpec, match=f"^SPEC: .*{message}"):
        load_spec(tmp_path / "spec.yaml")


@pytest.mark.parametrize(
    "given", ["x" * 100_000, 1 << 100_000, [[0] * 1_000] * 1_000], ids=["text", "number", "lists"]
)
def test_a_message_is_short_whatever_was_given(given: Any) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({**RAW, "modle": given})
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("resources.batch_size=0", "^resources.batch_size: 0 is not allowed: it must be at"),
        ("resources.num_cpus=.inf", "^resources.num_cpus: inf is not allowed: .* a finite number"),
        ("timeouts.no_progress_seconds=.nan", "nan is not allowed: .* a finite number"),
        (
            "resources={min_replicas: 3, max_replicas: 2}",
            "^resources.max_replicas: 2 is less than min_replicas 3: raise it, leave it out",
        ),
        ("model.columns=[]", "^model.columns: list the input columns; or"),
        ("model.labels={}", "^model.labels: {} is not allowed: it must be a list"),
        (
            "source={kind: sql, path: 'sqlite:////x.db', key: id}",
            "^source: set either table or query",
        ),
    ],
)
def test_rules_are_told_once_and_without_all_that_was_given(change: str, message: str) -> None:
    raw = {
        "source": {"kind": "parquet", "path": "x"},
        "model": {"kind": "torch", "path": "y", "columns": ["a"]},
        "sink": {"kind": "parquet", "path": "z"},
    }
    with pytest.raises(InvalidSpec, match=message):
        complete_spec(raw, [change], Path("/"))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        ({}, 1_048_576),
        ({"model": {"kind": "python", "class": "fares:FareCheck"}}, 16_384),
        ({"sink": {"kind": "parquet", "path": "out", "rows_per_file": 10_000}}, 10_000),
        ({"resources": {"batch_size": 2_000_000}}, 2_000_000),
        ({"resources": {"batch_size": 64}}, 1_048_576),
        ({"stages": {"read": {"rows_per_batch": 50}}, "resources": {"batch_size": 64}}, 50),
    ],
)
def test_rows_travel_together_as_suits_the_model(change: dict[str, Any], rows: int) -> None:
    trees = {
        "source": {"kind": "parquet", "path": "in"},
        "model": {"kind": "xgboost", "path": "model.ubj"},
        "sink": {"kind": "parquet", "path": "out"},
    }
    assert BatchInferenceSpec.model_validate({**trees, **change}).rows_per_batch == rows


def test_a_name_that_no_folder_can_have_is_none(tmp_path: Path) -> None:
    model = {"kind": "huggingface", "task": "image-classification", "name_or_path": "x" * 1_000}
    spec = complete_spec({**RAW, "model": model}, [], tmp_path)
    assert spec.model.model_dump()["name_or_path"] == "x" * 1_000


def test_a_section_of_comments_only_may_be_set_into(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(RAW) + "resources:\n  # num_gpus: 1\n")
    assert load_spec(file, ["resources.num_cpus=1"]).resources.num_cpus == 1


@pytest.mark.parametrize(
    "change",
    [
        {"scheduled": {"timezone": "", "offset": ""}},
        {"cluster": {"kind": "local", "address": ""}},
        {"cluster": {"kind": "ray_jobs", "address": "http://ray:8265", "block": ""}},
        {"cluster": {"kind": "ray_jobs", "address": "", "block": "ray"}},
        {"cluster": {"kind": "kuberay", "manifest": "", "image": "", "context": ""}},
        {"environment": {"working_dir": ""}},
        {"resources": {"accelerator_type": "", "memory_gb": ""}},
        {"source": {"kind": "huggingface_dataset", "path": "x", "split_name": ""}},
        {"source": {"kind": "delta", "path": "x", "filter": "", "as_of": ""}},
        {"sink": {"kind": "iceberg", "path": "/x", "table": "", "newest_by": ""}},
        {"model": {"kind": "torch", "path": "x", "columns": ["a"], "class": ""}},
        {"model": {"kind": "http", "url": "http://x/v1", "model": "x", "api_key_env": ""}},
    ],
)
def test_a_box_of_the_form_that_was_cleared_is_one_left_out(change: dict[str, Any]) -> None:
    ((section, fields),) = change.items()
    left = {name: value for name, value in fields.items() if value != ""}
    assert parse_spec({**RAW, **change}) == parse_spec({**RAW, section: left})


@pytest.mark.parametrize(
    "change",
    [
        {"steps": [{"kind": "template", "template": "{x}", "empty": ""}]},
        {"model": {"kind": "http", "url": "http://x/v1", "model": "x", "system_prompt": ""}},
        {
            "model": {
                "kind": "huggingface",
                "name_or_path": "x",
                "task": "summarization",
                "options": {"prefix": ""},
            }
        },
    ],
)
def test_an_empty_text_counts_where_it_says_something(change: dict[str, Any]) -> None:
    spec = parse_spec({**RAW, **change}).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert {name: spec[name] for name in change} == change


def test_an_empty_text_is_refused_where_something_has_to_be(tmp_path: Path) -> None:
    cluster = {"kind": "ray_jobs", "address": "http://ray:8265", "python": ""}
    with pytest.raises(InvalidSpec, match=r"^cluster\.python: '' is not allowed"):
        parse_spec({**RAW, "cluster": cluster})
    spec = complete_spec({**RAW, "environment": {"working_dir": ""}}, [], tmp_path)
    assert spec.environment.working_dir == str(tmp_path)
