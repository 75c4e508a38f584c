"""How close the Hugging Face kind comes to the model alone, on this machine's device.

    python -m tests.benchmarks.gpu_models            # on a GPU
    python -m tests.benchmarks.gpu_models --tiny     # anywhere: shows that it runs, no more

Needs torch and transformers, neither Ray nor Prefect; downloads nothing: the weights are random.
The model-only loop has its batches ready on the device; each kind's predictor starts from Arrow
rows as the preprocessing left them, so many at a time as a replica gets in one piece at most. A
ratio of 1 means that nothing is lost.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.checkpoint import torch_dtype
from tasks.kinds.models.model import Function, Model, Placement
from tasks.kinds.models.runtimes.running import seconds_of
from tasks.kinds.models.runtimes.runtime_used import Runtime, RuntimeLog
from tasks.kinds.models.torch_threads import torch_threads
from tasks.kinds.models.vision.pixels import images_per_batch
from tests.benchmarks import random_models
from tests.benchmarks.random_models import Sizes

Loop = Callable[[], Any]
Make = Callable[[Path, Placement, Sizes], "Case"]


@dataclass(frozen=True)
class Case:
    """One model: our predictor, and the model alone on the same work."""

    name: str
    unit: str
    units: int
    ours: Loop
    alone: Loop


def main() -> None:
    """Time each model and print a line for it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tiny", action="store_true", help="tiny models, few rows")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="of torch on a CPU; 0: its choice")
    given = parser.parse_args()
    import torch

    cuda = torch.cuda.is_available()
    placement = Placement("cuda" if cuda else "cpu", given.threads or torch.get_num_threads())
    print(torch.cuda.get_device_name() if cuda else "CPU", torch_dtype(placement), sep=", ")
    sizes = Sizes.tiny() if given.tiny else Sizes.base()
    with tempfile.TemporaryDirectory() as folder, torch_threads(placement.num_threads):
        compiled = partial(images, runtime="compile")
        makes: list[Make] = [images, compiled, texts, generation]
        for make in makes:
            if cuda or make is not compiled:
                report(make(Path(folder), placement, sizes), given.repeats)


def report(case: Case, repeats: int) -> None:
    """Time both loops in turn, so that both see the same machine."""
    import torch

    ours, alone = [], []
    for _ in range(repeats + 1):
        with torch.inference_mode():
            ours.append(seconds_of(case.ours))
            alone.append(seconds_of(case.alone))
    # The first of each warms up.
    mine, model = statistics.median(ours[1:]), statistics.median(alone[1:])
    print(
        f"{case.name}: {case.units / mine:,.0f} {case.unit}/s, model alone "
        f"{case.units / model:,.0f}; ratio {model / mine:.2f} (median of {repeats})"
    )


def pieces(kind: Model, rows: pa.Table) -> list[pa.Table]:
    """Rows as they come to a replica."""
    size = kind.rows_per_batch
    return [rows.slice(first, size) for first in range(0, len(rows), size)]


def in_pieces(kind: Model, predict: Function, rows: pa.Table) -> Loop:
    """What a replica does with rows."""
    return lambda: [predict(each) for each in pieces(kind, rows)]


def images(folder: Path, placement: Placement, sizes: Sizes, runtime: Runtime = "eager") -> Case:
    """Image classification; the model alone gets normalised floats, and is not compiled."""
    import torch

    random_models.save_vit(folder / "vit", sizes)
    kind = HuggingFaceModel(
        task="image-classification", name_or_path=str(folder / "vit"), runtime=runtime
    )
    placement = replace(placement, runtimes=RuntimeLog())
    predict = kind.predictor(placement)
    shape = (sizes.num_images, 3 * sizes.image_size**2)
    flat = pa.array(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8).ravel())
    pixels = pa.FixedSizeListArray.from_arrays(flat, shape[1])
    rows = pa.table({"__row": np.arange(len(pixels)), "__pixels": pixels})
    model = kind.checkpoint.model("AutoModelForImageClassification", placement)
    size = images_per_batch(placement.device)
    side = sizes.image_size
    batch = torch.rand(size, 3, side, side, device=placement.device, dtype=torch_dtype(placement))
    batches = len(pixels) // size
    predict(rows.slice(0, size))  # says what it runs on
    (used,) = placement.runtimes.told
    return Case(
        f"ViT, images, {used.used}" + (f" ({used.problem})" if used.problem else ""),
        "images",
        len(pixels),
        in_pieces(kind, predict, rows),
        lambda: [model(pixel_values=batch).logits for _ in range(batches)][-1].cpu(),
    )


def texts(folder: Path, placement: Placement, sizes: Sizes) -> Case:
    """Text embeddings; the model alone gets the same batches, padded and on the device."""
    from tasks.kinds.models.hf.text import TextInputs

    random_models.save_bert(folder / "bert", sizes)
    kind = HuggingFaceModel(task="feature-extraction", name_or_path=str(folder / "bert"))
    predict = kind.predictor(placement)
    rows = random_models.token_rows(sizes.num_texts, sizes.longest_text, sizes.vocabulary)
    model = kind.checkpoint.model("AutoModel", placement)
    inputs = TextInputs(kind.checkpoint.tokenizer(), placement)
    ready = [arguments for piece in pieces(kind, rows) for _, arguments in inputs.batches(piece)]
    return Case(
        "BERT, text embeddings",
        "tokens",
        random_models.num_tokens(rows),
        in_pieces(kind, predict, rows),
        lambda: [model(**arguments).last_hidden_state for arguments in ready][-1].cpu(),
    )


def generation(folder: Path, placement: Placement, sizes: Sizes) -> Case:
    """Greedy generation; the model alone gets the prompts in the order they come, padded."""
    from tasks.kinds.models.hf.generation import PROMPTS_PER_BATCH_ON_GPU as size
    from tasks.kinds.models.hf.ragged import Ragged
    from tasks.kinds.models.hf.text import TOKENS, TextInputs

    random_models.save_gpt2(folder / "gpt2", sizes)
    kind = HuggingFaceModel(
        task="text-generation",
        name_or_path=str(folder / "gpt2"),
        options={"max_new_tokens": sizes.num_new_tokens},
    )
    predict = kind.predictor(placement)
    rows = random_models.token_rows(sizes.num_prompts, sizes.longest_prompt, sizes.vocabulary)
    model = kind.checkpoint.model("AutoModelForCausalLM", placement)
    inputs = TextInputs(kind.checkpoint.tokenizer(), placement)
    inputs.left = True
    tokens = Ragged(rows[TOKENS])
    ready = [
        inputs.arguments(tokens, np.arange(start, min(start + size, len(rows))))
        for start in range(0, len(rows), size)
    ]
    settings = {"max_new_tokens": sizes.num_new_tokens, "do_sample": False, "pad_token_id": 0}
    return Case(
        "GPT-2, generation",
        "new tokens",
        len(rows) * sizes.num_new_tokens,
        in_pieces(kind, predict, rows),
        lambda: [model.generate(**arguments, **settings) for arguments in ready],
    )


if __name__ == "__main__":
    main()
