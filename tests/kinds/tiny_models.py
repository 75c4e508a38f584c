"""Models of a few thousand random weights, saved as people save theirs."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tests.kinds.declared import as_declared

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = list("abcdefghijklmnopqrst")
NLI = ("contradiction", "neutral", "entailment")
VOCABULARY = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
PROCESSORS: dict[str, dict[str, Any]] = {
    "stretched": {"size": {"height": 16, "width": 16}, "resample": 2},
    "bicubic": {"size": {"height": 16, "width": 16}, "resample": 3},
    "cropped": {
        "size": {"shortest_edge": 20},
        "resample": 2,
        "do_center_crop": True,
        "crop_size": {"height": 16, "width": 16},
    },
    "not-normalised": {"size": {"height": 16, "width": 16}, "resample": 2, "do_normalize": False},
    "lanczos": {"size": {"height": 16, "width": 16}, "resample": 1},
    "cut-out": {
        "size": {"height": 12, "width": 14},
        "resample": 2,
        "do_center_crop": True,
        "crop_size": {"height": 16, "width": 16},
    },
}
"""The last two are no plain resize and crop: the checkpoint's own processor does them."""


BERT_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}


def save_vit(folder: Path, processor: str = "stretched", width: int = 64) -> Any:
    """An image classifier for 16 x 16 pixels; 512 bytes for each of `width` are its weights."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    torch.manual_seed(0)
    config = ViTConfig(
        image_size=16,
        patch_size=4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=width,
        initializer_range=0.3,
        id2label={0: "cat", 1: "dog", 2: "owl", 3: "pig"},
        label2id={"cat": 0, "dog": 1, "owl": 2, "pig": 3},
    )
    mean, std = [0.48, 0.45, 0.41], [0.26, 0.25, 0.27]
    arguments = {"image_mean": mean, "image_std": std, **PROCESSORS[processor]}
    ViTImageProcessor(**arguments).save_pretrained(folder)
    return saved(ViTForImageClassification(config), folder)


def save_convnext(folder: Path) -> Any:
    """A convolutional network that makes embeddings of any image; its processor is its own."""
    import torch
    from transformers import ConvNextConfig, ConvNextImageProcessor, ConvNextModel

    torch.manual_seed(0)
    sizes = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 4}
    ConvNextImageProcessor(size={"shortest_edge": 32}).save_pretrained(folder)
    return saved(ConvNextModel(ConvNextConfig(**sizes, initializer_range=0.3)), folder)


def save_nli(folder: Path, names: tuple[str, ...] = NLI) -> Any:
    """A classifier of pairs, with such names for its classes."""
    model = save_bert(folder, len(names))
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: at for at, name in enumerate(names)}
    return saved(model, folder)


def save_bert(folder: Path, num_labels: int = 3) -> Any:
    """A text classifier."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        **BERT_SIZES,
        num_labels=num_labels,
    )
    tokenizer(with_pairs=True).save_pretrained(folder)
    return saved(BertForSequenceClassification(config), folder)


def save_gpt2(folder: Path) -> Any:
    """A text generator; like many, its tokenizer has no padding token."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(VOCABULARY),
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=64,
        bos_token_id=3,
        eos_token_id=3,
        initializer_range=0.5,
    )
    tokenizer(with_pairs=False).save_pretrained(folder)
    return saved(GPT2LMHeadModel(config), folder)


def tokenizer(with_pairs: bool) -> Any:
    """A tokenizer that knows single letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    letters.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens = {"unk_token": "[UNK]", "eos_token": "[SEP]", "model_max_length": 64}
    if with_pairs:
        letters.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
        names = ["input_ids", "token_type_ids", "attention_mask"]
        tokens |= {"pad_token": "[PAD]", "cls_token": "[CLS]", "model_input_names": names}
    return PreTrainedTokenizerFast(tokenizer_object=letters, **tokens)


def saved(model: Any, folder: Path) -> Any:
    """The model, saved and ready."""
    model.eval().save_pretrained(folder)
    return model


def images(count: int) -> list[np.ndarray]:
    """Smooth pictures of many sizes and shapes."""
    random = np.random.default_rng(0)
    made = []
    for _ in range(count):
        small = Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        width, height = random.integers(5, 90, 2).tolist()
        made.append(np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)))
    return made


def noise(*shapes: tuple[int, int]) -> list[np.ndarray]:
    """Pictures with the sharpest edges there are."""
    random = np.random.default_rng(1)
    return [random.integers(0, 2, (*shape, 3), dtype=np.uint8) * 255 for shape in shapes]


def png(image: np.ndarray) -> bytes:
    """Encoded without loss."""
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


def hollow_texts_model(folder: Path, size: int) -> dict[str, Any]:
    """A spec's model whose weights only seem to be of so many bytes: what is planned goes by it."""
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(size)
    task = "feature-extraction"
    return {"kind": "huggingface", "task": task, "name_or_path": str(folder)}


def save_images(folder: Path, count: int) -> list[bytes]:
    """A new folder of PNG files, and what is in them, by name."""
    folder.mkdir()
    files = [png(each) for each in images(count)]
    for number, each in enumerate(files):
        (folder / f"{number:02d}.png").write_bytes(each)
    return files


def texts(count: int, longest: int = 90) -> list[str]:
    """Texts of many lengths; some are longer than the models can read."""
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, random.integers(1, longest))) for _ in range(count)]


def rows_of(name: str, values: Any) -> pa.Table:
    """A column, with row ids."""
    return pa.table({ROW: pa.array(range(7, 7 + len(values)), pa.int64()), name: values})


def predicted(
    folder: Path, task: str, rows: pa.Table, batch_size: int | None = None, **options: Any
) -> pa.Table:
    """What the kind makes of rows."""
    given = {"task": task, "name_or_path": str(folder), "options": options}
    model = HuggingFaceModel.model_validate(given)
    model.check()
    made = model.predictor(Placement(batch_size=batch_size))(model.preprocessor()(rows))
    return as_declared(model, rows, made)
