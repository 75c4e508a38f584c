"""Language models say of each row what they say outside, for the price of asking once.

Over HTTP the server is real and its model is not; of vLLM's engine there is a stand-in only: what
it takes is compared with vLLM itself by the test marked `gpu` in tests/kinds/test_vllm.py.
"""

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image, ImageColor
from pydantic import BaseModel

from flows.testing import RunSpec
from tasks.errors import BatchInferenceError
from tasks.spec_file import load_spec
from tests.kinds.tiny_writers import save_chatting_gpt2
from tests.kinds.vllm_stand_in import vllm_stand_in
from tests.llm_server import MODEL, LlmServer, Said, error, llm_server, writing

SPEC = "deployments/specs/http-llm.yaml"
KEY = "sk-live-0123456789abcdef"
TICKETS = [f"ticket {n}: it broke " + "again " * (n % 5) for n in range(40)]
ROWS: list[Any] = [{"ticket_id": n, "ticket": each} for n, each in enumerate(TICKETS)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LlmServer]:
    monkeypatch.setenv("LLM_API_KEY", KEY)
    with llm_server() as told:
        told.key = KEY
        yield told


def at(server: LlmServer) -> tuple[str, ...]:
    return f"model.url={server.url}", f"model.model={MODEL}"


def by_hand(server: LlmServer, ticket: str) -> str:
    """What the server says when it is asked as its manual has it, one ticket at a time."""
    spec = load_spec(SPEC).model.model_dump()
    messages = [
        {"role": "system", "content": spec["system_prompt"]},
        {"role": "user", "content": ticket},
    ]
    body = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 120}
    url, headers = f"{server.url}/chat/completions", {"Authorization": f"Bearer {KEY}"}
    reply = httpx.post(url, json=body, headers=headers).json()
    return str(reply["choices"][0]["message"]["content"])


def hold(folder: Path, text: str) -> list[Path]:
    """Files with a text in them."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert files
    return [each for each in files if text.encode() in each.read_bytes()]


@pytest.mark.prefect
def test_tickets(run_spec: RunSpec, server: LlmServer, tmp_path: Path) -> None:
    server.behave = lambda texts, before: (
        error(400, "the prompt is too long") if texts == [TICKETS[7]] else None
    )
    budget = "errors.max_rejected_fraction=0.1"
    done = run_spec(SPEC, *at(server), budget, rows=ROWS)

    assert done.table.column_names[:2] == ["ticket_id", "generated_text"]
    assert [each["row"] for each in done.set_aside] == [7]
    assert "400 the prompt is too long" in done.set_aside[0]["error_message"]
    asked = dict(server.texts)
    kept = [each for each in ROWS if each["ticket_id"] != 7]
    assert done.table["ticket_id"].to_pylist() == [each["ticket_id"] for each in kept]
    expected = [by_hand(server, each["ticket"]) for each in kept]
    assert done.table["generated_text"].to_pylist() == expected
    assert asked == dict.fromkeys(TICKETS, 1)
    assert load_spec(SPEC).resources.num_gpus == 0, "auto takes none: the server has them"


@pytest.mark.prefect
def test_tickets_become_columns(run_spec: RunSpec, server: LlmServer) -> None:
    triage = "deployments/specs/ticket-triage.yaml"
    topics = ["billing", "bug", "other"]
    rows: list[Any] = [{**each, "product": f"mug {each['ticket_id'] % 7}"} for each in ROWS]
    rows[5] |= {"product": None}
    numbers = {str(each["ticket"]): each["ticket_id"] for each in rows}

    def said(texts: list[str], before: int) -> Said | None:
        found = [number for ticket, number in numbers.items() if f"\n\n{ticket}\n\n" in texts[0]]
        if not found:
            return None  # what `check` asks
        (number,) = found
        refund = None if number % 2 else number / 4
        answer = {"topic": topics[number % 3], "urgent": number % 5 == 0, "refund": refund}
        content = "It is a bug." if number == 9 else json.dumps(answer)
        return writing({"prompt": texts[0]}, {"message": {"content": content}})

    server.behave = said
    budget = "errors.max_rejected_fraction=0.1"
    done = run_spec(triage, *at(server), budget, rows=rows)

    assert {each["row"]: each["error_message"].split(":")[0] for each in done.set_aside} == {
        5: "column 'product' is empty in this row, but the template uses it",
        9: "the answer is not JSON, Expecting value",
    }
    kept = [n for n in range(40) if n not in (5, 9)]
    found = done.table.select(["ticket_id", "topic", "urgent", "refund"])
    expected = [(n, topics[n % 3], n % 5 == 0, None if n % 2 else n / 4) for n in kept]
    assert [tuple(each.values()) for each in found.to_pylist()] == expected
    assert [str(each.type) for each in found.schema][1:] == ["string", "bool", "double"]
    first = "A customer of the product mug 0 writes:\n\nticket 0: it broke"
    assert sum(text.startswith(first) for text in server.texts) == 1
    assert set(server.texts.values()) == {1}, "a bad answer is paid for once"


@pytest.mark.prefect
def test_images_are_described(run_spec: RunSpec, server: LlmServer, tmp_path: Path) -> None:
    colors = ["red", "lime", "blue"]
    files = []
    for number, color in enumerate(colors):
        files.append(tmp_path / f"{color}.png")
        Image.new("RGB", (30 + number, 20), color).save(files[-1])
    (tmp_path / "torn.png").write_bytes(b"")

    def said(texts: list[str], before: int) -> Said | None:
        url = re.search(r"base64,([^']+)", texts[0])
        if url is None:
            return None  # what `check` asks
        with Image.open(io.BytesIO(base64.b64decode(url[1]))) as image:
            answer = {"caption": str(image.size), "color": str(image.getpixel((0, 0)))}
        content = json.dumps({**answer, "usable": True})
        return writing({"prompt": ""}, {"message": {"content": content}})

    server.behave = said
    fields = f"source.path={tmp_path}/*.png", "errors.max_rejected_fraction=0.3"
    done = run_spec("deployments/specs/image-captions.yaml", *at(server), *fields)

    assert [each["source"] for each in done.set_aside] == [str(tmp_path / "torn.png")]
    found = sorted(done.table.select(["path", "caption", "color"]).to_pylist(), key=str)
    pixels = {color: str(ImageColor.getrgb(color)) for color in colors}
    assert found == [
        {"path": str(file), "caption": f"({30 + n}, 20)", "color": pixels[colors[n]]}
        for n, file in sorted(enumerate(files), key=lambda each: str(each[1]))
    ]
    assert "image" not in done.table.column_names


class Customer(BaseModel):
    name: str


class Ticket(BaseModel):
    customer: Customer
    others: list[Customer] = []


@pytest.mark.prefect
def test_a_schema_of_models_within_models(run_spec: RunSpec, server: LlmServer) -> None:
    """Pydantic names them by "$ref", as Prefect does its blocks."""
    answer = {"customer": {"name": "A"}, "others": [{"name": "B"}]}
    server.behave = lambda texts, before: writing(
        {"prompt": texts[0]}, {"message": {"content": json.dumps(answer)}}
    )
    schema = f"model.answer_schema={json.dumps(Ticket.model_json_schema())}"
    done = run_spec(SPEC, *at(server), schema, rows=ROWS[:3])
    assert done.table.select(["customer", "others"]).to_pylist() == [answer] * 3


@pytest.mark.prefect
def test_what_is_recorded_is_not_asked_for_again(
    run_spec: RunSpec,
    server: LlmServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tickets.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    source = f"source={{kind: jsonl, path: {tmp_path / 'tickets.jsonl'}}}"
    few = ("stages.read.rows_per_batch=8", "model.concurrency=4", "model.max_retries=0")
    server.behave = lambda texts, before: (
        error(500, f"no memory for {KEY}") if before >= 20 else None
    )
    with pytest.raises(BatchInferenceError, match=r"500 no memory for \*\*\*") as failed:
        run_spec(SPEC, source, *at(server), *few)
    recorded = TICKETS[:16]
    first = len(server.bodies)
    assert server.texts.keys() >= set(recorded)

    server.behave = lambda texts, before: None
    done = run_spec(SPEC, source, *at(server), "model.concurrency=2", "model.timeout_seconds=30")
    assert done.report["resumed_rows"] == 16, "another pace makes no other run"
    assert done.table["ticket_id"].to_pylist() == list(range(40))
    assert all(server.texts[each] == 1 for each in recorded)
    assert len(server.bodies) - first == 24
    tickets = sum(server.texts[each] for each in TICKETS)
    assert tickets <= 40 + 8, "a failure costs a batch at most"

    said = caplog.text + "".join(capfd.readouterr()) + repr(failed.getrepr()) + done.page
    assert KEY not in said + json.dumps(done.report)
    assert not hold(tmp_path, KEY)


@pytest.mark.prefect
def test_tickets_on_ones_own_gpus(run_spec: RunSpec, tmp_path: Path) -> None:
    save_chatting_gpt2(tmp_path / "model")
    changes = (
        f"model.name_or_path={tmp_path / 'model'}",
        "model.engine_kwargs={max_model_len: 100}",
        "errors.max_rejected_fraction=0.1",
    )
    rows = [{**ROWS[0], "ticket": "too long " * 20}, *ROWS[1:]]
    with vllm_stand_in() as engine:
        done = run_spec("deployments/specs/vllm.yaml", *changes, rows=rows)
    assert [each["row"] for each in done.set_aside] == [0]
    assert "longer than the maximum model length" in done.set_aside[0]["error_message"]
    asked = [f"Summarise the ticket in one sentence.|{each}" for each in TICKETS[1:]]
    assert engine.made[0].ran == [asked], "all of them at once"
    assert done.table["ticket_id"].to_pylist() == list(range(1, 40))
    assert done.table["generated_text"].to_pylist() == [each[::-1] for each in asked]
