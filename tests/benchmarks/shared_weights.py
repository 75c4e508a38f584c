"""Replicas on one node share one copy of the weights: the file's pages, mapped by each of them."""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from tests.kinds.memory import Memory, memory_of

REPLICAS = (1, 4)
TEXTS = 1_000
"""So many that the first replica is not done with them before the last has begun."""
READ = 0.8
"""Of the weights, by those who have used them: the vectors of words that no text has are not."""
MB = 1_000_000


def measure(folder: Path) -> list[str]:
    """Resident memory of one replica and of four, when all of them have used the weights."""
    model = save_model(folder / "model")
    weights = model / "model.safetensors"
    size = weights.stat().st_size
    found = {replicas: run(folder, weights, replicas) for replicas in REPLICAS}
    lines = [
        f"BERT, {size / MB:,.0f} MB in float32, as safetensors; text embedding on CPU. Weights: "
        "pages of the file in the memory of replicas, each counted once (proportional set size). "
        "Other: what each replica has for itself, mostly torch and transformers. Measured when all "
        "replicas have used the weights, and all live.",
        "",
        "| replicas | weights in memory | copies | other, each |",
        "| --- | --- | --- | --- |",
    ]
    for replicas, held in found.items():
        share = sum(each.share for each in held)
        other = sum(each.own for each in held) / replicas
        lines.append(
            f"| {replicas} | {share / MB:,.0f} MB | {share / size:.2f} | {other / MB:,.0f} MB |"
        )
    return lines


def save_model(folder: Path) -> Path:
    """A model of half a gigabyte with random weights, and a tokenizer of one word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    config = BertConfig(
        hidden_size=1024,
        num_hidden_layers=9,
        num_attention_heads=16,
        intermediate_size=4096,
        vocab_size=12_000,
    )
    BertModel(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=64
    )
    tokenizer.save_pretrained(folder)
    return folder


def run(folder: Path, weights: Path, replicas: int) -> list[Memory]:
    """One whole run; the replicas' memory as soon as all of them have read the weights."""
    source = folder / "texts"
    source.mkdir(exist_ok=True)
    for number in range(TEXTS // 10):
        (source / f"{number:03d}.txt").write_text("one two three four\n" * 10)
    spec: dict[str, Any] = {
        "source": {"kind": "text", "path": str(source)},
        "model": {
            "kind": "huggingface",
            "task": "feature-extraction",
            "name_or_path": str(weights.parent),
            "options": {"pooling": "mean", "normalize": False},
        },
        "sink": {"kind": "parquet", "path": str(folder / f"out-{replicas}")},
        "resources": {"num_cpus": 0.25, "min_replicas": replicas, "max_replicas": replicas},
        "stages": {"read": {"rows_per_batch": 5}},
        "cluster": {"kind": "local", "object_store_gb": 0.2},
    }
    file = folder / f"spec-{replicas}.yaml"
    file.write_text(yaml.safe_dump(spec))
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    held: list[Memory] = []
    pause = threading.Event()
    while process.poll() is None:
        if len(held) < replicas:
            held = max(held, users_of(process.pid, weights), key=len)
            if len(held) == replicas:  # again: the first look was long, and one read meanwhile
                held = users_of(process.pid, weights)
        pause.wait(1.0)
    assert process.returncode == 0
    assert len(held) == replicas, f"at most {len(held)} of {replicas} replicas had used the weights"
    return held


def users_of(pid: int, weights: Path) -> list[Memory]:
    """Memory of each process below this one that has predicted something with the weights."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(OSError):  # it is gone
            found.append(memory_of(process.pid, weights))
    return [each for each in found if each.seen > READ * weights.stat().st_size]
