"""How close the vllm kind comes to vLLM alone, which gets all prompts in one call.

    python -m tests.benchmarks.gpu_vllm               # on a GPU, with vLLM
    python -m tests.benchmarks.gpu_vllm --stand-in    # anywhere: shows that it runs, no more

Downloads nothing: a GPT-2 of random weights that never stops by itself. Both share one engine. A
ratio of 1 means that nothing is lost; one prompt in a hundred is too long, so that the kind sets
rows aside while vLLM alone is given the others only.
"""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models import VllmModel
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tests.benchmarks import random_models
from tests.benchmarks.gpu_models import Case, report
from tests.benchmarks.random_models import Sizes
from tests.kinds.vllm_stand_in import vllm_stand_in

TOO_LONG = 5_000
NEW_TOKENS = 64


def main() -> None:
    """Time both and print a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--stand-in", action="store_true", help="in vLLM's place, few rows")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4_000)
    given = parser.parse_args()
    sizes = Sizes.tiny() if given.stand_in else Sizes.base()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if given.stand_in:
            stack.enter_context(vllm_stand_in())
        report(case(Path(folder), sizes, 200 if given.stand_in else given.rows), given.repeats)


def case(folder: Path, sizes: Sizes, count: int) -> Case:
    """Generation from texts of random lengths."""
    random_models.save_gpt2(folder, sizes)
    kind = VllmModel(
        name_or_path=str(folder),
        task="generate",
        options={"max_tokens": NEW_TOKENS},
        engine_kwargs={"max_model_len": 1_024},
    )
    engine = kind.engine(Placement("cuda"))
    random = np.random.default_rng(0)
    lengths = random.integers(4, sizes.longest_prompt, count)
    lengths[::100] = TOO_LONG
    texts = [text_of(random, length, sizes) for length in lengths]
    good = [text for text, length in zip(texts, lengths, strict=True) if length < TOO_LONG]
    return Case(
        "GPT-2, generation with vLLM",
        "new tokens",
        len(good) * NEW_TOKENS,
        lambda: ours(kind, engine, texts, len(good)),
        lambda: engine.llm.generate(good, engine.parameters((0, 0)), use_tqdm=False),
    )


def text_of(random: np.random.Generator, length: int, sizes: Sizes) -> str:
    """A text of so many words."""
    return " ".join(f"w{n}" for n in random.integers(1, sizes.vocabulary, length))


def ours(kind: VllmModel, engine: Any, texts: list[str], good: int) -> None:
    """All rows through the kind, in batches of its size, as a replica calls it."""
    predict = kind.predict_with(engine)
    size = kind.batch_size or len(texts)
    done = 0
    for start in range(0, len(texts), size):
        part = texts[start : start + size]
        ids = np.arange(start, start + len(part))
        outcome = call_with_blame(predict, pa.table({ROW: ids, "prompt": part}))
        done += len(outcome.rows) if outcome.rows is not None else 0
    assert done == good


if __name__ == "__main__":
    main()
