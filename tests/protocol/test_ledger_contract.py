"""The ledger's contract, for the simulator's ledger and for Delta on a local disk."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, StaleLedger
from tasks.protocol import delta_ledger
from tasks.protocol.aws_options import aws_options
from tasks.protocol.delta_ledger import DeltaLedger, gathered_after
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.ledger import Entry, Ledger
from tasks.protocol.ledger_lines import LINE_SCHEMA, LedgerFile
from tasks.protocol.storage import open_storage
from tests.s3_server import S3
from tests.simulation.storage import Calm, PlainLedger, SimLedger

Open = Callable[[], Ledger]


@pytest.fixture(params=["simulated", "plain", "delta"])
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same ledger again and again, as processes do."""
    if request.param == "delta":
        return lambda: DeltaLedger(str(tmp_path / "out.state" / "ledger"))
    only = (SimLedger if request.param == "simulated" else PlainLedger)(Calm())
    return lambda: only


def file(path: str, ids: tuple[int, ...] = (0,), line: str = "file", run: str = "r") -> LedgerFile:
    return LedgerFile(path, f"{run}/staging/{path}", run, 10, IdRuns.of(as_ids(ids)), line)


def entry(key: str, *inputs: tuple[str, str, int], **more: Any) -> Entry:
    columns = list(zip(*inputs, strict=True)) or [(), (), ()]
    types = [pa.string(), pa.string(), pa.int64()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return Entry(key, f"run-{key}", pa.table(arrays, names=["path", "identity", "shard"]), **more)


def test_nothing_is_there_before_the_first_commit(open_ledger: Open) -> None:
    seen = open_ledger().look()
    assert (seen.version, len(seen.lines)) == (0, 0)
    assert seen.lines.schema == LINE_SCHEMA
    assert ({**seen.files}, {**seen.quarantine}, seen.entries, seen.base) == ({}, {}, {}, 0)


def test_look_shows_what_was_committed(open_ledger: Open) -> None:
    ledger = open_ledger()
    files = (file("part-1", (5, 5, 4)), file("quarantine/part-2", (6,), "quarantine"))
    made = entry("k1", ("a", "v1", 0), ("b", "v1", 1), files=files, details={"rows": 3})
    assert ledger.commit(made, ledger.look()) == 1
    seen = open_ledger().look()
    assert seen.version == 1
    assert seen.files["part-1"].ids.ids().tolist() == [5, 5, 4]
    assert seen.files["part-1"].staged == "r/staging/part-1"
    assert list(seen.quarantine) == ["quarantine/part-2"]
    expected = {"rows": 3, "run_key": "k1", "run_id": "run-k1", "replaces": False}
    assert seen.entries == {1: expected}
    assert sorted(seen.inputs["path"].to_pylist()) == ["a", "b"]
    assert (seen.version_of("k1"), seen.version_of("k2")) == (1, None)


def test_commit_on_what_is_no_longer_so_is_refused(open_ledger: Open) -> None:
    one, other = open_ledger(), open_ledger()
    before_one, before_other = one.look(), other.look()
    one.commit(entry("k1"), before_one)
    with pytest.raises(StaleLedger):
        other.commit(entry("k2"), before_other)
    assert list(open_ledger().look().entries) == [1]
    assert other.commit(entry("k2"), other.look()) == 2


def test_commit_on_an_older_version_is_refused(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.commit(entry("k1"), ledger.look())
    seen = ledger.look()
    ledger.commit(entry("k2"), seen)
    for _ in range(2):
        with pytest.raises(StaleLedger):
            ledger.commit(entry("k3"), seen)
    assert [e["run_key"] for e in open_ledger().look().entries.values()] == ["k1", "k2"]


def test_removed_files_are_gone(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.commit(entry("k1", files=(file("one"), file("two"))), ledger.look())
    ledger.commit(entry("k2", files=(file("three"),), removed=("one",)), ledger.look())
    seen = ledger.look()
    assert sorted(seen.files) == ["three", "two"]
    assert [dead.path for dead in seen.dead_since(0)] == ["one"]
    assert [dead.path for dead in seen.dead_since(1)] == ["one"]
    assert seen.dead_since(2) == []


def test_what_replaces_ends_all_before_it(open_ledger: Open) -> None:
    ledger = open_ledger()
    quarantine = file("quarantine/q", line="quarantine")
    ledger.commit(entry("k1", ("a", "v1", 0), files=(file("one"), quarantine)), ledger.look())
    ledger.commit(entry("k2", ("b", "v1", 0), files=(file("two"),), replaces=True), ledger.look())
    ledger.commit(entry("k3", ("c", "v1", 0), files=(file("three"),)), ledger.look())
    seen = ledger.look()
    assert seen.base == 2
    assert sorted(seen.files) == ["three", "two"]
    assert seen.quarantine == {}
    assert sorted(seen.inputs["path"].to_pylist()) == ["b", "c"]
    assert sorted(dead.path for dead in seen.dead_since(0)) == ["one", "quarantine/q"]
    assert seen.dead_since(2) == []


def test_what_was_dead_before_does_not_die_again(open_ledger: Open) -> None:
    """Else each version that replaces all before it would delete the files of all of them."""
    ledger = open_ledger()
    aside = file("quarantine/q", line="quarantine")
    ledger.commit(entry("k1", files=(file("one"), file("two"), aside)), ledger.look())
    ledger.commit(entry("k2", files=(file("three"),), removed=("one",)), ledger.look())
    for number, path in ((3, "four"), (4, "five")):
        made = entry(f"k{number}", files=(file(path),), replaces=True)
        ledger.commit(made, ledger.look())
    seen = ledger.look()
    died = [sorted(dead.path for dead in seen.dead_since(version)) for version in range(5)]
    assert died[0] == died[1] == ["four", "one", "quarantine/q", "three", "two"]
    assert died[2:] == [["four", "quarantine/q", "three", "two"], ["four"], []]


def test_latest_version_of_an_input_counts(open_ledger: Open) -> None:
    ledger = open_ledger()
    ledger.commit(entry("k1", ("a", "v1", 0), ("a", "v1", 1), ("b", "v1", 2)), ledger.look())
    ledger.commit(entry("k2", ("a", "v2", 0)), ledger.look())
    rows = ledger.look().inputs.select(["path", "identity", "run_id", "shard"]).to_pylist()
    found = sorted(tuple(row.values()) for row in rows)
    assert found == [("a", "v2", "run-k2", 0), ("b", "v1", "run-k1", 2)]


def test_options_of_fsspec_are_translated() -> None:
    options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://localhost:1"}}
    assert aws_options(options) == {
        "AWS_ENDPOINT_URL": "http://localhost:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
    }


def test_whose_credentials_count_is_translated_or_refused() -> None:
    assert aws_options({"anon": True}) == {"AWS_SKIP_SIGNATURE": "true"}
    with pytest.raises(
        InvalidSpec, match=r"storage_options\.profile: 'team' is not used for .*AWS_PRO"
    ):
        aws_options({"profile": "team"})


def test_keys_in_the_users_files_count_where_an_endpoint_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine of one's own that speaks to a store of one's own."""
    keys = tmp_path / "credentials"
    lines = "aws_access_key_id = {0}\naws_secret_access_key = {0}-secret\n"
    keys.write_text("[default]\n" + lines.format("d") + "[team]\n" + lines.format("t"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    options = {"endpoint_url": "https://store", "client_kwargs": None}
    assert aws_options(options)["AWS_SECRET_ACCESS_KEY"] == "d-secret"
    monkeypatch.setenv("AWS_PROFILE", "team")
    assert aws_options(options)["AWS_ACCESS_KEY_ID"] == "t"
    assert aws_options({**options, "key": "k", "secret": "s"})["AWS_ACCESS_KEY_ID"] == "k"
    for others in ({**options, "anon": True}, {"use_ssl": True}):
        assert "AWS_ACCESS_KEY_ID" not in aws_options(others)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "e")
    assert "AWS_ACCESS_KEY_ID" not in aws_options(options)


@pytest.mark.parametrize("section", ["profile", "services"])
def test_a_ledger_lies_in_the_store_that_the_users_files_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    """Where s3fs puts the rows."""
    config = tmp_path / "config"
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    assert aws_options({}) == {}
    line = "endpoint_url = http://store:1\n"
    if section == "profile":
        config.write_text(f"[default]\n{line}")
    else:
        config.write_text(f"[default]\nservices = own\n[services own]\ns3 =\n  {line}")
    assert aws_options({})["AWS_ENDPOINT_URL"] == "http://store:1"
    assert aws_options({})["AWS_ALLOW_HTTP"] == "true"
    named = aws_options({"endpoint_url": "https://another"})
    assert named["AWS_ENDPOINT_URL"] == "https://another"


def test_who_vouches_for_a_store_is_translated_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = {"client_kwargs": {"verify": False}}
    assert aws_options(trusting) == {"AWS_ALLOW_INVALID_CERTIFICATES": "true"}
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    careful = {"client_kwargs": {"verify": "/etc/ca.pem"}}
    with pytest.raises(InvalidSpec, match=r"client_kwargs\.verify: '/etc/ca\.pem' .*SSL_CERT_F"):
        aws_options(careful)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ca.pem")
    assert aws_options(careful) == {}


@pytest.mark.s3
def test_a_ledger_is_put_as_its_bucket_asks_for(s3: S3) -> None:
    encryption = {
        "ServerSideEncryption": "aws:kms",
        "SSEKMSKeyId": "arn:aws:kms:us-east-1:1:key/own",
        "BucketKeyEnabled": True,
    }
    asked = {"requester_pays": True, "s3_additional_kwargs": encryption}
    storage, folder = open_storage(s3.url(uuid.uuid4().hex), s3.storage_options)
    DeltaLedger(f"s3://{folder}", {**s3.storage_options, **asked}).make()
    (entry,) = storage.list(folder)
    bucket, _, key = entry.path.partition("/")
    kept = storage.filesystem.call_s3("head_object", Bucket=bucket, Key=key)
    for name, value in encryption.items():
        assert kept[name] == value


def test_a_long_ledger_keeps_every_line(open_ledger: Open) -> None:
    """Past the 64th version, which gathers those before it, and for who is late with it."""
    ledger = open_ledger()
    late = None
    for number in range(1, 70):
        seen = ledger.look()
        late = seen if number == 64 else late
        made = entry(f"k{number}", (f"in-{number}", "v1", 0), files=(file(f"part-{number}"),))
        assert ledger.commit(made, seen) == number
    assert late is not None
    with pytest.raises(StaleLedger):
        ledger.commit(entry("late"), late)
    seen = open_ledger().look()
    assert [e["run_key"] for e in seen.entries.values()] == [f"k{n}" for n in range(1, 70)]
    assert sorted(seen.inputs["path"].to_pylist()) == sorted(f"in-{n}" for n in range(1, 70))
    assert list(seen.files) == [f"part-{n}" for n in range(1, 70)]


@pytest.mark.parametrize("most", [delta_ledger.KEPT_BYTES, 0])
def test_a_ledger_is_read_once_for_each_version_unless_it_is_large(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(wraps=delta_ledger.lines_of)
    monkeypatch.setattr(delta_ledger, "lines_of", read)
    monkeypatch.setattr(delta_ledger, "KEPT_BYTES", most)
    for key in ("k1", "k2"):
        ledger = DeltaLedger(str(tmp_path / "ledger"))
        ledger.commit(entry(key, (key, "v1", 0)), ledger.look())
        seen = [DeltaLedger(str(tmp_path / "ledger")).look() for _ in range(3)]
        assert all(key in each.inputs["path"].to_pylist() for each in seen)
    assert read.call_count == (2 if most else 7)


@pytest.mark.parametrize("character", list("[]^|\\\n\x1b\x7f"))
def test_a_folder_in_which_deltalake_keeps_no_table_is_refused_at_once(
    tmp_path: Path, character: str
) -> None:
    """It looked there without a word, and broke when all was predicted."""
    with pytest.raises(InvalidSpec, match="which the ledger does not support: rename"):
        DeltaLedger(str(tmp_path / f"out{character}2" / "ledger"))


@pytest.mark.parametrize("character", list("\t\n\x01\x7f\x85\u2028"))
def test_a_stores_folder_of_such_a_name_is_refused_before_it_is_asked(character: str) -> None:
    with pytest.raises(InvalidSpec, match=r"^sink\.path: .* which the ledger does not support"):
        DeltaLedger(f"s3://bucket/out{character}2/ledger")


@pytest.mark.parametrize("character", list("#? *{}~'\"<>`:é"))
def test_a_folder_may_have_any_other_name(tmp_path: Path, character: str) -> None:
    ledger = DeltaLedger(str(tmp_path / f"out{character}2" / "ledger"))
    ledger.commit(entry("k"), ledger.look())
    assert ledger.look().version == 1


def test_a_long_delta_table_has_few_files(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    ledger = DeltaLedger(str(tmp_path / "ledger"))
    for number in range(1, 67):
        ledger.commit(entry(f"k{number}"), ledger.look())
    assert len(DeltaTable(str(tmp_path / "ledger")).file_uris()) == 3
    assert len(DeltaTable(str(tmp_path / "ledger"), version=63).file_uris()) == 63
    gathered = {n: n - gathered_after(n, n - 1) for n in (1, 63, 64, 128, 4096, 8192, 64**3)}
    assert gathered == {1: 1, 63: 1, 64: 64, 128: 64, 4096: 4096, 8192: 4096, 64**3: 64**3}
