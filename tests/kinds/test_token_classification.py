"""Entities are those of transformers' own pipeline, whatever else is in the batch."""

import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf import places
from tasks.kinds.models.hf.entities import ENTITIES
from tests.kinds.tiny_entities import NAMES, SENTENCES, TOKENIZERS, save_ner, save_with_pieces
from tests.kinds.tiny_models import predicted, rows_of

TASK = "token-classification"
STRATEGIES = ("simple", "first", "average", "max", "none")


def lines() -> list[str]:
    """Sentences and pieces of them, of all lengths, some with blanks around and in their midst."""
    dice, words = random.Random(0), " ".join(SENTENCES).split(" ")
    drawn = [" ".join(dice.sample(words, dice.randrange(1, 15))) for _ in range(50)]
    return [*SENTENCES, *drawn, "", " ", "  a  b ", "\N{CAT FACE}", "the end "]


@pytest.fixture(scope="module", params=TOKENIZERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A labeller."""
    made = tmp_path_factory.mktemp("labeller")
    save_with_pieces(made, request.param)
    return made


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_they_are_those_of_the_pipeline(folder: Path, strategy: str) -> None:
    from transformers import pipeline

    library: Any = pipeline(TASK, str(folder), aggregation_strategy=strategy, device="cpu")
    rows = rows_of("text", lines())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tokenizers that know no words
        found = predicted(folder, TASK, rows, aggregation_strategy=strategy)
        wanted = [library(text) if text else [] for text in lines()]
    assert found["entities"].type == ENTITIES
    for text, ours, theirs in zip(lines(), found["entities"].to_pylist(), wanted, strict=True):
        assert ours == [
            {
                "entity_group": each.get("entity_group") or each["entity"],
                "score": pytest.approx(float(each["score"]), abs=1e-5),
                **{name: each[name] for name in ("word", "start", "end")},
            }
            for each in theirs
        ], text
    groups = {each["entity_group"] for row in found["entities"].to_pylist() for each in row}
    known = {*NAMES} - {"O"} if strategy == "none" else {"PER", "LOC", "MISC"}
    assert groups
    assert groups <= known


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each != "none"])
@pytest.mark.parametrize(("room", "stride"), [(24, 6), (9, 0)])
def test_of_windows_of_long_texts_they_are_those_of_the_pipeline(
    folder: Path, strategy: str, room: int, stride: int
) -> None:
    from transformers import AutoTokenizer, pipeline

    tokenizer = AutoTokenizer.from_pretrained(str(folder), model_max_length=room)
    options: dict[str, Any] = {"aggregation_strategy": strategy, "stride": stride}
    library: Any = pipeline(TASK, str(folder), tokenizer=tokenizer, device="cpu", **options)
    long = [" ".join(lines()[at : at + 5]) for at in range(0, 15, 5)]
    texts = [*long, SENTENCES[0], "", " ", " ".join(long)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tokenizers that know no words
        found = predicted(folder, TASK, rows_of("text", texts), max_length=room, **options)
        wanted = [library(text) if text else [] for text in texts]
    for text, ours, theirs in zip(texts, found["entities"].to_pylist(), wanted, strict=True):
        assert ours == [
            {
                "score": pytest.approx(float(each["score"]), abs=1e-5),
                **{name: each[name] for name in ("entity_group", "word", "start", "end")},
            }
            for each in theirs
        ], text
    first_window = tokenizer(texts[-1], truncation=True, return_offsets_mapping=True)
    reach = max(end for _, end in first_window["offset_mapping"])
    assert any(each["start"] >= reach for each in found["entities"].to_pylist()[-1])


def test_a_text_is_the_same_alone_and_of_no_text_there_is_nothing(folder: Path) -> None:
    rows = rows_of("text", lines())
    together = predicted(folder, TASK, rows)["entities"].to_pylist()
    alone = predicted(folder, TASK, rows, batch_size=1)["entities"].to_pylist()
    for one, other in zip(together, alone, strict=True):
        assert one == [each | {"score": pytest.approx(each["score"], abs=1e-5)} for each in other]
    assert predicted(folder, TASK, rows[:0])["entities"].type == ENTITIES


def test_names_of_the_pipeline_are_known(tmp_path: Path) -> None:
    save_ner(tmp_path)
    with pytest.raises(ValueError, match="it is another name for token-classification: write that"):
        HuggingFaceModel.model_validate({"task": "ner", "name_or_path": str(tmp_path)})
    given = {"task": TASK, "name_or_path": str(tmp_path)}
    with pytest.raises(ValueError, match=r"options\.prefix: 'a' is for .*, not token"):
        HuggingFaceModel.model_validate(given | {"options": {"prefix": "a"}})
    with pytest.raises(InvalidSpec, match=r"is BertForTokenClassification; text-classification"):
        HuggingFaceModel.model_validate(given | {"task": "text-classification"}).check()
    model = HuggingFaceModel.model_validate(given)
    model.check()
    assert (model.input_columns, model.output_columns) == (["text"], ("entities",))


def test_a_tokenizer_that_does_not_say_where_its_tokens_stand_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_ner(tmp_path)
    model = HuggingFaceModel.model_validate({"task": TASK, "name_or_path": str(tmp_path)})
    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.is_fast", False)
    with pytest.raises(InvalidSpec, match="does not give the positions of its tokens in the text"):
        model.check()


def test_places_are_characters_and_those_of_added_tokens_none(tmp_path: Path) -> None:
    save_ner(tmp_path)
    model = HuggingFaceModel.model_validate({"task": TASK, "name_or_path": str(tmp_path)})
    rows = model.preprocessor()(rows_of("text", pa.array(["\N{CAT FACE} a"])))
    assert rows[places.PLACES].to_pylist() == [[-1, -1, 0, 1, 2, 3, -1, -1]]


def test_a_stride_is_refused_that_no_window_can_have(tmp_path: Path) -> None:
    save_ner(tmp_path)
    given = {"task": TASK, "name_or_path": str(tmp_path)}
    problem = r"options\.stride: 2 needs whole entities, but aggregation_strategy is none"
    apart = {"stride": 2, "aggregation_strategy": "none"}
    with pytest.raises(ValueError, match=problem):
        HuggingFaceModel.model_validate(given | {"options": apart})
    options = {"stride": 6, "max_length": 8}
    with pytest.raises(InvalidSpec, match=r"options\.stride: 6 is not less than the 6 tokens"):
        HuggingFaceModel.model_validate(given | {"options": options}).check()
    HuggingFaceModel.model_validate(given | {"options": options | {"stride": 5}}).check()
