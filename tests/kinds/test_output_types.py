"""Types of output columns, as a spec writes them."""

import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.output_types import SCALARS, type_of
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *SCALARS.items(),
        ("list<float32>", pa.list_(pa.float32())),
        ("list< list <string> >", pa.list_(pa.list_(pa.string()))),
    ],
)
def test_a_text_names_a_type(text: str, kind: pa.DataType) -> None:
    assert type_of(text) == kind


def spec_with(types: dict[str, str], kind: str = "parquet") -> BatchInferenceSpec:
    return parse_spec(
        {
            "source": {"kind": "parquet", "path": "/nowhere"},
            "model": {"kind": "python", "class": "nowhere:Model"},
            "sink": {"kind": kind, "path": "/out", "types": types},
        }
    )


@pytest.mark.parametrize(
    "text", ["", "float", "list<>", "list<float64", "list", "[int64]", "date64"]
)
def test_a_text_that_names_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match=r"sink.*types\.score.*is not one of bool, .*or list<"):
        spec_with({"score": text})


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_preview_has_the_given_types(kind: str) -> None:
    types = {"score": "float32"}
    assert spec_with(types, kind).sink.as_files().types == types
