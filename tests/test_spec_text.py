"""A spec file that cannot be read, and changes that fit nowhere, are told with the way out."""

from pathlib import Path

import pytest

from tasks.errors import InvalidSpec
from tasks.own_process import GONE
from tasks.spec_file import complete_spec, load_spec
from tests.flows.test_cli import call
from tests.test_access import closed
from tests.test_spec_mistakes import SPEC, raw


def told(path: Path | str, *overrides: str) -> str:
    with pytest.raises(InvalidSpec) as caught:
        load_spec(path, [*overrides])
    return str(caught.value)


def test_a_file_that_is_not_there_is_told_with_the_one_that_may_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told("double.yaml") == (
        f"SPEC: 'double.yaml' cannot be read: {tmp_path} has no such file; correct the path"
    )
    (tmp_path / "doubled.yaml").write_text(SPEC)
    assert told("double.yaml").endswith("has no such file; did you mean doubled.yaml?")
    said = told("specs/doubled.yaml")
    assert said.endswith("cannot be read: there is no folder 'specs'; correct the path")
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert f"cannot be read: {GONE}" in told("doubled.yaml")


def test_a_folder_is_told_with_a_file_in_it(tmp_path: Path) -> None:
    assert told(tmp_path).endswith("cannot be read: it is a folder; name a YAML file")
    (tmp_path / "für uns.yaml").write_text(SPEC)
    assert told(tmp_path).endswith(f"name a YAML file, such as {tmp_path}/für uns.yaml")
    assert load_spec(tmp_path / "für uns.yaml").name == "twice"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("name: a\n# für\n".encode("latin-1"), "line 2 is not UTF-8; save the file as UTF-8"),
        (SPEC.encode("utf-16"), "line 1 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_file_in_another_encoding_is_told_where(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_bytes(content)
    assert told(file) == f"SPEC: '{file}' cannot be read: {problem}"


def test_a_file_that_this_user_may_not_read_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    with closed(file):
        said, code = told(file), call(monkeypatch, "check", str(file))
    assert said.endswith("by this user: give this user access, or run as a user who has it")
    assert (code, capsys.readouterr().err.strip()) == (2, f"InvalidSpec: {said}")


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("name: a\n---\nname: b\n", "a spec is one document: keep one, without --- between two"),
        ("source:\n\tkind: csv\n", "indent with spaces, not with tabs"),
        ("name: !!python/object:os.system x", "tags such as !!python are not read: write plain"),
    ],
)
def test_yaml_that_is_none_is_told_with_a_way_out_of_its_own(
    tmp_path: Path, text: str, way_out: str
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    said = told(file)
    assert f"\n({way_out}" in said
    assert "must be in quotes" not in said


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("name.first=x", "does not fit the spec: name is 'twice', which has no fields"),
        ("steps.0.column=x", "does not fit the spec: there is no item 0 in steps"),
        ("0.column=x", "does not fit the spec: there is no item 0"),
        ("steps=[{kind: rename}]", None),
        ("source.path={a", "is not YAML: while parsing"),
        ("source..path=x", 'must be "field.subfield=value"'),
        (".path=x", 'must be "field.subfield=value"'),
    ],
)
def test_a_change_that_fits_nowhere_is_told_where_it_ends(
    override: str, problem: str | None
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        complete_spec({**raw(), "name": "twice"}, [override], Path("/"))
    said = str(caught.value)
    assert problem is None or said.startswith(f"--set: '{override}' {problem}")


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("kind", "steps is a list: name an item by its number, as in steps.0"),
        ("2", "there is no item 2 in steps, which has 2, from 0 on"),
        ("-3", "there is no item -3 in steps, which has 2, from 0 on"),
        ("²", "steps is a list: name an item by its number, as in steps.0"),
    ],
)
def test_an_item_that_a_list_has_not_is_told(place: str, problem: str) -> None:
    steps = [{"kind": "select", "columns": ["x"]}, {"kind": "select", "columns": ["x"]}]
    with pytest.raises(InvalidSpec) as caught:
        complete_spec(raw(steps=steps), [f"steps.{place}=x"], Path("/"))
    assert str(caught.value) == f"--set: 'steps.{place}=x' does not fit the spec: {problem}"
    changed = complete_spec(raw(steps=steps), ["steps.-1.columns.0=y"], Path("/"))
    assert [each.model_dump()["columns"] for each in changed.steps] == [["x"], ["y"]]


def test_a_secret_that_is_not_yaml_is_not_shown() -> None:
    with pytest.raises(InvalidSpec) as caught:
        complete_spec(raw(), ["environment.env_vars.API_KEY={sk-live-1"], Path("/"))
    assert str(caught.value).endswith("API_KEY=***' is not YAML: put it in quotes")


def test_a_value_that_is_left_out_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.replace("name: twice", "name:"))
    assert told(file) == 'name: None is not allowed: it has no value; give it one: name: "..."'


def test_of_a_list_in_which_one_item_is_wrong_that_item_alone_is_told(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC.replace("path: /in", "path: [/a, 5]"))
    assert told(file).startswith("source.path.1: 5 is not allowed: it must be text, but YAML reads")


def test_a_field_that_is_like_none_is_told_which_there_are() -> None:
    model = {"kind": "python", "class": "a:B", "zzz": 1}
    with pytest.raises(InvalidSpec) as caught:
        complete_spec(raw(model=model), [], Path("/"))
    assert str(caught.value).endswith(
        "there is no such field; model has kind, class, init, weight_files, batch_format, "
        "with_row_ids"
    )


def test_what_was_given_is_told_once() -> None:
    for changed, said in (
        (
            {"scheduled": {"timezone": "CET+1"}},
            "scheduled.timezone: 'CET+1' is not a timezone: use",
        ),
        ({"scheduled": {"offset": "now"}}, "scheduled.offset: 'now' is not a step of time: write"),
    ):
        with pytest.raises(InvalidSpec) as caught:
            complete_spec(raw(**changed), [], Path("/"))
        assert str(caught.value).startswith(said)
