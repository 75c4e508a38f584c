"""Models by name: resolved once, by the plan; what is wrong there is one clear error."""

import contextlib
import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flows.testing import RunSpec
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.models import HuggingFaceModel, VllmModel
from tasks.kinds.models.model import Placement
from tests.kinds.stand_in_hub import COMMIT, StandInHub, instead_of_the_hub, serving
from tests.kinds.tiny_clip import save_clip
from tests.kinds.tiny_listeners import LISTENERS
from tests.kinds.tiny_models import images, png, predicted, rows_of, save_bert, save_gpt2, save_vit
from tests.kinds.tiny_writers import save_chatting_gpt2, save_nllb

LATER = "f" * 40


def save_wordless(folder: Path) -> None:
    """A model that was pushed without its tokenizer."""
    save_bert(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def save_for_others(folder: Path) -> None:
    """A model with weights for TensorFlow alone."""
    save_bert(folder)
    (folder / "model.safetensors").rename(folder / "tf_model.h5")


def save_unknown(folder: Path) -> None:
    """A model of a type that transformers does not have, with code of its own."""
    save_bert(folder)
    config = json.loads((folder / "config.json").read_text())
    own = {"model_type": "evilmodel", "auto_map": {"AutoConfig": "evil.Config"}}
    (folder / "config.json").write_text(json.dumps({**config, **own}))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder for each tiny model."""
    base = tmp_path_factory.mktemp("hub")
    saves = {"bert": save_bert, "gpt2": save_gpt2, "chat": save_chatting_gpt2}
    for name, save in {**saves, "nllb": save_nllb, "clip": save_clip}.items():
        save(base / name)
    save_unknown(base / "unknown")
    save_wordless(base / "wordless")
    save_for_others(base / "others")
    save_vit(base / "blind")
    LISTENERS["wav2vec2"](base / "deaf")
    for each in ("blind", "deaf"):
        (base / each / "preprocessor_config.json").unlink()
    save_bert(base / "tuned")
    (base / "tuned" / "adapter_config.json").write_text('{"base_model_name_or_path": "org/bert"}')
    for folder in base.iterdir():
        (folder / ".gitattributes").touch()  # as every repository has one
    return {each.name: each for each in base.iterdir()}


@pytest.fixture(scope="module")
def served(folders: dict[str, Path]) -> Iterator[StandInHub]:
    """A Hub with the tiny models of an organisation; one, since clients hold on to its address."""
    made = StandInHub({f"org/{name}": folder for name, folder in folders.items()}, {"org/gated"})
    with serving(made) as address, instead_of_the_hub(address):
        yield made


@pytest.fixture
def hub(served: StandInHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandInHub:
    """The Hub, and an empty cache."""
    served.down = False
    served.revisions = {"main": COMMIT, COMMIT: COMMIT}
    served.asked.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return served


def model(name: str, task: str = "text-classification", **fields: Any) -> HuggingFaceModel:
    return HuggingFaceModel.model_validate({"task": task, "name_or_path": name, **fields})


def test_a_name_is_pinned_to_a_commit_and_loaded_at_it(
    hub: StandInHub, folders: dict[str, Path]
) -> None:
    named = model("org/bert")
    named.check()
    assert hub.asked == []  # the plan asks, and only it
    pinned = named.pinned(named.fingerprint())
    assert pinned.revision == COMMIT
    asked = {path.partition("?")[0] for path in hub.asked if "/org/" in path}
    files = f"/api/models/org/bert/tree/{COMMIT}"
    assert asked == {"/org/bert/resolve/main/config.json", files}

    hub.revisions["main"] = LATER  # a replica that comes later must not see it
    rows = rows_of("text", ["a b c", "d"])
    found = pinned.predictor(Placement())(pinned.preprocessor()(rows))
    assert found == predicted(folders["bert"], "text-classification", rows)
    assert not [path for path in hub.asked if LATER in path]
    hub.asked.clear()
    again = pinned.predictor(Placement())(pinned.preprocessor()(rows))
    assert again == found
    assert not [path for path in hub.asked if "main" in path]


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        (
            "org/bret",
            {},
            r"'org/bret' is not a model on the Hugging Face Hub .* check the spelling",
        ),
        ("org/bret", {}, r"may read, and there is no folder of that name beside the spec: check"),
        ("org/gated", {}, "'org/gated' needs its terms to be accepted"),
        ("org/bert", {"revision": "v9"}, r"model\.revision: 'v9' is not a branch, tag or commit"),
        ("org/gpt2", {}, "is GPT2LMHeadModel; text-classification needs"),
        ("org/others", {}, r"'org/others' has no weights on the Hugging Face Hub \(model.safetens"),
        ("org/blind", {"task": "image-classification"}, "has no image processor on the Hugging"),
        ("org/deaf", {"task": "audio-classification"}, "has no feature extractor on the Hugging"),
        ("org/unknown", {}, r"model\.name_or_path: .* 'evilmodel', .* code, which is never run"),
        (
            "org/gpt2",
            {"task": "text-generation", "options": {"chat": True}},
            r"model\.options\.chat: True needs a chat template",
        ),
        (
            "org/nllb",
            {"task": "translation", "options": {"target_language": "klingon"}},
            "'klingon' is not a language",
        ),
    ],
)
def test_what_is_wrong_with_a_name_is_found_by_the_plan(
    hub: StandInHub, name: str, fields: dict[str, Any], message: str
) -> None:
    wrong = model(name, **fields)
    wrong.check()
    with pytest.raises(InvalidSpec, match=message):
        wrong.fingerprint()
    assert not [path for path in hub.asked if "safetensors" in path]


def test_vllm_wants_weights_that_it_reads(hub: StandInHub) -> None:
    assert VllmModel(name_or_path="org/bert").fingerprint() == COMMIT
    other = VllmModel(name_or_path="org/others")
    with pytest.raises(InvalidSpec, match=r"'org/others' has no weights on the Hugging Face Hub"):
        other.fingerprint()
    elsewhere = {"engine_kwargs": {"load_format": "dummy"}}
    assert other.model_copy(update=elsewhere).fingerprint() == COMMIT


def test_good_options_pass_on_the_hub(hub: StandInHub) -> None:
    chatting = model("org/chat", "text-generation", options={"chat": True})
    german = model("org/nllb", "translation", options={"target_language": "deu_Latn"})
    assert {chatting.fingerprint(), german.fingerprint()} == {COMMIT}


def test_an_outage_can_be_waited_for(hub: StandInHub) -> None:
    hub.down = True
    with pytest.raises(Unreachable, match="does not answer; try again later, or give a folder"):
        model("org/bert").fingerprint()
    assert len(hub.asked) < 10
    hub.down = False
    assert model("org/bert").fingerprint() == COMMIT
    hub.down = True
    assert model("org/bert").fingerprint() == COMMIT  # the cache knows


def test_where_there_is_no_hub_it_is_asked_once(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client tries for half a minute, for which whoever has misspelt a folder waited."""
    tried: list[str] = []
    for module, name in ((socket.socket, "connect"), (socket, "getaddrinfo")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name), tried))
    with instead_of_the_hub("http://hub.invalid"):
        with pytest.raises(Unreachable, match=r"does not answer; .* no folder of that name beside"):
            model("models/bret").fingerprint()
        assert len(tried) == 1
    assert model("org/bert").fingerprint() == COMMIT
    with instead_of_the_hub("http://hub.invalid"):
        assert model("org/bert").fingerprint() == COMMIT  # the cache knows


@pytest.mark.parametrize("answer", [b"Not Found", b"[]", b"<html>"])
def test_a_mirror_that_lists_no_files_may_have_them(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    whole = StandInHub.answer

    def without_lists(self: StandInHub, path: str) -> tuple[int, dict[str, str], bytes]:
        status = 404 if answer == b"Not Found" else 200
        return (status, {}, answer) if "/tree/" in path else whole(self, path)

    monkeypatch.setattr(StandInHub, "answer", without_lists)
    assert model("org/others").fingerprint() == COMMIT


def test_an_outage_is_never_taken_for_a_file_that_there_is_not(hub: StandInHub) -> None:
    pinned = model("org/bert", "feature-extraction").pinned(COMMIT)
    assert pinned.checkpoint.json_file("config.json")["model_type"] == "bert"
    hub.down = True
    with pytest.raises(Unreachable, match="does not answer"):
        pinned.checkpoint.json_file("modules.json")
    hub.down = False
    assert pinned.checkpoint.json_file("modules.json") is None


@pytest.fixture
def pooling(
    hub: StandInHub, folders: dict[str, Path], tmp_path: Path
) -> Iterator[HuggingFaceModel]:
    """A model whose files say that the first token's vector is a text's."""
    folder = Path(shutil.copytree(folders["bert"], tmp_path / "pooling"))
    steps = [{"type": f"st.{each}", "path": each} for each in ("Transformer", "Pooling")]
    (folder / "modules.json").write_text(json.dumps(steps))
    (folder / "Pooling").mkdir()
    (folder / "Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    hub.models["org/pooling"] = folder
    yield model("org/pooling", "feature-extraction").pinned(COMMIT)
    del hub.models["org/pooling"]


def embedded(made: HuggingFaceModel) -> list[list[float]]:
    rows = rows_of("text", ["a b c", "d"])
    found = made.predictor(Placement())(made.preprocessor()(rows))
    vectors: list[list[float]] = found["embedding"].to_pylist()
    return vectors


OFFLINE = "huggingface_hub.constants.HF_HUB_OFFLINE"


def test_what_a_cache_lacks_is_not_taken_for_what_there_is_not(
    pooling: HuggingFaceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers fetches no file of sentence-transformers, and a node may be without network."""
    from transformers import AutoModel, AutoTokenizer

    for each in (AutoModel, AutoTokenizer):
        each.from_pretrained("org/pooling", revision=COMMIT)
    monkeypatch.setattr(OFFLINE, True)
    lacks = (
        r"'org/pooling' is in this machine's cache without modules\.json, .* \(hf download org/p"
    )
    for build in (pooling.preprocessor, partial(pooling.predictor, Placement())):
        with pytest.raises(InvalidSpec, match=rf"^model\.name_or_path: {lacks}"):
            build()
    monkeypatch.setattr(OFFLINE, False)
    wanted = embedded(pooling)
    monkeypatch.setattr(OFFLINE, True)
    assert embedded(pooling) == wanted


def test_a_cache_tells_what_there_is_not_once_the_hub_was_asked(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned = model("org/bert", "feature-extraction").pinned(COMMIT)
    wanted = embedded(pinned)
    monkeypatch.setattr(OFFLINE, True)
    assert embedded(pinned) == wanted


def test_what_the_hub_refuses_a_node_is_not_asked_for_again(hub: StandInHub) -> None:
    """As one without the token that the plan had; of an outage the next attempt may see the end."""
    pinned = model("org/bert").pinned(COMMIT)
    hub.gated.add("org/bert")
    try:
        for build in (pinned.preprocessor, partial(pinned.predictor, Placement())):
            with pytest.raises(InvalidSpec, match=r"'org/bert' needs its terms .* and on every no"):
                build()
    finally:
        hub.gated.remove("org/bert")
    hub.down = True
    with pytest.raises(Unreachable, match=r"'org/bert' at revision .* does not answer; try again"):
        pinned.preprocessor()
    hub.down = False
    pinned.preprocessor()


@pytest.mark.parametrize("keeps_list", [True, False])
def test_a_cache_of_all_files_tells_what_there_is_not(
    hub: StandInHub, tmp_path: Path, keeps_list: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the list of them, or, of older versions of the library, by one that all models have."""
    from huggingface_hub import snapshot_download

    snapshot_download("org/bert", revision=COMMIT)
    if not keeps_list:
        shutil.rmtree(tmp_path / "cache" / "models--org--bert" / "trees")
    monkeypatch.setattr(OFFLINE, True)
    assert len(embedded(model("org/bert", "feature-extraction").pinned(COMMIT))) == 2


@pytest.mark.parametrize("has_peft", [False, True])
def test_an_adapter_on_the_hub_is_never_left_out_without_a_word(
    hub: StandInHub, has_peft: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = "tasks.kinds.models.hf.adapters.transformers_applies_them"
    monkeypatch.setattr(here, lambda: has_peft)
    problem = r"'org/tuned' has an adapter .* would be ignored: merge the two .* give that folder"
    with contextlib.nullcontext() if has_peft else pytest.raises(InvalidSpec, match=problem):
        model("org/tuned").fingerprint()
    with pytest.raises(InvalidSpec, match=problem):  # it has its own way with adapters
        VllmModel(name_or_path="org/tuned").fingerprint()


def test_a_hub_that_is_silent_is_told_of_long_before_it_is_given_up(
    hub: StandInHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A misspelt folder is asked for there, for half a minute where there is no network."""
    monkeypatch.setattr("tasks.kinds.models.hf.hub.SILENT_SECONDS", 60.0)
    model("org/bert").fingerprint()
    assert not caplog.messages
    monkeypatch.setattr("tasks.kinds.models.hf.hub.SILENT_SECONDS", 0.1)
    answer = StandInHub.answer

    def late(self: StandInHub, path: str) -> Any:
        time.sleep(0.5)
        return answer(self, path)

    monkeypatch.setattr(StandInHub, "answer", late)
    with pytest.raises(InvalidSpec, match="'org/bret' is not a model on the Hugging Face Hub"):
        model("org/bret").fingerprint()
    (said,) = caplog.messages
    assert said.startswith("model.name_or_path: 'org/bret' is on the Hugging Face Hub, ")
    assert said.endswith("and there is no folder of that name beside the spec")


@pytest.mark.prefect
def test_the_manifest_has_the_commit(run_spec: RunSpec, hub: StandInHub) -> None:
    spec: dict[str, Any] = {
        "name": "named",
        "source": {"kind": "jsonl", "path": "nowhere"},
        "model": {"kind": "huggingface", "task": "text-classification", "name_or_path": "org/bert"},
        "sink": {"kind": "parquet", "path": "nowhere"},
    }
    done = run_spec(spec, rows=[{"text": "a b"}])
    (file,) = Path(f"{done.spec.sink.path}.state").glob("manifests/*.json")
    assert json.loads(file.read_text())["fingerprints"]["model"] == COMMIT
    with pytest.raises(InvalidSpec, match="is not a model on the Hugging Face Hub"):
        run_spec(spec, "model.name_or_path=org/bret", rows=[{"text": "a b"}])


def refusing(connect: Callable[..., Any], tried: list[str]) -> Callable[..., Any]:
    """The same function, that reaches this machine only."""

    def refuse(*arguments: Any, **options: Any) -> Any:
        if any(each in str(arguments) for each in ("127.0.0.1", "localhost", "::1")):
            return connect(*arguments, **options)
        tried.append(str(arguments))
        raise OSError("no network in this test")

    return refuse


def test_folders_need_no_network(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.constants import is_offline_mode

    assert not is_offline_mode()
    tried: list[str] = []

    for module, name in ((socket.socket, "connect"), (socket, "getaddrinfo")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name), tried))
    encoded = [png(images(1)[0])]
    cases: list[tuple[str, str, str, list[Any], dict[str, Any]]] = [
        ("bert", "text-classification", "text", ["a b"], {}),
        ("bert", "feature-extraction", "text", ["a b"], {}),
        ("chat", "text-generation", "prompt", ["a b"], {"chat": True, "max_new_tokens": 2}),
        ("nllb", "translation", "text", ["a"], {"target_language": "deu_Latn"}),
        ("clip", "feature-extraction", "text", ["a b"], {}),
        ("clip", "image-feature-extraction", "image", encoded, {}),
    ]
    for name, task, column, values, options in cases:
        model(str(folders[name]), task, options=options).fingerprint()
        assert len(predicted(folders[name], task, rows_of(column, values), **options)) == 1
    assert tried == []


@pytest.mark.parametrize("task", ["text-classification", "feature-extraction"])
def test_a_model_without_words_reads_no_texts(hub: StandInHub, task: str) -> None:
    """Transformers would make a tokenizer to which all words are unknown."""
    pinned = model("org/wordless", task).pinned(COMMIT)
    for build in (pinned.preprocessor, partial(pinned.predictor, Placement())):
        with pytest.raises(
            InvalidSpec, match=r"name_or_path: 'org/wordless' has no vocabulary file"
        ):
            build()
