"""Texts for the shipped deployments: Python's own reference, and a small model of its words.

Nothing is downloaded: the texts come with Python, the model is made here in seconds.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tasks.kinds.models.hf.checkpoint import quiet

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PARAGRAPHS, MODEL = "paragraphs", "model"
COMPLETE = "texts.json"
"""Written last: a folder that has it is complete."""
SEED = 0
VOCABULARY = 2_000
DIMENSIONS = 64
WINDOW = 5
"""Words so near to each other count as seen together."""
COMMON = 1e-3
"""Share of all words from which on one counts for less: `the` says little of a text."""
LINEAR = 1e6
"""So large a term under its root makes layer normalisation keep lengths."""
MINIMUM_LETTERS = 40
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DemoTexts:
    """What was written."""

    folder: Path
    num_files: int
    num_paragraphs: int

    @property
    def paragraphs(self) -> Path:
        """A file for each topic of the reference, a paragraph a line."""
        return self.folder / PARAGRAPHS

    @property
    def model(self) -> Path:
        """The model, in Hugging Face's format."""
        return self.folder / MODEL


def prepare_texts(folder: Path) -> DemoTexts:
    """Write texts and model; a complete folder is used again.

    Args:
        folder: where to; made if need be.
    """
    done = folder / COMPLETE
    if done.exists():
        return DemoTexts(folder, **json.loads(done.read_text()))
    topics = load_topics()
    lines = [line for paragraphs in topics.values() for line in paragraphs]
    made = DemoTexts(folder, len(topics), len(lines))
    made.paragraphs.mkdir(parents=True, exist_ok=True)
    for topic, paragraphs in topics.items():
        (made.paragraphs / f"{topic}.txt").write_text("\n".join(paragraphs) + "\n")
    save_model(lines, made.model)
    figures = {"num_files": made.num_files, "num_paragraphs": made.num_paragraphs}
    done.write_text(json.dumps(figures))
    return made


def load_topics() -> dict[str, list[str]]:
    """The reference's topics, as `help("with")` shows them, in paragraphs of one line each."""
    from pydoc_data.topics import topics

    found = {name: paragraphs_of(text) for name, text in sorted(topics.items())}
    return {name: paragraphs for name, paragraphs in found.items() if paragraphs}


def paragraphs_of(text: str) -> list[str]:
    """A text's paragraphs, without those that are hardly more than a headline."""
    joined = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return [paragraph for paragraph in joined if len(paragraph) >= MINIMUM_LETTERS]


def save_model(lines: list[str], folder: Path) -> None:
    """A model that gives a text the mean of its words' vectors.

    It is a BERT without layers: what it looks up is averaged by mean pooling, and that is all.
    """
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    tokenizer = trained_tokenizer(lines)
    vectors = word_vectors([encoding.ids for encoding in tokenizer.encode_batch(lines)])
    size: dict[str, Any] = {"vocab_size": len(vectors), "hidden_size": DIMENSIONS}
    config = BertConfig(
        **size,
        num_hidden_layers=0,
        num_attention_heads=1,
        intermediate_size=1,
        layer_norm_eps=LINEAR,
    )
    model = BertModel(config, add_pooling_layer=False)
    embeddings = model.embeddings
    with torch.no_grad():
        embeddings.word_embeddings.weight.copy_(torch.from_numpy(vectors))
        embeddings.position_embeddings.weight.zero_()
        embeddings.token_type_embeddings.weight.zero_()
        embeddings.LayerNorm.weight.fill_(LINEAR**0.5)
    with quiet():
        model.eval().save_pretrained(folder)
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=config.max_position_embeddings,
            pad_token="[PAD]",
            unk_token="[UNK]",
        ).save_pretrained(folder)


def trained_tokenizer(lines: list[str]) -> "Tokenizer":
    """The commonest words and pieces of words.

    The trainer of word pieces breaks ties by a hash that is another one in each process: of the
    same texts it makes a model that finds more one time, and less the next.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def word_vectors(texts: list[list[int]]) -> Floats:
    """A vector for each word: words that are seen together with the same words get similar ones.

    They are the strongest directions of how much oftener than by chance two words meet (positive
    pointwise mutual information).

    Args:
        texts: each as its words' numbers.
    """
    import torch

    counts = counted_together(texts)
    by_word = counts.sum(1, keepdims=True)
    by_chance = by_word * by_word.T / max(counts.sum(), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.nan_to_num(np.log(counts / by_chance), neginf=0.0, posinf=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        found = torch.svd_lowrank(torch.from_numpy(np.maximum(information, 0)), DIMENSIONS)
    vectors = (found[0] * found[1].sqrt()).numpy()
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    rarity = COMMON / (COMMON + by_word / max(counts.sum(), 1))
    weighted = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0) * rarity
    return np.ascontiguousarray(weighted, np.float32)


def counted_together(texts: list[list[int]]) -> Floats:
    """How often each word is seen near each other one."""
    pairs = [
        words[:-distance] * VOCABULARY + words[distance:]
        for words in (np.array(text, np.int64) for text in texts)
        for distance in range(1, WINDOW + 1)
    ]
    counts = np.bincount(np.concatenate(pairs), minlength=VOCABULARY**2)
    square = counts.reshape(VOCABULARY, VOCABULARY).astype(np.float32)
    return square + square.T
