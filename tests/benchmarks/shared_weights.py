"""Replicas on one node share one copy of the weights: the file's pages, mapped by each of them."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml

REPLICAS = (1, 4)
TEXTS = 80
READ = 0.8
"""Of the weights, by those who have used them: the vectors of words that no text has are not."""
MAPPING = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")
MB = 1_000_000


def measure(folder: Path) -> list[str]:
    """Resident memory of one replica and of four."""
    model = save_model(folder / "model")
    size = (model / "model.safetensors").stat().st_size
    found = {replicas: run(folder, model, replicas) for replicas in REPLICAS}
    lines = [
        f"BERT, {size / MB:,.0f} MB in float32, as safetensors; text embedding on CPU. Weights: "
        "pages of the file in the memory of replicas, each counted once (proportional set size). "
        "Other: what each replica has for itself, mostly torch and transformers.",
        "",
        "| replicas | that have used them | weights in memory | copies | other, each |",
        "| --- | --- | --- | --- | --- |",
    ]
    for replicas, processes in found.items():
        weights = sum(each["weights"] for each in processes)
        other = sum(each["private"] for each in processes) / len(processes)
        whole = sum(each["seen"] > READ * size for each in processes)
        lines.append(
            f"| {replicas} | {whole} | {weights / MB:,.0f} MB | {weights / size:.2f} | "
            f"{other / MB:,.0f} MB |"
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


def run(folder: Path, model: Path, replicas: int) -> list[dict[str, int]]:
    """One whole run; the replicas' memory when most of them had read the weights."""
    source = folder / "texts"
    source.mkdir(exist_ok=True)
    for number in range(TEXTS // 10):
        (source / f"{number:03d}.txt").write_text("one two three four\n" * 10)
    spec: dict[str, Any] = {
        "source": {"kind": "text", "path": str(source)},
        "model": {
            "kind": "huggingface",
            "task": "feature-extraction",
            "name_or_path": str(model),
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
    best: list[dict[str, int]] = []
    pause = threading.Event()
    while process.poll() is None:
        now = list(replicas_of(process.pid, str(model)))
        best = max(best, now, key=lambda each: sum(one["seen"] for one in each))
        pause.wait(1.0)
    assert process.returncode == 0
    assert len(best) == replicas, f"{len(best)} replicas were seen at once"
    return best


def replicas_of(pid: int, model: str) -> Iterator[dict[str, int]]:
    """Memory, in bytes, of each process below this one that has mapped the model's weights."""
    for process in psutil.Process(pid).children(recursive=True):
        try:
            lines = Path(f"/proc/{process.pid}/smaps").read_text().splitlines()
        except OSError:
            continue
        found = {"weights": 0, "seen": 0, "private": 0}
        is_model = False
        for line in lines:
            if MAPPING.match(line):
                is_model = line.endswith(f"{model}/model.safetensors")
                continue
            name, _, value = line.partition(":")
            if name == "Pss" and is_model:
                found["weights"] += int(value.split()[0]) * 1024
            elif name == "Rss" and is_model:
                found["seen"] += int(value.split()[0]) * 1024
            elif name == "Anonymous":
                found["private"] += int(value.split()[0]) * 1024
        if found["seen"]:
            yield found
