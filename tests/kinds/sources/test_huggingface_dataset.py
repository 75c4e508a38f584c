"""Datasets on disk: the rows that `datasets` itself reads, and nothing silently short."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InputNotFound, InvalidSpec
from tasks.kinds.column_types import AUDIO, IMAGE, is_encoded
from tasks.kinds.images import decode_image
from tasks.kinds.sources import HuggingFaceDatasetSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.protocol.object_stat import Stat
from tasks.protocol.storage import FsspecStorage
from tests.kinds.sounds import encoded, tone
from tests.kinds.sources.reading import read_all
from tests.kinds.sources.test_parquet import BreakingFile
from tests.kinds.tiny_models import images, png

ROWS = 10


@pytest.fixture(scope="module")
def dataset() -> Any:
    """Ten rows of every sort of column."""
    from datasets import Array2D, Audio, ClassLabel, Dataset, Features, Image, List, Value

    features = Features(
        {
            "image": Image(),
            "label": ClassLabel(names=["cat", "dog"]),
            "text": Value("string"),
            "matrix": Array2D((2, 2), "float32"),
            "tags": List(Value("int64")),
        }
    )
    values = {
        "image": [{"bytes": png(each), "path": "a.png"} for each in images(ROWS)],
        "label": [at % 2 if at < 8 else None for at in range(ROWS)],
        "text": [f"text {at}" for at in range(ROWS)],
        "matrix": [[[at, 1], [2, 3]] for at in range(ROWS)],
        "tags": [list(range(at)) for at in range(ROWS)],
    }
    sound = {"bytes": encoded([tone(0.1, 16_000)], 16_000), "path": "a.wav"}
    made = Dataset.from_dict(values, features=features).add_column("audio", [sound] * ROWS)
    return made.cast_column("audio", Audio(sampling_rate=8_000))


@pytest.fixture
def folder(dataset: Any, tmp_path: Path) -> Path:
    dataset.save_to_disk(tmp_path / "in", num_shards=2)
    return tmp_path / "in"


def source(folder: Path, **fields: Any) -> HuggingFaceDatasetSource:
    return HuggingFaceDatasetSource(path=str(folder), **fields)


def small(folder: Path, columns: dict[str, Any], **options: Any) -> Path:
    from datasets import Dataset

    Dataset.from_dict(columns).save_to_disk(folder, **options)
    return folder


def rewrite(file: Path, name: str, values: list[Any]) -> None:
    """Put other values into a column, as nobody should."""
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    column = pa.array(values, table.schema.field(name).type)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.set_column(table.column_names.index(name), name, column))


def test_rows_are_those_that_the_library_reads(folder: Path) -> None:
    from datasets import load_from_disk

    rows = read_all(source(folder))
    theirs = load_from_disk(folder)
    names = [*theirs.features["label"].names, None]
    assert len(rows) == len(theirs) == ROWS
    for row, other in zip(rows, theirs.remove_columns("audio"), strict=True):
        np.testing.assert_array_equal(decode_image(row["image"]), np.asarray(other["image"]))
        assert row["label"] == names[-1 if other["label"] is None else other["label"]]
        assert (row["text"], row["matrix"], row["tags"]) == (
            other["text"],
            other["matrix"],
            other["tags"],
        )


def test_images_and_sound_are_media(folder: Path) -> None:
    storage, stats = list_inputs(source(folder))
    (shard,) = source(folder).split(storage, stats[0])
    (read,) = source(folder).read(storage, shard, source(folder).pin(storage, stats))
    assert not isinstance(read, BadRow)
    assert is_encoded(read.schema.field("image"), IMAGE)
    assert is_encoded(read.schema.field("audio"), AUDIO)
    assert read.schema.field("audio").metadata[b"sampling_rate"] == b"8000"


def test_columns_that_are_asked_for(folder: Path) -> None:
    assert read_all(source(folder, columns=["text"])) == [
        {"text": f"text {at}"} for at in range(ROWS)
    ]
    storage, stats = list_inputs(source(folder))
    with pytest.raises(InvalidSpec, match=r"\['size'\] is not among .* image, label, text"):
        source(folder, columns=["size"]).pin(storage, stats)


def test_splits(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    parts = {name: Dataset.from_dict({"x": [name]}) for name in ("train", "test")}
    DatasetDict(parts).save_to_disk(tmp_path / "in")
    assert read_all(source(tmp_path / "in", split_name="test")) == [{"x": "test"}]
    assert read_all(source(tmp_path / "in" / "train")) == [{"x": "train"}]
    for split in (None, "dev"):
        with pytest.raises(InvalidSpec, match=r"source\.split_name: .* must be one of train, test"):
            list_inputs(source(tmp_path / "in", split_name=split))
    with pytest.raises(InvalidSpec, match="leave it empty"):
        list_inputs(source(small(tmp_path / "one", {"x": [1]}), split_name="test"))


def test_another_splits_folder_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    parts = {name: Dataset.from_dict({"x": [name]}) for name in ("train", "test")}
    DatasetDict(parts).save_to_disk(tmp_path / "in")
    other = source(tmp_path / "in" / "train", split_name="test")
    with pytest.raises(InputNotFound, match=r"split_name: 'test' has no rows .* which has train"):
        list_inputs(other)
    assert not list_inputs(other.model_copy(update={"on_empty": "succeed"}))[1]


def test_a_dataset_without_rows_is_told_from_a_path_without_one(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    none = small(tmp_path / "none", {"x": []})
    DatasetDict({"test": Dataset.from_dict({"x": []})}).save_to_disk(tmp_path / "dict")
    for folder in (none, tmp_path / "dict"):
        with pytest.raises(InputNotFound, match=r"is a dataset without rows: .*on_empty: succeed"):
            list_inputs(source(folder))
        assert not list_inputs(source(folder, on_empty="succeed"))[1]
    (tmp_path / "other").mkdir()
    for folder in (tmp_path / "other", none / "state.json" / "train"):
        with pytest.raises(InputNotFound, match=r"has no file ending in \.arrow"):
            list_inputs(source(folder))


def test_a_folder_of_links_is_a_dataset(folder: Path, tmp_path: Path) -> None:
    """As the Hub's cache has it, whose files have other names."""
    linked, blobs = tmp_path / "linked", tmp_path / "blobs"
    linked.mkdir()
    whole = read_all(source(folder))
    folder.rename(blobs)
    for number, file in enumerate(sorted(blobs.iterdir())):
        (linked / file.name).symlink_to(file.rename(blobs / str(number)))
    assert read_all(source(linked)) == whole
    (tmp_path / "itself").symlink_to(linked)
    assert read_all(source(tmp_path / "itself")) == whole


def test_what_map_leaves_beside_a_dataset_is_not_read(tmp_path: Path) -> None:
    from datasets import load_from_disk

    small(tmp_path / "in", {"x": [1, 2]})
    load_from_disk(tmp_path / "in").map(lambda row: {"x": row["x"] * 10})
    assert list((tmp_path / "in").glob("cache-*.arrow"))
    assert read_all(source(tmp_path / "in")) == [{"x": 1}, {"x": 2}]


def test_what_is_no_dataset_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(b"")
    with pytest.raises(InvalidSpec, match=r"no state\.json: give a folder that save_to_disk"):
        list_inputs(source(tmp_path))


def test_files_that_a_listing_has_are_not_looked_at_one_by_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes a store's answer, and a dataset may have thousands of files."""
    looked_at, stat = list[str](), FsspecStorage.stat

    def noted(self: FsspecStorage, path: str) -> Stat | None:
        looked_at.append(Path(path).name)
        return stat(self, path)

    monkeypatch.setattr(FsspecStorage, "stat", noted)
    assert len(list_inputs(source(folder))[1]) == 2
    assert not looked_at
    assert len(list_inputs(source(folder, exclude=["data-00000*"]))[1]) == 1
    assert looked_at == ["data-00000-of-00002.arrow"]


def test_a_dataset_that_lacks_a_file_says_so(folder: Path) -> None:
    next(folder.glob("data-00001*")).unlink()
    with pytest.raises(InputNotFound, match=r"data-00001.* does not exist"):
        list_inputs(source(folder))


@pytest.mark.parametrize("num_shards", [2, 3])
def test_a_dataset_that_was_saved_anew_into_other_files_is_refused(
    tmp_path: Path, num_shards: int
) -> None:
    """Its old rows are in these too; in files of the former names they are changed inputs."""
    folder = small(tmp_path / "in", {"x": [*range(8)]}, num_shards=2)
    storage, inputs = list_inputs(source(folder))
    published = inputs.table.select(["path", "identity"])
    assert len(source(folder).left(storage, inputs, published)) == 0
    small(folder, {"x": [*range(12)]}, num_shards=num_shards)
    storage, inputs = list_inputs(source(folder))
    if num_shards == 2:
        assert len(source(folder).left(storage, inputs, published)) == 2
        return
    with pytest.raises(
        InvalidSpec, match=r"was saved again .*-of-00002\.arrow .* --replace-output"
    ):
        source(folder).left(storage, inputs, published)


def test_large_batches_come_in_small_reads(tmp_path: Path) -> None:
    small(tmp_path / "in", {"x": list(range(5_000))})
    assert [row["x"] for row in read_all(source(tmp_path / "in"))] == list(range(5_000))


def test_a_label_without_a_name_is_a_bad_row(tmp_path: Path) -> None:
    from datasets import ClassLabel, Dataset

    made = Dataset.from_dict({"y": [0, -1, 1]}).cast_column("y", ClassLabel(names=["a", "b"]))
    made.save_to_disk(tmp_path / "in")
    assert read_all(source(tmp_path / "in")) == [{"y": "a"}, {"y": None}, {"y": "b"}]
    file = next((tmp_path / "in").glob("*.arrow"))
    rewrite(file, "y", [0, 7, 1])
    first, bad, third = read_all(source(tmp_path / "in"))
    assert (first, third) == ({"y": "a"}, {"y": "b"})
    assert "the label 7 has no name" in str(bad.error)


def test_an_image_outside_the_dataset_is_a_bad_row(folder: Path) -> None:
    for file in folder.glob("*.arrow"):
        rewrite(file, "image", [{"bytes": None, "path": "gone.png"}] * (ROWS // 2))
    rows = read_all(source(folder, columns=["image"]))
    assert len(rows) == ROWS
    assert all("gone.png is not in the dataset" in str(row.error) for row in rows)


@pytest.mark.parametrize("cut", [0, 100, -4, -8, -600])
def test_a_file_that_is_cut_off_is_not_silently_short(tmp_path: Path, cut: int) -> None:
    folder = small(tmp_path / "in", {"x": list(range(3_000))})
    whole = read_all(source(folder))
    (file,) = folder.glob("*.arrow")
    content = file.read_bytes()
    file.write_bytes(content[:cut])
    *rows, bad = read_all(source(folder), {"schema": None})
    assert isinstance(bad, BadRow)
    assert rows == whole[: len(rows)]
    # The last eight bytes are only the mark of the end.
    assert (len(rows) == len(whole)) == (cut in (-4, -8))


def test_damaged_bytes_cost_their_batch(tmp_path: Path) -> None:
    folder = small(tmp_path / "in", {"x": [f"name {at}" for at in range(3_000)]})
    (file,) = folder.glob("*.arrow")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"name 1500", b"name\xff\xff\xff\xff\xff"))
    rows = read_all(source(folder))
    bad = [at for at, row in enumerate(rows) if isinstance(row, BadRow)]
    assert bad == list(range(1_000, 2_000))
    assert rows[2_000:] == [{"x": f"name {at}"} for at in range(2_000, 3_000)]


def test_a_damaged_length_asks_for_no_memory(tmp_path: Path) -> None:
    folder = small(tmp_path / "in", {"x": range(10)})
    (file,) = folder.glob("*.arrow")
    content = file.read_bytes()
    file.write_bytes(content.replace(struct.pack("<q", 80), struct.pack("<q", 1 << 50)))
    (bad,) = read_all(source(folder))
    assert f"able to read {1 << 50} bytes" in str(bad.error)


@pytest.mark.parametrize("number", [0, 1])
def test_damaged_notes_of_columns_cost_their_file(folder: Path, number: int) -> None:
    file = sorted(folder.glob("*.arrow"))[number]
    file.write_bytes(file.read_bytes().replace(b'{"info":', b'{"info"\xff'))
    rows = read_all(source(folder, columns=["label", "text"]))
    (bad,) = [row for row in rows if isinstance(row, BadRow)]
    assert "notes on its columns are not JSON" in str(bad.error)
    assert len(rows) == 1 + ROWS // 2
    assert rows[1 - number] == {"label": ["dog", "cat"][number], "text": f"text {5 - 5 * number}"}


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ConnectionError("reset"), TimeoutError("slow")]
)
def test_storage_errors_are_raised(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    storage, (stat, _) = list_inputs(source(folder))
    (shard,) = source(folder).split(storage, stat)
    monkeypatch.setattr(storage, "open", lambda path: BreakingFile(Path(path), error))
    with pytest.raises(type(error), match=str(error.args[-1])):
        list(source(folder).read(storage, shard, {"schema": None}))


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"_data_files": [{}]}', '"x"'])
def test_a_state_that_save_to_disk_did_not_write_says_so(folder: Path, content: str) -> None:
    (folder / "state.json").write_text(content)
    with pytest.raises(InvalidSpec, match=r"state\.json"):
        list_inputs(source(folder))


@pytest.mark.parametrize("content", ["{}", "[]", '{"splits": 1}'])
def test_splits_that_save_to_disk_did_not_write_say_so(folder: Path, content: str) -> None:
    (folder.parent / "dataset_dict.json").write_text(content)
    with pytest.raises(InvalidSpec, match=r"dataset_dict\.json' lists no splits"):
        list_inputs(source(folder))


def test_a_state_that_is_no_json_says_so(folder: Path) -> None:
    (folder / "state.json").write_text("{")
    with pytest.raises(InvalidSpec, match=r"state\.json.* is not JSON"):
        list_inputs(source(folder))
    (folder / "state.json").write_text(json.dumps({"_data_files": []}))
    assert read_all(source(folder)) == []
