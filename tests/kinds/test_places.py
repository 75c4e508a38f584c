"""What a spec names is looked for before anything is started."""

import os
import re
from ftplib import FTP
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from fsspec.implementations.local import LocalFileSystem

from tasks.errors import InputNotFound, InvalidSpec, Unreachable
from tasks.kinds.models import SklearnModel
from tasks.kinds.output_overlap import check_apart, refuse_own
from tasks.kinds.places import (
    check_sink,
    check_source,
    folder_of,
    refuse_no_bucket,
    refuse_whole_bucket,
)
from tasks.kinds.sinks import DeltaSink, IcebergSink, LanceSink, ParquetSink, Sink
from tasks.kinds.sources import (
    BinarySource,
    CsvSource,
    DeltaSource,
    IcebergSource,
    ImagesSource,
    LanceSource,
    Source,
)
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.parquet import ParquetSource
from tasks.protocol.storage import open_storage
from tests.azure_server import Azure
from tests.google_server import Google
from tests.s3_server import S3
from tests.storage_faults.faulty_s3 import Fault, faulty_s3


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("s3://bucket/a/*.parquet", "s3://bucket/a"),
        ("s3://bucket/a/b-[0-9]/c/*.parquet", "s3://bucket/a"),
        ("/data/day=*/x", "/data"),
        ("/data/x.parquet", "/data/x.parquet"),
        ("https://host/x.parquet?a=[b]*", "https://host/x.parquet?a=[b]*"),
        ("https://[::1]:80/x.parquet", "https://[::1]:80/x.parquet"),
    ],
)
def test_a_globs_folder(url: str, folder: str) -> None:
    assert folder_of(url) == folder


def test_files_folders_globs_and_odd_names_are_there(tmp_path: Path) -> None:
    (tmp_path / "a[1].parquet").touch()
    paths = ["", "a[1].parquet", "*.parquet", "no-such-*.parquet"]
    # That a glob matches nothing is for the listing to find.
    check_source(ParquetSource(path=[str(tmp_path / path) for path in paths]))


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.parquet"])
def test_what_is_not_there_is_said_at_once(tmp_path: Path, path: str) -> None:
    with pytest.raises(
        InputNotFound, match=r"source\.path: .*nowhere.* does not exist; correct the path"
    ):
        check_source(ParquetSource(path=str(tmp_path / path)))
    check_source(ParquetSource(path=str(tmp_path / path), on_empty="succeed"))


@pytest.mark.parametrize(
    ("path", "problem"),
    [("rows.csv", "is a file"), ("rows.csv/out", "cannot be created, .* is a file")],
)
def test_a_file_in_the_place_of_an_output(tmp_path: Path, path: str, problem: str) -> None:
    (tmp_path / "rows.csv").touch()
    with pytest.raises(InvalidSpec, match=rf"sink\.path: .*{problem}; give a folder"):
        check_sink(ParquetSink(path=str(tmp_path / path)))


@pytest.mark.parametrize("name", ["out", "out.state"])
def test_a_link_to_a_disk_that_is_not_there_is_no_place_for_an_output(
    tmp_path: Path, name: str
) -> None:
    """Nothing could be moved there once the run was published."""
    (tmp_path / name).symlink_to(tmp_path / "mount/out")
    with pytest.raises(InvalidSpec, match=r"is a link to .*/mount/out, which does not exist"):
        check_sink(ParquetSink(path=str(tmp_path / "out")))
    (tmp_path / "mount/out").mkdir(parents=True)
    check_sink(ParquetSink(path=str(tmp_path / "out")))


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"])
def test_a_whole_bucket_has_no_room_for_a_state_beside_it(scheme: str) -> None:
    bucket = f"{scheme}://my-bucket"
    for path in (bucket, f"{bucket}/"):
        with pytest.raises(
            InvalidSpec, match=rf"sink\.path: '{bucket}' is a whole bucket.* such as "
        ):
            check_sink(ParquetSink(path=path))


@pytest.mark.s3
def test_a_bucket_is_made_by_no_write(s3: S3, tmp_path: Path) -> None:
    place = {"path": "s3://not-made/out", "storage_options": s3.storage_options}
    told = r"sink\.path: 's3://not-made/out' is in the bucket 'not-made', which does not exist: "
    for sink in (ParquetSink(**place), DeltaSink(**place)):
        with pytest.raises(InvalidSpec, match=f"^{told}create it, or use another$"):
            check_sink(sink)
    new = ParquetSink(path=s3.url("not/made/either"), storage_options=s3.storage_options)
    check_sink(new)
    with pytest.raises(InvalidSpec, match=r"^stages\.preprocess\.path: .* is in the bucket"):
        check_sink(new, "s3://not-made/kept")


@pytest.mark.s3
@pytest.mark.parametrize("path", ["s3://misspelt/in", "s3://misspelt/in/*.parquet"])
def test_a_bucket_that_is_not_there_is_no_night_without_inputs(s3: S3, path: str) -> None:
    told = r"^source\.path: .* is in the bucket 'misspelt', which does not exist: "
    more = {"storage_options": s3.storage_options}
    for on_empty in ("fail", "succeed"):
        with pytest.raises(InvalidSpec, match=told):
            check_source(ParquetSource(path=path, on_empty=on_empty, **more))
    check_source(ParquetSource(path=s3.url("of/tonight"), on_empty="succeed", **more))


def test_no_write_makes_a_bucket_of_other_stores_either(azure: Azure, google: Google) -> None:
    for store, scheme in ((azure, "abfs"), (google, "gs")):
        place = {"path": f"{scheme}://not-made/out", "storage_options": store.storage_options}
        with pytest.raises(InvalidSpec, match=r"^sink\.path: .* in the bucket 'not-made', which"):
            check_sink(ParquetSink(**place))
        check_sink(ParquetSink(**{**place, "path": store.url("not/made/either")}))


@pytest.mark.parametrize(
    ("path", "extra"), [("gs://bucket/in", "google"), ("abfss://bucket/in", "azure")]
)
def test_a_store_whose_package_is_missing(
    monkeypatch: pytest.MonkeyPatch, path: str, extra: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        InvalidSpec, match=rf"source\.path: '{path}' needs .* 'prefect-ray-data\[{extra}\]', here"
    ):
        check_source(ParquetSource(path=path))


def test_googles_store_has_one_name() -> None:
    with pytest.raises(
        InvalidSpec, match=r"sink\.path: .* cannot be opened: write gs://bucket/out"
    ):
        check_sink(ParquetSink(path="gcs://bucket/out"))


@pytest.mark.s3
def test_a_bucket_that_one_may_not_be_told_of_may_be_there(s3: S3) -> None:
    with faulty_s3(s3.endpoint_url) as proxy:
        proxy.behave = lambda asked: Fault(403) if asked.method == "HEAD" else None
        options = {"endpoint_url": proxy.endpoint_url}
        refuse_no_bucket("sink.path", partial(open_storage, storage_options=options), s3.url("out"))
        assert proxy.faults


@pytest.mark.parametrize("path", ["s3://", "gs:///", "s3a:///in"])
def test_a_path_that_is_in_no_bucket(path: str) -> None:
    with pytest.raises(InvalidSpec, match=r"^source\.path: .* cannot be opened: has no bucket"):
        check_source(ParquetSource(path=path))
    with pytest.raises(InvalidSpec, match=r"^sink\.path: .* cannot be opened: has no bucket"):
        check_sink(ParquetSink(path=path))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("s3://bucket//out", "has two slashes in a row: write one"),
        ("s3://bucket/a//out/", "has two slashes in a row: write one"),
        ("s3a://bucket/a/../out", r"has the part \.\. in it: write the path without it"),
        ("gs://bucket/./out", r"has the part \. in it: write the path without it"),
    ],
)
def test_a_path_that_leads_the_ledger_elsewhere_than_the_rows(path: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        ParquetSink(path=path)
    for resolved in (
        "/data//a/../out",
        "file:///data/./out",
        "hdfs:///out",
        "s3://bucket/a..b/out",
    ):
        assert ParquetSink(path=resolved).path == resolved


@pytest.mark.parametrize("path", ["/", "//", "/.", "/..", "file:///", "local:///."])
def test_all_of_a_machines_files_are_no_folder_for_an_output(path: str) -> None:
    with pytest.raises(ValueError, match="is the root of this machine's files: use a folder"):
        ParquetSink(path=path)


def test_an_output_does_not_lie_beside_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Else what is published would be found once a run had made that, and not before."""
    sink = ParquetSink(path=str(tmp_path / "x/../real/out"))
    with pytest.raises(InvalidSpec, match=r"sink\.path: .*x/\.\./real/out' goes up from"):
        check_sink(sink)
    (tmp_path / "x").mkdir()
    check_sink(sink)


def test_a_folder_is_no_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("out", f"file://{tmp_path}", "memory://out"):
        check_sink(ParquetSink(path=path))
    for path in ("/out", "file:///out", "s3://my-bucket/out", "abfs://my-bucket@account/out"):
        refuse_whole_bucket(path)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        (ParquetSource(path="/data/in"), "/data/in"),
        (ParquetSource(path=["/else", "/data/"]), "/data/in/out"),
        (ParquetSource(path="/data", exclude=["*/in/*"]), "/data/in"),  # but not its state
        (BinarySource(path="/data"), "/data/out"),
    ],
)
def test_an_output_among_its_own_inputs(source: Source, output: str) -> None:
    with pytest.raises(
        InvalidSpec, match=r"sink\.path: .* is inside source\.path .*source\.exclude"
    ):
        check_apart(source, ParquetSink(path=output))


@pytest.mark.parametrize(
    ("glob", "partition_by"),
    [
        ("*/*.parquet", []),
        ("**/*.parquet", []),
        ("**", []),
        ("*/part-*", []),
        ("*/*/*.parquet", ["day"]),
        ("*/ledger/*.parquet", []),
        ("*/runs/*/staging/*", []),
        ("*", []),
        ("o*", []),
        ("*t", []),
    ],
)
def test_an_output_that_a_glob_leads_to(tmp_path: Path, glob: str, partition_by: list[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.parquet").touch()
    source = ParquetSource(path=str(tmp_path / glob))
    sink = ParquetSink(path=str(tmp_path / "out"), partition_by=partition_by)
    with pytest.raises(
        InvalidSpec, match=r"sink\.path: .* is inside source\.path .*source\.exclude"
    ):
        check_apart(source, sink)
    apart = source.model_copy(update={"exclude": ["out/*", "out.state/*"]})
    check_apart(apart, sink)


def test_an_output_that_a_link_leads_to(tmp_path: Path) -> None:
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    (tmp_path / "name").symlink_to(tmp_path / "in")
    source, sink = ParquetSource(path=str(tmp_path / "in")), ParquetSink(path=str(tmp_path / "out"))
    within = ParquetSink(path=str(tmp_path / "name/out"))
    by_name = ParquetSource(path=str(tmp_path / "name"))
    for each in (source, by_name):
        with pytest.raises(InvalidSpec, match=r"is inside source\.path .*source\.exclude"):
            check_apart(each, within)
    check_apart(by_name.model_copy(update={"exclude": [f"{tmp_path}/name/out*"]}), within)
    (tmp_path / "out/part-00001-00000.parquet").touch()
    (tmp_path / "in/a.parquet").touch()
    refuse_own(source, sink, *list_inputs(source))
    (tmp_path / "in/out").symlink_to(tmp_path / "out")
    with pytest.raises(InvalidSpec, match=r"is inside source\.path '.*/out/part-.*source\.exclude"):
        refuse_own(source, sink, *list_inputs(source))
    apart = source.model_copy(update={"exclude": ["out/*"]})
    refuse_own(apart, sink, *list_inputs(apart))


@pytest.mark.parametrize("glob", ["n*e/**", "n*", "n*e/*/*.parquet", "*/a*/**", "[n]*/al?as/*/*"])
def test_an_output_that_a_glob_leads_to_through_a_link(tmp_path: Path, glob: str) -> None:
    """Before anything lies there, and not once rows have been published among the inputs."""
    for folder in ("far/away", "d"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "far/a.csv").touch()
    (tmp_path / "far/alias").symlink_to(tmp_path / "far/away")
    (tmp_path / "d/name").symlink_to(tmp_path / "far")
    place = "far/away/out" if "al" in glob or "a*" in glob else "far/out"
    source, sink = (
        ParquetSource(path=f"{tmp_path}/d/{glob}"),
        ParquetSink(path=str(tmp_path / place)),
    )
    with pytest.raises(
        InvalidSpec, match=r"sink\.path: .* is inside source\.path .*source\.exclude"
    ):
        check_apart(source, sink)
    check_apart(source.model_copy(update={"exclude": ["out/*", "out.state/*"]}), sink)
    check_apart(source, ParquetSink(path=str(tmp_path / "d/out")))


def test_an_output_among_inputs_that_are_read_by_other_options() -> None:
    source = ParquetSource(path="s3://bucket/in", storage_options={"anon": True})
    with pytest.raises(InvalidSpec, match=r"is inside source\.path .*source\.exclude"):
        check_apart(source, ParquetSink(path="s3://bucket/in/out"))
    elsewhere = {"endpoint_url": "http://127.0.0.1:1"}
    check_apart(source, ParquetSink(path="s3://bucket/in/out", storage_options=elsewhere))


@pytest.mark.parametrize("glob", ["*", "*.parquet", "i*", "i[n]", "*/in*"])
def test_an_output_that_a_glob_does_not_lead_to(tmp_path: Path, glob: str) -> None:
    (tmp_path / "a.parquet").touch()  # where a glob matches files, no folder is looked into
    check_apart(ParquetSource(path=str(tmp_path / glob)), ParquetSink(path=str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("source", "output"),
    [
        (ParquetSource(path="/data/in"), "/data/in-out"),
        (ParquetSource(path="/data/in"), "/data"),
        (ParquetSource(path="/data"), "s3://data/out"),
        (ParquetSource(path="/data"), "/data/_predictions/out"),
        (ParquetSource(path="/data", exclude=["*/out*"]), "/data/out"),
        (ParquetSource(path="/data/*.parquet"), "/data/out"),
        (ImagesSource(path="/data"), "/data/out"),
        (CsvSource(path="/data"), "/data/out"),
    ],
)
def test_an_output_apart_from_its_inputs(source: Source, output: str) -> None:
    check_apart(source, ParquetSink(path=output))


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (DeltaSource(path="/data/own"), DeltaSink(path="/data/own/")),
        (LanceSource(path="/data/own"), LanceSink(path="/data/own")),
        (DeltaSource(path="/data/own"), ParquetSink(path="/data/own/sub")),
        (
            IcebergSource(path="a.own", catalog={"type": "memory"}),
            IcebergSink(path="/data/own", catalog={"type": "memory"}, table="a.own"),
        ),
    ],
)
def test_a_table_that_is_read_from_is_not_published_to(source: Source, sink: Sink) -> None:
    with pytest.raises(InvalidSpec, match=r"sink\.path: .* or inside it: .*source\.filter"):
        check_apart(source, sink)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (DeltaSource(path="/data/own"), DeltaSink(path="/data/own-predictions")),
        (DeltaSource(path="/data/own", filter="label = 'none'"), DeltaSink(path="/data/own")),
        (DeltaSource(path="/data/own"), DeltaSink(path="s3://data/own")),
        (
            IcebergSource(path="a.own", catalog={"type": "memory"}),
            IcebergSink(path="/data/own", catalog={"type": "memory"}, table="a.other"),
        ),
    ],
)
def test_another_table_is_published_to(source: Source, sink: Sink) -> None:
    check_apart(source, sink)


def may_write_only_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests, root too, is somebody who owns one folder and no more."""
    monkeypatch.setattr("os.access", lambda path, _: Path(path).is_relative_to(folder))


def test_an_output_that_may_not_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    may_write_only_below(own, monkeypatch)
    check_sink(ParquetSink(path=str(own / "new/out")))
    assert not [*own.iterdir()], "to look leaves nothing"
    # Of `own` itself it is the state beside it that has no place.
    for path in (tmp_path / "out", own):
        with pytest.raises(Unreachable, match=r"sink\.path: .*may not write to .*allow it"):
            check_sink(ParquetSink(path=str(path)))
    kept = str(tmp_path / "kept")
    with pytest.raises(Unreachable, match=r"stages\.preprocess\.path: .*may not write"):
        check_sink(ParquetSink(path=str(own / "out")), kept)
    monkeypatch.setattr("os.statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(Unreachable, match=r"the disk of .* is read-only; mount it writable, or"):
        check_sink(ParquetSink(path=kept))


def test_what_may_not_be_read_here_is_no_matter_of_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFileSystem, "info", refuse)
    with pytest.raises(Unreachable, match=r"denied; allow this user to read it$"):
        check_source(ParquetSource(path=str(tmp_path)))


@pytest.mark.parametrize("kind", ["source", "sink", "model"])
def test_a_client_that_connects_when_it_is_made_and_cannot(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionRefusedError("nobody listens\n  at /usr/lib/client.py, line 7")

    monkeypatch.setattr(FTP, "connect", refuse)
    path = "ftp://127.0.0.1:1/a"
    checks = {
        "source": lambda: check_source(CsvSource(path=path)),
        "sink": lambda: check_sink(ParquetSink(path=path)),
        "model": lambda: SklearnModel(path=f"{path}.skops").check(),
    }
    with pytest.raises(Unreachable, match=rf"{kind}\.path: .* reached: nobody listens; ") as caught:
        checks[kind]()
    assert "client.py" not in str(caught.value)


def test_what_is_wrong_with_a_buckets_name_is_told() -> None:
    with pytest.raises(Unreachable, match=r'reached: .*: Invalid bucket name "a b": Bucket name'):
        check_source(ParquetSource(path="s3://a b/x"))


def test_an_unknown_protocol_is_a_wrong_spec() -> None:
    told = r"source\.path: 'foo://x' cannot be opened: no storage is known for foo://: use s3://,"
    with pytest.raises(InvalidSpec, match=told):
        check_source(ParquetSource(path="foo://x"))


def test_a_link_that_leads_nowhere_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "nightly").symlink_to("/unmounted/nightly")
    for url in (f"{tmp_path}/nightly/", f"file://{tmp_path}/nightly"):
        with pytest.raises(InputNotFound, match="is a link to /unmounted/nightly, which does not"):
            check_source(ParquetSource(path=url))


def test_no_path_has_a_nul() -> None:
    checks = {
        "source": lambda: check_source(CsvSource(path="/a\0b")),
        "sink": lambda: check_sink(ParquetSink(path="/a\0b")),
        "model": lambda: SklearnModel(path="/a\0b.skops").check(),
    }
    for kind in checks:
        with pytest.raises(
            InvalidSpec, match=rf"^{kind}\.path: '/a\\x00b.* a path cannot contain a NUL"
        ):
            checks[kind]()


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("s3://anonymous@bucket/x", r"it is s3://bucket/x, storage_options: \{anon: true\}"),
        ("file://x", "needs an absolute path"),
        ("local://x", "needs an absolute path"),
        ("s3:///x", "has no bucket: write s3://bucket/folder"),
        (
            "s3://user:s3cr3t@bucket/x",
            "contains a user.s key, which a path may not: S3 keys come from the",
        ),
        ("s3://bucket/x?versionId=y", "names a version of an object, but the newest would be"),
        ("S3://bucket/x", "a URL scheme is lower case: write s3://"),
    ],
)
def test_a_url_that_ray_reads_otherwise_is_refused(path: str, way_out: str) -> None:
    cannot = rf"path: '{re.escape(path)}' cannot .*{way_out}"
    with pytest.raises(InvalidSpec, match=rf"^source\.{cannot}"):
        check_source(ParquetSource(path=path))
    with pytest.raises(InvalidSpec, match=rf"^sink\.{cannot}"):
        check_sink(ParquetSink(path=path))


def test_an_option_that_the_storage_does_not_know_is_named() -> None:
    sink = ParquetSink(path="s3://bucket/out", storage_options={"keyy": "secret"})
    message = r"^sink\.storage_options: one is not for the storage of 's3:.*argument 'keyy'$"
    with pytest.raises(InvalidSpec, match=message):
        check_sink(sink)


def test_an_arn_is_told_as_what_it_was_copied_for() -> None:
    with pytest.raises(
        InputNotFound, match=r"'arn:aws:s3:::bucket/in' .*did you mean s3://bucket/in"
    ):
        check_source(ParquetSource(path="arn:aws:s3:::bucket/in"))
