"""A model's own settings of how it writes, as they lie in its generation_config.json."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tasks.errors import InvalidSpec
from tests.kinds.tiny_models import VOCABULARY, predicted, rows_of, save_gpt2, texts, tokenizer
from tests.kinds.tiny_speech import save_whisper, sounds


def save_with(folder: Path, **settings: Any) -> Path:
    """A text generator with settings of its own."""
    save_gpt2(folder)
    file = folder / "generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    return folder


def written(folder: Path, batch_size: int | None = None) -> list[str]:
    rows = rows_of("prompt", texts(8, longest=20))
    found = predicted(folder, "text-generation", rows, batch_size, max_new_tokens=8)
    return found["generated_text"].to_pylist()


@pytest.mark.parametrize(
    "settings", [{"num_return_sequences": 2, "num_beams": 2}, {"return_dict_in_generate": True}]
)
def test_a_row_gets_one_text_whatever_the_settings_ask_for(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    beams = {"num_beams": settings.get("num_beams", 1)}
    plain = save_with(tmp_path / "plain", **beams)
    assert written(save_with(tmp_path / "asking", **settings)) == written(plain)
    heard = rows_of("audio", [each.tolist() for each in sounds(3)])
    whisper = save_whisper(tmp_path / "whisper", **settings)
    found = predicted(whisper, "automatic-speech-recognition", heard, max_new_tokens=8)
    assert len(found) == 3


def test_no_model_is_compiled_for_its_kind_of_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers would on a GPU; here it is made to take the CPU for one."""
    from transformers.generation.utils import GenerationMixin

    plain = written(save_with(tmp_path / "plain"))
    whole, asked = GenerationMixin._valid_auto_compile_criteria, []

    def criteria(model: Any, arguments: Any, config: Any) -> bool:
        config.compile_config = SimpleNamespace(_compile_all_devices=True)
        asked.append((config.cache_implementation, whole(model, arguments, config)))
        return False

    monkeypatch.setattr(GenerationMixin, "_valid_auto_compile_criteria", criteria)
    assert written(save_with(tmp_path / "static", cache_implementation="static")) == plain
    heard = rows_of("audio", [each.tolist() for each in sounds(3)])
    whisper = save_whisper(tmp_path / "whisper", cache_implementation="static")
    predicted(whisper, "automatic-speech-recognition", heard, max_new_tokens=8)
    assert asked == [("static", False)] * 2


@pytest.mark.parametrize("last", [{}, {"eos_token_id": None}])
def test_a_text_ends_where_the_models_own_settings_end_it(
    tmp_path: Path, last: dict[str, Any]
) -> None:
    from tokenizers import decoders, pre_tokenizers

    letters = tokenizer(with_pairs=False)
    letters.backend_tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    letters.backend_tokenizer.decoder = decoders.Fuse()
    letters.add_tokens("abcdef")  # transformers looks for the tokens of it
    whole = written(save_with(tmp_path / "whole", **last))
    ending = save_with(tmp_path / "ending", stop_strings=["m"], **last)
    letters.save_pretrained(ending)
    parts = [each.replace(" ", "").partition("m") for each in whole]
    wanted = [before + end for before, end, _ in parts]
    assert written(ending) == written(ending, 1) == wanted
    assert any("m" in each for each in wanted)


def test_a_first_token_is_forced_whatever_prompts_stand_beside(tmp_path: Path) -> None:
    """Of a prompt of one token, that is; beside a longer one it would have more, of padding."""
    folder = save_with(tmp_path, forced_bos_token_id=VOCABULARY["q"])
    rows = rows_of("prompt", ["a", "b c d"])
    made = [
        predicted(folder, "text-generation", rows, size, max_new_tokens=4)["generated_text"]
        for size in (2, 1)
    ]
    assert made[0] == made[1]
    assert [each.as_py().startswith("q") for each in made[0]] == [True, False]


def test_what_is_guessed_from_a_prompt_is_guessed_for_one_row_at_a_time(tmp_path: Path) -> None:
    """Transformers refuses batches of more."""
    plain = written(save_with(tmp_path / "plain"))
    assert written(save_with(tmp_path / "guessing", prompt_lookup_num_tokens=3)) == plain


def test_a_text_has_nothing_of_what_fills_it_up(tmp_path: Path) -> None:
    """Not of a word either, where the tokenizer names neither padding nor end."""
    folder = save_with(tmp_path, eos_token_id=[VOCABULARY["p"], VOCABULARY["j"]])
    for name in ("tokenizer_config.json", "tokenizer.json"):
        fields = json.loads((folder / name).read_text())
        fields.pop("eos_token", None)
        (folder / name).write_text(json.dumps({**fields, "added_tokens": []}))
    alone = written(folder, 1)
    assert written(folder) == alone
    assert {"p", "j"} <= {each[-1] for each in alone}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty_alpha": 0.5, "top_k": 4}, "contrastive search, .* remove penalty_alpha from it"),
        ({"num_beams": 4, "num_beam_groups": 2}, "group beam search, .* remove num_beam_groups"),
    ],
)
def test_a_way_of_writing_that_is_code_on_the_hub_is_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSpec, match=rf"name_or_path: .* asks for {message}"):
        written(save_with(tmp_path, **settings))
