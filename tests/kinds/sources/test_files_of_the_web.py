"""Sources and models behind a web server, which knows files and no folders."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from aiohttp import ClientTimeout

from tasks.errors import InputNotFound, InvalidSpec, StageFailed, Unreachable
from tasks.kinds.models import XGBoostModel
from tasks.kinds.places import check_source
from tasks.kinds.sinks import ParquetSink
from tasks.kinds.sources import BinarySource, CsvSource, ParquetSource, VideoSource
from tasks.kinds.sources.listing import list_inputs
from tasks.plan import make_plan
from tasks.protocol.object_stat import stat_of
from tasks.protocol.storage import open_storage
from tasks.publish import publish_planned
from tasks.resources import PreprocessOptions
from tasks.spec_file import parse_spec
from tests.flows.conftest import published, spec_of
from tests.kinds.sources.reading import read_all, write
from tests.kinds.videos import save
from tests.reporting import run_attempt
from tests.web_server import WebServer, web_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    with web_server(tmp_path) as started:
        yield started


def test_a_file_is_known_by_its_etag_and_read(server: WebServer) -> None:
    (server.folder / "a.bin").write_bytes(b"one")
    storage, path = open_storage(server.url("a.bin?token=b"))
    (listed,) = storage.list(path)
    assert listed == storage.stat(path)
    assert (listed.size, storage.read(path)) == (3, b"one")
    (server.folder / "a.bin").write_bytes(b"two")
    os.utime(server.folder / "a.bin", (1, 1))
    changed = storage.stat(path)
    assert changed
    assert changed.identity != listed.identity
    assert storage.stat(server.url("b.bin")) is None
    assert storage.list(server.url("b.bin")) == []


def test_without_etags_the_time_tells_versions_apart() -> None:
    before, after = (
        stat_of({"name": "a", "size": 3, "Last-Modified": f"Sat, 31 Jan 2026 02:00:0{at} GMT"})
        for at in (1, 2)
    )
    assert before.identity != after.identity


def test_a_url_stays_as_it_is() -> None:
    url = "https://host/a.parquet?x=y/"
    assert open_storage(url)[1] == url


@pytest.mark.parametrize("status", [403, 503])
def test_a_server_in_trouble_is_not_one_without_the_file(server: WebServer, status: int) -> None:
    (server.folder / "a.ubj").write_bytes(b"one")
    source, model = BinarySource(path=server.url("a.ubj")), XGBoostModel(path=server.url("a.ubj"))
    check_source(source)
    model.check()
    server.trouble = status
    storage, path = open_storage(server.url("a.ubj"))
    for call in (storage.stat, storage.list, storage.read):
        with pytest.raises(ConnectionError, match=f"{status}"):
            call(path)
    with pytest.raises(Unreachable, match=rf"source\.path: .* cannot be reached: .*{status}"):
        check_source(source)
    with pytest.raises(Unreachable, match=rf"model\.path: .* cannot be reached: .*{status}"):
        model.check()


def test_many_urls_are_asked_for_at_once_and_told_in_their_order(server: WebServer) -> None:
    """One after another each takes its time, twice: here none would have an answer."""
    names = [f"{at}.bin" for at in range(40)]
    for name in names:
        (server.folder / name).write_bytes(b"one")
    server.at_once = 9
    source = BinarySource(path=[server.url(name) for name in reversed(names)])
    for ask in (check_source, list_inputs):
        server.most_asking = 0
        ask(source)
        assert server.most_asking >= 9
    paths = [stat.path for stat in list_inputs(source)[1]]
    assert paths == sorted(map(server.url, names))
    for name in ("20.bin", "30.bin"):
        (server.folder / name).unlink()
    for ask in (check_source, list_inputs):
        with pytest.raises(InputNotFound, match=r"30\.bin"):
            ask(source)


def test_no_server_at_all(tmp_path: Path) -> None:
    with web_server(tmp_path) as server:
        gone = server.url("a.bin")
    with pytest.raises(Unreachable, match=r"source\.path: .* cannot be reached: .*connect"):
        check_source(BinarySource(path=gone))


@pytest.mark.parametrize("name", ["b.bin", "b.bin?token=b", "b.bin?x=[y]*/"])
def test_a_file_that_the_server_has_not(server: WebServer, name: str) -> None:
    server.folder.joinpath("a").mkdir()  # the server shows no folder: it answers 403
    missing = BinarySource(path=server.url(f"a/{name}"))
    with pytest.raises(InputNotFound, match=r"source\.path: .*b\.bin.*' does not exist"):
        check_source(missing)
    with pytest.raises(InputNotFound, match=r"source\.path: .*b\.bin.*' has no file"):
        list_inputs(missing)
    empty = missing.model_copy(update={"on_empty": "succeed"})
    check_source(empty)
    assert not len(list_inputs(empty)[1])


def test_a_file_that_is_gone_for_good(server: WebServer) -> None:
    server.trouble = 410
    storage, path = open_storage(server.url("a.bin"))
    assert storage.stat(path) is None
    with pytest.raises(FileNotFoundError):
        storage.read(path)


@pytest.mark.parametrize("says_size", [True, False])
def test_a_server_that_sends_files_whole(server: WebServer, says_size: bool) -> None:
    """As `python -m http.server` does, whatever part is asked for."""
    server.sends_whole, server.says_size = True, says_size
    rows = {"x": [*range(1_000)], "y": ["a" * 50 + str(at) for at in range(1_000)]}
    pq.write_table(pa.table(rows), server.folder / "a.parquet", row_group_size=100)
    pacsv.write_csv(pa.table(rows), server.folder / "a.csv")
    for kind in (ParquetSource, CsvSource):
        name = f"a.{kind.__name__.removesuffix('Source').lower()}"
        options = {"block_size": 8_192}  # less than a file has
        read = read_all(kind(path=server.url(name), storage_options=options))
        assert read == pa.table(rows).to_pylist()


def test_a_video_whose_size_no_server_says_is_not_empty(server: WebServer) -> None:
    server.sends_whole, server.says_size = True, False
    save(server.folder / "a.mp4", frames=20, rate=10)
    write(server.folder, "b.mp4", b"")
    first, second, bad = read_all(VideoSource(path=[server.url("a.mp4"), server.url("b.mp4")]))
    assert [first["frame"], second["frame"]] == [0, 10]
    assert "zero bytes" in str(bad.error)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("b%20c.csv?sign=a%2Fb%2B%3D&x=1*~", "b%20c.csv?sign=a%2Fb%2B%3D&x=1*~"),
        ("b c.csv?x=ä", "b%20c.csv?x=%C3%A4"),
        ("b%20c.csv?x=5%", "b%20c.csv?x=5%25"),
    ],
)
def test_a_signed_url_is_asked_for_as_it_is_written(
    server: WebServer, written: str, asked: str
) -> None:
    write(server.folder, "b c.csv", b"x\n1\n")
    assert read_all(CsvSource(path=server.url(written))) == [{"x": 1}]
    assert set(server.asked) == {f"/{asked}"}


@pytest.mark.parametrize("name", ["a.csv", "A.CSV.GZ", "a.csv.gz?x=.csv"])
def test_a_file_that_is_decompressed_once(server: WebServer, name: str) -> None:
    """Of `a.csv.gz`, too, servers say by Content-Encoding that it is compressed."""
    server.sends_whole, server.encoding = True, "gzip"
    write(server.folder, name.partition("?")[0], gzip.compress(b"x\n1\n2\n"))
    assert read_all(CsvSource(path=server.url(name))) == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("says_size", [True, False])
@pytest.mark.parametrize("kind", [CsvSource, ParquetSource])
def test_a_server_that_breaks_off(
    server: WebServer, kind: type[CsvSource | ParquetSource], says_size: bool
) -> None:
    """Planning waits such trouble out, as it does that of a store."""
    server.sends_whole, server.breaks_off, server.says_size = True, True, says_size
    write(server.folder, "a.bin", b"x\n" * 10_000)
    source = kind(path=server.url("a.bin"), storage_options={"block_size": 8_192})
    with pytest.raises(ConnectionError, match="ClientPayloadError"):
        source.pin(*list_inputs(source))


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_tells_of_a_file_and_does_not_send_it(
    server: WebServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning waits that out, too."""
    storage, path = open_storage(server.url("a.bin"), {"block_size": 0})
    monkeypatch.setattr(storage.filesystem, "info", lambda path: {"name": path, "size": 7})
    server.trouble = status
    with pytest.raises(ConnectionError, match=f"{status}"):
        storage.open(path)


def test_a_proxy_of_the_environment_is_asked(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(server.folder, "a.csv", b"x\n1\n")
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.setenv("no_proxy", "b.invalid")
    assert read_all(CsvSource(path="http://a.invalid/a.csv")) == [{"x": 1}]
    with pytest.raises(Unreachable, match="b\\.invalid"):
        check_source(CsvSource(path="http://b.invalid/a.csv"))


def test_a_large_file_may_take_its_time(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own patience, five minutes, is for all of an answer."""
    monkeypatch.setattr("aiohttp.client.DEFAULT_TIMEOUT", ClientTimeout(total=0.3))
    server.sends_whole, server.pause = True, 1
    write(server.folder, "a.bin", b"abcd")
    storage, path = open_storage(server.url("a.bin"), {"block_size": 1})  # a client of its own
    assert storage.read(path) == b"abcd"


def test_what_is_no_url_is_a_wrong_spec() -> None:
    with pytest.raises(InvalidSpec, match=r"source\.path: .* cannot be opened"):
        check_source(BinarySource(path="https://host:99999/a.bin"))
    with pytest.raises(InvalidSpec, match=r"model\.path: .* cannot be opened"):
        XGBoostModel(path="https://host:99999/a.ubj").check()


def test_a_web_server_takes_no_files() -> None:
    with pytest.raises(ValueError, match="a web server does not accept files: use a folder"):
        ParquetSink(path="https://host/out")
    with pytest.raises(ValueError, match="a web server does not accept files: use a folder"):
        PreprocessOptions(path="https://host/kept")


@pytest.mark.parametrize("url", ["", "/", "/in/", "/in/*.parquet", "/in/[ab].parquet?x=y"])
def test_folders_and_globs_are_refused_at_once(url: str) -> None:
    raw: dict[str, Any] = {
        "source": {"kind": "parquet", "path": ["https://host/a.parquet", f"https://host{url}"]},
        "model": {"kind": "python", "class": "a:B"},
        "sink": {"kind": "parquet", "path": "/out"},
    }
    with pytest.raises(
        InvalidSpec, match=r"^source\.path: .*files on a web server cannot be listed: give"
    ):
        parse_spec(raw)
    raw["source"]["path"] = ["https://host/a.parquet?x=[y]*/", "https://[::1]:80/a.parquet"]
    parse_spec(raw)


def test_a_run_waits_out_a_servers_trouble(server: WebServer, tmp_path: Path) -> None:
    rows = {"id": [*range(100)], "x": [float(each) for each in range(100)]}
    pq.write_table(pa.table(rows), server.folder / "in.parquet")
    source = {"kind": "parquet", "path": server.url("in.parquet")}
    spec = spec_of(tmp_path / "in", source=source)
    planned = make_plan(spec)
    server.trouble = 503
    with pytest.raises(StageFailed, match=r"in\.parquet.*503"):
        run_attempt(planned)
    server.trouble = None
    run_attempt(planned)
    publish_planned(planned)
    assert [(row["id"], row["doubled"]) for row in published(spec)] == [
        (each, 2.0 * each) for each in range(100)
    ]
    assert make_plan(spec).nothing_to_do
    (server.folder / "in.parquet").unlink()
    with pytest.raises(InputNotFound, match=r"in\.parquet' does not exist"):
        make_plan(spec)
