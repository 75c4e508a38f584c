"""The http kind asks each row once, waits where it must, and knows whose fault it is."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from tasks.errors import InvalidSpec, Unreachable
from tasks.faked import faked
from tasks.kinds.models import HttpModel
from tasks.kinds.models.llm import endpoint, rate_limit
from tasks.kinds.models.llm.reply_outcomes import seconds_to_wait
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tests.llm_server import CUT, MODEL, LlmServer, Said, answer_to, error, llm_server, vector_of

KEY = "sk-live-0123456789abcdef"


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as told:
        yield told


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_BACKOFF_SECONDS", 0.01)


def model_of(server: LlmServer, **fields: Any) -> HttpModel:
    return HttpModel.model_validate({"url": server.url, "model": MODEL, **fields})


def rows_of(values: list[Any], column: str = "prompt") -> pa.Table:
    return pa.table({ROW: pa.array(range(len(values)), pa.int64()), column: values})


def asked(server: LlmServer, values: list[Any], **fields: Any) -> pa.Table:
    model = model_of(server, **fields)
    return model.predictor(Placement())(rows_of(values, model.input_column))


def words(count: int) -> list[str]:
    return [f"word {n}" for n in range(count)]


def test_the_servers_precision_is_its_own(server: LlmServer) -> None:
    said = r"resources\.dtype: 'float16' is not possible: the server sets .* leave it auto"
    with pytest.raises(InvalidSpec, match=said):
        model_of(server).predictor(Placement(dtype="float16"))


def test_answers_come_in_the_rows_order(server: LlmServer) -> None:
    server.behave = lambda texts, before: time.sleep(0.02 * (before % 3 == 0))
    made = asked(server, words(40), concurrency=8)
    assert made["generated_text"].to_pylist() == [answer_to(each) for each in words(40)]
    assert made["prompt_tokens"].to_pylist() == [len(each) for each in words(40)]
    assert set(made["completion_tokens"].to_pylist()) == {7}
    assert set(made["finish_reason"].to_pylist()) == {"stop"}
    assert set(made["served_model"].to_pylist()) == {f"{MODEL}-2026-01-31"}
    assert set(made["system_fingerprint"].to_pylist()) == {"fp_1"}
    assert len(server.bodies) == 40
    assert tuple(made.column_names[2:]) == model_of(server).output_columns


@pytest.mark.parametrize("task", ["chat", "embedding"])
def test_a_fake_makes_the_same_columns(server: LlmServer, task: str) -> None:
    model = model_of(server, task=task)
    rows = rows_of(["a", "b"], model.input_column)
    real, fake = (
        each.predictor(Placement())(rows).select([*model.output_columns])
        for each in (model, faked(model, width=6))
    )
    assert fake.schema == real.schema


def test_as_many_are_in_flight_as_the_spec_says(server: LlmServer) -> None:
    together = threading.Barrier(6, timeout=30)

    def behave(texts: list[str], before: int) -> None:
        together.wait()

    server.behave, server.delay_seconds = behave, 0.05
    asked(server, words(24), concurrency=6)
    assert server.most_in_flight == 6


def test_a_chat_is_sent_as_it_is_with_options(server: LlmServer) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]
    talks = [
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        [{"role": "system", "content": "mine"}, {"role": "user", "content": "c", "name": "eva"}],
    ]
    options = {
        "temperature": 0,
        "stop": ["END"],
        "response_format": {"type": "json_object"},
        "extra_body": {"max_completion_tokens": 5},
    }
    asked(server, talks, system_prompt="be brief", options=options, concurrency=1)
    asked(server, [[{"role": "user", "content": parts}]], concurrency=1)
    extra = {"temperature": 0, "stop": ["END"], "response_format": {"type": "json_object"}}
    system = {"role": "system", "content": "be brief"}
    assert server.bodies == [
        {"model": MODEL, "messages": [system, *talks[0]], **extra, "max_completion_tokens": 5},
        {"model": MODEL, "messages": talks[1], **extra, "max_completion_tokens": 5},
        {"model": MODEL, "messages": [{"role": "user", "content": parts}]},
    ]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_talk_that_says_first_what_the_model_is_is_sent_as_it_is(
    server: LlmServer, role: str
) -> None:
    talk = [{"role": role, "content": "mine"}, {"role": "user", "content": "c"}]
    asked(server, [talk], system_prompt="be brief")
    assert [each["messages"] for each in server.bodies] == [talk]


def test_a_message_that_calls_a_tool_has_no_words(server: LlmServer) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "time", "arguments": "{}"}}
    talk = [
        {"role": "user", "content": "how late is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "noon", "tool_call_id": "1"},
    ]
    silent = [{"role": "assistant", "content": None}]
    outcome = call_with_blame(model_of(server).predictor(Placement()), rows_of([talk, silent]))
    assert list(outcome.failed) == [1]
    sent = {"role": "assistant", "tool_calls": [call]}
    assert [each["messages"] for each in server.bodies] == [[talk[0], sent, talk[2]]]


def test_a_completion(server: LlmServer) -> None:
    made = asked(server, ["a", "b"], task="completion", options={"max_tokens": 3})
    assert made["generated_text"].to_pylist() == ["a (1)", "b (1)"]
    assert {"model": MODEL, "prompt": "a", "max_tokens": 3} in server.bodies


def test_texts_travel_together_and_get_their_own_vectors(server: LlmServer) -> None:
    made = asked(server, words(20), task="embedding", texts_per_request=8, concurrency=2)
    assert made["embedding"].type == pa.list_(pa.float32(), 6)
    expected = np.asarray([vector_of(each) for each in words(20)], np.float32)
    np.testing.assert_array_equal(np.stack(made["embedding"].to_pylist()), expected)
    assert sorted(len(each["input"]) for each in server.bodies) == [4, 8, 8]
    assert model_of(server, task="embedding").rows_per_call == 4 * 16 * 32


def test_vectors_go_by_their_index_or_not_at_all(server: LlmServer) -> None:
    def saying(index: Callable[[int], Any], wrap: Callable[[Any], Any] = lambda each: each) -> None:
        def behave(texts: list[str], before: int) -> Said:
            data = [
                {"index": index(at), "embedding": wrap(vector_of(each))}
                for at, each in enumerate(texts)
            ]
            return Said(200, {"data": data[::-1]})

        server.behave = behave

    expected = np.asarray([vector_of(each) for each in words(12)], np.float32)
    for numbering in (int, str, lambda at: at + 1):
        saying(numbering)
        made = asked(server, words(12), task="embedding")
        np.testing.assert_array_equal(np.stack(made["embedding"].to_pylist()), expected)
    saying(lambda at: 0)
    with pytest.raises(Unreachable, match=r"same index for 12 .* model\.texts_per_request to 1"):
        asked(server, words(12), task="embedding", max_retries=1)
    made = asked(server, words(12), task="embedding", texts_per_request=1)
    np.testing.assert_array_equal(np.stack(made["embedding"].to_pylist()), expected)
    saying(int, lambda vector: [vector])
    with pytest.raises(
        ValueError, match="a list of vectors for this row: configure it to pool them"
    ):
        asked(server, ["a"], task="embedding")


@pytest.mark.parametrize("task", ["chat", "embedding"])
def test_a_row_that_is_refused_costs_the_others_nothing(server: LlmServer, task: str) -> None:
    texts = words(64)
    bad = {texts[5], texts[33]}
    too_long = error(400, "maximum context length is 8192 tokens", "context_length_exceeded")
    server.behave = lambda texts, before: too_long if bad & set(texts) else None
    model = model_of(server, task=task)
    outcome = call_with_blame(model.predictor(Placement()), rows_of(texts, model.input_column))
    assert outcome.rows is not None
    assert sorted(outcome.failed) == [5, 33]
    assert "this row: 400 maximum context length is 8192 tokens" in str(outcome.failed[33])
    assert outcome.rows[ROW].to_pylist() == [n for n in range(64) if n not in (5, 33)]
    if task == "chat":
        assert set(server.texts.values()) == {1}, "nothing is asked twice"
    else:
        most = 2 * 64 / 32 + 2 * 2 * 5
        assert len(server.bodies) < most, "only halves of the requests with a bad text are repeated"


def test_a_row_of_more_tokens_than_a_minute_has_is_not_waited_for(server: LlmServer) -> None:
    """OpenAI says so with the status of a server that is asked too often."""
    alone = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 41000."
    large = error(429, alone, "rate_limit_exceeded")
    server.behave = lambda texts, before: large if "word 3" in texts else None
    outcome = call_with_blame(model_of(server).predictor(Placement()), rows_of(words(8)))
    assert list(outcome.failed) == [3]
    assert "refused this row: 429 Request too large" in str(outcome.failed[3])
    assert server.texts["word 3"] == 1


def test_children_of_one_row_have_answers_of_their_own(server: LlmServer) -> None:
    rows = pa.table({ROW: [1, 1, 2, 2], "prompt": ["a", "b", "same", "same"]})
    server.behave = lambda texts, before: error(400, "no") if texts == ["b"] else None
    outcome = call_with_blame(model_of(server).predictor(Placement()), rows)
    assert list(outcome.failed) == [1]
    assert outcome.rows is not None
    assert outcome.rows["generated_text"].to_pylist() == ["emas (4)", "emas (4)"]
    assert server.texts == {"a": 1, "b": 1, "same": 2}, "equal prompts are asked one by one"


def test_a_text_without_a_vector_is_set_aside_alone(server: LlmServer) -> None:
    def behave(texts: list[str], before: int) -> Said | None:
        vectors = [None if each == "word 2" else vector_of(each) for each in texts]
        data = [{"index": at, "embedding": each} for at, each in enumerate(vectors)]
        return Said(200, {"data": data})

    server.behave = behave
    predict = model_of(server, task="embedding").predictor(Placement())
    outcome = call_with_blame(predict, rows_of(words(8), "text"))
    assert {at: str(each) for at, each in outcome.failed.items()} == {
        2: "the server gave no list of numbers for this row"
    }


def test_rows_that_ask_nothing_are_set_aside_unasked(server: LlmServer) -> None:
    rows = rows_of([None, "", "ok"])
    outcome = call_with_blame(model_of(server).predictor(Placement()), rows)
    assert sorted(outcome.failed) == [0, 1]
    assert "'prompt' is empty in this row" in str(outcome.failed[0])
    assert server.texts == {"ok": 1}


def test_what_json_cannot_say_is_the_rows_fault(server: LlmServer) -> None:
    talks = [[{"role": "user", "content": "a", "weight": each}] for each in (1.0, float("nan"))]
    outcome = call_with_blame(model_of(server).predictor(Placement()), rows_of(talks))
    assert list(outcome.failed) == [1]
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"message": {"content": "half a"}, "finish_reason": "content_filter"}, "content filter"),
        ({"message": {"content": None, "refusal": "I cannot"}}, "the model refused: I cannot"),
        ({"message": {"content": None}, "finish_reason": "length"}, "no text; finish_reason is le"),
    ],
)
def test_an_answer_without_text_is_the_rows_fault(
    server: LlmServer, choice: dict[str, Any], reason: str
) -> None:
    server.behave = lambda texts, before: Said(200, {"choices": [choice]})
    with pytest.raises(ValueError, match=reason):
        asked(server, ["a"])
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    "bad",
    [
        error(500, "CUDA error"),
        error(429, "slow down"),
        error(503, "loading"),
        Said(200, b"<html>a proxy"),
        Said(200, {"choices": []}),
        Said(200, {"choices": [None]}),
        Said(200, {"choices": [{"message": "a"}]}),
        Said(200, {"choices": [{"message": {"content": "a"}}], "usage": [1]}),
        Said(200, b"[" * 100_000),
        CUT,
    ],
)
def test_what_passes_is_asked_again(server: LlmServer, bad: Said) -> None:
    server.behave = lambda texts, before: bad if before < 2 else None
    made = asked(server, ["a", "b", "c"], concurrency=2)
    assert made["generated_text"].to_pylist() == ["a (1)", "b (1)", "c (1)"]
    assert len(server.bodies) == 5


def test_a_slow_server_is_asked_again_and_then_given_up(server: LlmServer) -> None:
    server.delay_seconds = 0.3
    with pytest.raises(
        Unreachable, match=r"not answer within model.timeout_seconds 0.05 s \(after 2 tries"
    ):
        asked(server, ["a"], timeout_seconds=0.05, max_retries=1)


def test_a_server_that_stays_down_is_no_rows_fault(server: LlmServer) -> None:
    server.behave = lambda texts, before: error(500, "boom") if before >= 4 else None
    predict = model_of(server, concurrency=2, max_retries=2).predictor(Placement())
    with pytest.raises(Unreachable, match=r"answered 500 boom \(after 3 tries"):
        call_with_blame(predict, rows_of(words(200)))
    assert len(server.bodies) <= 4 + 2 * 3, "nobody goes on asking, nor in halves"


def test_a_server_that_sends_blank_lines_is_not_waited_for(server: LlmServer) -> None:
    server.blank_lines = 20
    with pytest.raises(Unreachable, match=r"not answer within model.timeout_seconds 0.2 s"):
        asked(server, ["a"], timeout_seconds=0.2, max_retries=0)


def test_waits_grow_also_where_the_server_names_a_short_one(server: LlmServer) -> None:
    server.behave = lambda texts, before: (
        error(429, "slow down", Retry_After="0.01") if before < 6 else None
    )
    asked(server, ["a"])
    assert server.times[-1] - server.times[0] > 0.3  # half of 10 to 320 ms


def test_what_a_request_fails_with_is_told_before_the_job_seems_to_stall(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "LONGEST_REQUEST_SECONDS", 0.5)
    server.delay_seconds = 0.4
    with pytest.raises(
        Unreachable, match=r"did not answer within model.timeout_seconds 0.2 s \(after [123] tries"
    ):
        asked(server, ["a"], timeout_seconds=0.2, max_retries=99)


@pytest.mark.parametrize("status", [403, 200])
def test_a_text_that_is_forbidden_is_set_aside_where_others_are_answered(
    server: LlmServer, status: int
) -> None:
    flagged = Said(status, {"error": {"code": 403, "message": "your input was flagged"}})
    server.behave = lambda texts, before: flagged if "word 3" in texts else None
    predict = model_of(server, concurrency=4).predictor(Placement())
    outcome = call_with_blame(predict, rows_of(words(20)))
    assert list(outcome.failed) == [3]
    assert "your input was flagged" in str(outcome.failed[3])


@pytest.mark.parametrize("task", ["chat", "embedding"])
def test_a_row_that_the_server_fails_on_is_set_aside_where_others_are_answered(
    server: LlmServer, task: str
) -> None:
    broken = error(500, "CUDA error")
    server.behave = lambda texts, before: broken if {"word 3", "word 8"} & set(texts) else None
    model = model_of(server, task=task, concurrency=4, texts_per_request=5, max_retries=4)
    rows = rows_of(words(20), model.input_column)
    outcome = call_with_blame(model.predictor(Placement()), rows)
    assert list(outcome.failed) == [3, 8]
    for each in outcome.failed.values():
        assert "the server answered 500 CUDA error, " in str(each)
        assert " times for this row, while it answered others" in str(each)
    assert server.texts["word 3"] <= 5 + 3 * 3, "three times for each time the request is halved"


def test_a_row_that_takes_too_long_is_set_aside_where_others_do_not(server: LlmServer) -> None:
    has_ended = threading.Event()

    def behave(texts: list[str], before: int) -> None:
        if "word 3" in texts:
            has_ended.wait(30)

    server.behave = behave
    predict = model_of(server, concurrency=4, timeout_seconds=1, max_retries=1)
    outcome = call_with_blame(predict.predictor(Placement()), rows_of(words(20)))
    has_ended.set()
    assert list(outcome.failed) == [3]
    assert "not answer within model.timeout_seconds 1 s, 2 times" in str(outcome.failed[3])


@pytest.mark.parametrize("status", [504, 524])
def test_a_row_for_which_a_gateway_does_not_wait_is_set_aside_where_others_are_answered(
    server: LlmServer, status: int
) -> None:
    """Else no run would ever come by it: gateways wait a minute or two, and no setting helps."""
    late = error(status, "the gateway waited for 60 s")
    server.behave = lambda texts, before: late if "word 3" in texts else None
    predict = model_of(server, concurrency=4, max_retries=2).predictor(Placement())
    outcome = call_with_blame(predict, rows_of(words(20)))
    assert list(outcome.failed) == [3]
    assert f"answered {status} the gateway waited for 60 s, 3 times" in str(outcome.failed[3])


@pytest.mark.parametrize(
    "said",
    [
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"message": {"content": "a"}, "finish_reason": "error"}]},
        b'{"choices": [{"message": {"content": "cut off by a gate',
    ],
)
def test_a_row_that_a_server_never_answers_properly_is_set_aside_where_others_are(
    server: LlmServer, said: Any
) -> None:
    """As some do where a filter stops a prompt."""
    server.behave = lambda texts, before: Said(200, said) if "word 3" in texts else None
    predict = model_of(server, concurrency=4, max_retries=2).predictor(Placement())
    outcome = call_with_blame(predict, rows_of(words(20)))
    assert list(outcome.failed) == [3]
    assert "3 times for this row, while it answered others" in str(outcome.failed[3])


def test_a_server_that_forgets_how_to_answer_sets_nothing_aside(server: LlmServer) -> None:
    """By the time that it is asked for the least."""
    server.behave = lambda texts, before: (
        Said(200, {"choices": []}) if {"word 3", "."} & {*texts} else None
    )
    predict = model_of(server, concurrency=4, max_retries=4).predictor(Placement())
    with pytest.raises(Unreachable, match="answered without one choice"):
        call_with_blame(predict, rows_of(words(15)))


def test_rows_that_are_late_together_are_no_fault_of_one(server: LlmServer) -> None:
    late = error(504, "too late")
    server.behave = lambda texts, before: late if "word 3" in texts else None
    fields = {"task": "embedding", "texts_per_request": 5, "concurrency": 4, "max_retries": 1}
    with pytest.raises(Unreachable, match=r"answered 504 too late \(after 2 tries"):
        asked(server, words(40), **fields)


def test_a_server_that_breaks_down_while_it_answers_sets_nothing_aside(server: LlmServer) -> None:
    """What it fails on at last was asked before it answered most others."""
    server.behave = lambda texts, before: (
        error(500, "the engine is dead") if before >= 16 or "word 3" in texts else None
    )
    predict = model_of(server, concurrency=4, max_retries=4).predictor(Placement())
    with pytest.raises(Unreachable, match="the engine is dead"):
        call_with_blame(predict, rows_of(words(15)))


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_server_that_is_busy_or_away_is_no_rows_fault(server: LlmServer, status: int) -> None:
    away = error(status, "not now")
    server.behave = lambda texts, before: away if "word 3" in texts else None
    with pytest.raises(Unreachable, match=rf"answered {status} not now \(after 3 tries"):
        asked(server, words(20), max_retries=2)


def test_a_key_that_is_forbidden_everything_is_no_rows_fault(server: LlmServer) -> None:
    server.behave = lambda texts, before: error(403, "not yours")
    with pytest.raises(InvalidSpec, match=r"answered 403 not yours; check model.api_key_env"):
        asked(server, words(4))


def test_a_key_that_is_revoked_meanwhile_is_no_rows_fault(server: LlmServer) -> None:
    server.behave = lambda texts, before: error(403, "revoked") if before >= 8 else None
    predict = model_of(server, concurrency=2).predictor(Placement())
    with pytest.raises(InvalidSpec, match=r"answered 403 revoked; check model.api_key_env"):
        call_with_blame(predict, rows_of(words(200)))
    assert len(server.bodies) <= 8 + 2 * 6, "each is asked about twice more, and the smallest"


def test_an_error_with_a_good_status_is_told(server: LlmServer) -> None:
    server.behave = lambda texts, before: Said(200, {"error": {"message": "no provider is up"}})
    with pytest.raises(Unreachable, match=r"answered 502 no provider is up \(after 2 tries"):
        asked(server, ["a"], max_retries=1)


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_the_server_gave_up_is_asked_for_again(
    server: LlmServer, reason: str
) -> None:
    half = {"choices": [{"message": {"content": "half a"}, "finish_reason": reason}]}
    server.behave = lambda texts, before: Said(200, half) if before < 1 else None
    assert asked(server, ["a"])["generated_text"].to_pylist() == ["a (1)"]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"model": 5, "system_fingerprint": 12}, (None, None, "5", "12")),
        ({"usage": {"prompt_tokens": "7", "completion_tokens": 2.0}}, (7, 2, None, None)),
        ({"usage": {"prompt_tokens": "?", "total_tokens": "many"}}, (None, None, None, None)),
        ({"usage": {"prompt_tokens": 3_000_000_000, "completion_tokens": -1}}, (None,) * 4),
    ],
)
def test_what_is_said_of_an_answer_does_not_make_it_worse(
    server: LlmServer, said: dict[str, Any], wanted: tuple[Any, ...]
) -> None:
    choice = {"message": {"content": "yes"}, "finish_reason": "stop"}
    server.behave = lambda texts, before: Said(200, {"choices": [choice], **said})
    made = asked(server, ["a"])
    assert made["generated_text"].to_pylist() == ["yes"]
    names = ("prompt_tokens", "completion_tokens", "served_model", "system_fingerprint")
    assert tuple(made[name][0].as_py() for name in names) == wanted


def test_what_an_answers_parts_say_is_its_text(server: LlmServer) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes, "},
        {"type": "text", "text": "it is"},
    ]
    said = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    server.behave = lambda texts, before: Said(200, said)
    assert asked(server, ["a"])["generated_text"].to_pylist() == ["yes, it is"]


def test_a_refusal_beside_an_empty_text_is_no_answer(server: LlmServer) -> None:
    said = {"choices": [{"message": {"content": "", "refusal": "I may not"}}]}
    server.behave = lambda texts, before: Said(200, said)
    outcome = call_with_blame(model_of(server).predictor(Placement()), rows_of(["a"]))
    assert "the model refused: I may not" in str(outcome.failed[0])


@pytest.mark.parametrize("extra", [{"n": 2}, {"stream": True}])
def test_several_answers_or_pieces_are_not_asked_for(
    server: LlmServer, extra: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError, match="leave out n and stream"):
        model_of(server, options={"extra_body": extra})


def test_a_call_of_few_tokens_a_minute_is_short(server: LlmServer) -> None:
    """Rows count as done when their call is, and ten minutes without one are too long."""
    assert model_of(server, concurrency=8).rows_per_call == 4 * 8
    assert model_of(server, concurrency=8, tokens_per_minute=30_000).rows_per_call == 8


def test_retry_after_is_kept_by_all_requests(server: LlmServer) -> None:
    server.behave = lambda texts, before: (
        error(429, "slow down", Retry_After="0.5") if before == 3 else None
    )
    asked(server, words(12), concurrency=1)
    gaps = np.diff(server.times)
    assert len(server.times) == 13
    assert gaps[3] >= 0.5
    assert np.median(gaps) < 0.25, "the next ones are not waited for as long"


@pytest.mark.parametrize("said", ["0", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_server_that_names_no_time_is_not_asked_again_at_once(
    server: LlmServer, said: str
) -> None:
    server.behave = lambda texts, before: (
        error(503, "busy", Retry_After=said) if before < 6 else None
    )
    asked(server, ["a"])
    assert server.times[-1] - server.times[0] > 0.3  # half of 10 to 320 ms


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_a_date_to_ask_again_at_is_by_the_servers_clock(
    monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + ahead)
    said = {"Retry-After": formatdate(now + 20, usegmt=True), "Date": formatdate(now, usegmt=True)}
    assert seconds_to_wait(httpx.Response(503, headers=said)) == 20
    del said["Date"]
    assert seconds_to_wait(httpx.Response(503, headers=said)) == pytest.approx(
        max(0, 20 - ahead), abs=1
    )


def test_a_wait_of_an_hour_is_not_waited_for(server: LlmServer) -> None:
    server.behave = lambda texts, before: error(429, "quota", Retry_After="3600")
    with pytest.raises(Unreachable, match="asks to wait for 3600 s"):
        asked(server, ["a"])
    assert len(server.bodies) == 1


class Turns:
    """A clock that stands still but where a request waits for its turn."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, until)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    turns = Turns()
    for module in ("time", "asyncio"):
        monkeypatch.setattr(rate_limit, module, turns)
    return turns


@pytest.mark.parametrize("concurrency", [1, 8])
def test_requests_are_spread_over_the_minute(
    server: LlmServer, turns: Turns, concurrency: int
) -> None:
    asked(server, words(13), requests_per_minute=1200, concurrency=concurrency)
    assert turns.now == pytest.approx(12 * 0.05)
    assert model_of(server, requests_per_minute=5).rows_per_call == 5


def test_after_a_pause_turns_are_as_far_apart_as_before(turns: Turns) -> None:
    """All that had waited began at once, and were too many for the server again."""
    pace, begun = rate_limit.Pace(60), []

    async def take() -> None:
        await pace.take()
        begun.append(turns.now)

    async def ask() -> None:
        waiting = [asyncio.create_task(take()) for _ in range(4)]
        await waiting[0]
        pace.pause(10)
        pace.pause(3)
        await asyncio.gather(*waiting[1:], take())

    asyncio.run(ask())
    assert begun == [0, 11, 12, 13, 14]


def test_tokens_are_counted_as_the_server_counts_them(server: LlmServer, turns: Turns) -> None:
    texts = ["x" * 93] * 9  # each costs 93 + 7 tokens, and is taken for about 50 before it is asked
    asked(server, texts, tokens_per_minute=60_000, concurrency=1)
    assert turns.now == pytest.approx(8 * 0.1)  # 8 x 100 tokens at 1,000 a second


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (error(401, "no such key"), "answered 401 no such key; see model.api_key_env"),
        (error(403, "not yours"), "answered 403 not yours"),
        (error(404, "no page"), "ends in /v1"),
        (error(301, "gone"), "it has moved: use its new address"),
        (error(410, "gone"), "see model.url$"),
        (error(429, "You exceeded your quota", "insufficient_quota"), "see the account"),
    ],
)
def test_what_no_row_survives_stops_at_once(server: LlmServer, bad: Said, problem: str) -> None:
    server.behave = lambda texts, before: bad
    with pytest.raises(InvalidSpec, match=problem):
        asked(server, words(500), concurrency=4)
    assert len(server.bodies) <= 3 * 4, "a 403 is asked about twice more"


@pytest.mark.parametrize("lists_models", [True, False])
def test_check_asks_for_the_model(server: LlmServer, lists_models: bool) -> None:
    server.lists_models = lists_models
    model_of(server).check()
    assert len(server.bodies) == (0 if lists_models else 1)
    listed = rf"; its models are {MODEL}$" if lists_models else "/v1$"
    missing = rf"model 'other' does not exist; check model\.model.*{listed}"
    with pytest.raises(InvalidSpec, match=missing):
        model_of(server, model="other").check()
    with pytest.raises(InvalidSpec, match="which for most servers ends in /v1"):
        model_of(server, url=server.url.removesuffix("/v1")).check()


def test_a_busy_server_passes_the_check_and_a_broken_one_does_not(server: LlmServer) -> None:
    server.lists_models = False
    server.behave = lambda texts, before: error(429, "slow down") if before == 0 else None
    model_of(server).check()
    server.behave = lambda texts, before: error(502, "bad gateway")
    with pytest.raises(Unreachable, match="answered 502 bad gateway"):
        model_of(server).check()


@pytest.mark.parametrize(
    "listed", [Said(200, [{"id": MODEL}]), Said(200, b"<html>"), Said(200, {"data": [MODEL]})]
)
def test_a_server_that_lists_its_models_otherwise_is_asked_for_a_word(
    server: LlmServer, listed: Said
) -> None:
    """As Together's does, which gives a list alone."""
    server.listed = listed
    model_of(server).check()
    assert len(server.bodies) == 1
    with pytest.raises(InvalidSpec, match=r"model 'other' does not exist; check model\.model"):
        model_of(server, model="other").check()


def test_check_finds_nobody(server: LlmServer) -> None:
    with pytest.raises(Unreachable, match="does not answer: ConnectError"):
        model_of(server, url="http://127.0.0.1:9/v1").check()


def test_a_key_comes_from_the_environment_and_goes_nowhere_else(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    model = model_of(server, api_key_env="LLM_KEY", headers_env={"X-Team": "TEAM"})
    with pytest.raises(InvalidSpec, match=r"api_key_env: 'LLM_KEY' is not set in the environment"):
        model.check()
    monkeypatch.setenv("LLM_KEY", f"{KEY}\n")  # as files have it
    with pytest.raises(InvalidSpec, match=r"headers_env.X-Team: 'TEAM' is not set"):
        model.check()
    monkeypatch.setenv("TEAM", "blue")
    model.check()
    model.predictor(Placement())(rows_of(["a"]))
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["X-Team"] == "blue"
    assert KEY not in repr(model.endpoint()) + model.model_dump_json() + model.fingerprint()


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_key_that_the_server_quotes_is_hidden(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("LLM_KEY", KEY)
    server.behave = lambda texts, before: error(status, f"the key {KEY} is bad")
    with pytest.raises(Exception, match=r"the key \*\*\* is bad") as raised:
        asked(server, ["a"], api_key_env="LLM_KEY", max_retries=0)
    server.key = "another"
    with pytest.raises(InvalidSpec, match=r"Incorrect API key provided: Bearer \*\*\*") as refused:
        model_of(server, api_key_env="LLM_KEY").check()
    assert KEY not in repr(raised.getrepr()) + repr(refused.getrepr())


def test_a_key_that_no_header_can_hold_is_not_shown(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_KEY", f"{KEY}\nand more")
    with pytest.raises(InvalidSpec, match="line breaks") as raised:
        model_of(server, api_key_env="LLM_KEY").check()
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"url": "https://me:secret@host/v1"}, "url.*put keys in model.api_key_env"),
        ({"url": "https://host/v1?key=secret"}, "url.*put keys in model.api_key_env"),
        ({"url": "localhost:8000/v1"}, "must name a server, such as http://localhost:8000/v1"),
        ({"url": "http://host:port/v1"}, "is not a URL: Port could not be cast"),
        ({"url": "http://[::1/v1"}, "is not a URL: Invalid IPv6"),
        ({"url": "http://a..b/v1"}, "is not a URL: .*label empty"),
        ({"url": "http://host/v1\x01"}, "has a space in it, or a line break or the like"),
        ({"url": "http://ho st/v1"}, "has a space in it"),
        ({"url": "https://host/v1/chat/completions/"}, "ends in chat/completions, which is added"),
        ({"task": "embedding", "system_prompt": "x"}, "is for chat, not embedding"),
        ({"task": "embedding", "options": {"seed": 1}}, "options.seed: 1 is for chat, compl"),
        ({"task": "completion", "options": {"response_format": {"a": 1}}}, "is for chat, not"),
        ({"options": {"dimensions": 8}}, "is for embedding, not chat"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=f"(?s){problem}"):
        HttpModel.model_validate({"url": "http://host/v1", "model": "m", **fields})


@pytest.mark.parametrize("name", ["api key", "api-key:", "", "clé"])
def test_what_no_header_is_called_is_refused(
    server: LlmServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server, which is there, was said not to answer."""
    monkeypatch.setenv("LLM_KEY", KEY)
    with pytest.raises(InvalidSpec, match=r"^model.headers_env: .* not a name that an HTTP header"):
        model_of(server, headers_env={name: "LLM_KEY"}).check()


def test_a_notebooks_event_loop_is_left_alone(server: LlmServer) -> None:
    import asyncio

    async def cell() -> pa.Table:
        return asked(server, ["a"])

    assert asyncio.run(cell())["generated_text"].to_pylist() == ["a (1)"]


@pytest.mark.parametrize("key", [KEY, "gsk_0123456789abcdef"])
@pytest.mark.parametrize("field", ["api_key_env", "headers_env"])
def test_a_key_in_the_place_of_a_variables_name_is_not_shown(
    server: LlmServer, field: str, key: str
) -> None:
    given: Any = key if field == "api_key_env" else {"api-key": key}
    with pytest.raises(InvalidSpec, match=rf"^model\.{field}.*environment") as raised:
        model_of(server, **{field: given}).check()
    assert key not in str(raised.value)
