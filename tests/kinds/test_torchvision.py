"""torchvision's models through the kind say what they say by themselves.

Where torch has no CUDA, all of this runs with torchvision's operators declared by the tests
(`tests/torchvision_shim`).
"""

import copy
import hashlib
import shutil
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.models import TorchvisionModel
from tasks.kinds.models.model import Placement
from tasks.kinds.models.vision.pixels import PIXELS
from tests.kinds.declared import as_declared
from tests.kinds.tiny_models import images, noise, png, rows_of
from tests.web_server import WebServer, web_server

if TYPE_CHECKING:
    import torch

CLASSIFIER, DETECTOR = "shufflenet_v2_x0_5", "fasterrcnn_mobilenet_v3_large_320_fpn"
PICTURES = [*images(8), *noise((40, 30), (30, 40))]
SCORE, PIXEL = 1e-5, 0.01

pytestmark = pytest.mark.usefixtures("torchvision")


@pytest.fixture(scope="module")
def classifier(torchvision: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A model of three classes, and the file of its weights."""
    import torch

    from tests.torchvision_shim import models

    model = models.classifier(CLASSIFIER, 3, PICTURES)
    path = tmp_path_factory.mktemp("classifier") / "model.pth"
    torch.save(model.state_dict(), path)
    return model, path


@pytest.fixture(scope="module")
def detector(torchvision: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The same of a detector."""
    import torch

    from tests.torchvision_shim import models

    model = models.faster_rcnn(DETECTOR, PICTURES[-2:])
    path = tmp_path_factory.mktemp("detector") / "model.pth"
    torch.save(model.state_dict(), path)
    return model, path


def kind(path: Path | str = "", name: str = CLASSIFIER, **given: Any) -> TorchvisionModel:
    fields = {"name": name, "path": str(path), "labels": ["cat", "dog", "owl"], **given}
    return TorchvisionModel.model_validate(fields)


def predicted(
    model: TorchvisionModel, pictures: list[np.ndarray], placement: Placement | None = None
) -> pa.Table:
    model.check()
    rows = rows_of("image", [png(each) for each in pictures])
    preprocess = model.preprocessor()
    return as_declared(model, rows, model.predictor(placement or Placement())(preprocess(rows)))


def probabilities(model: Any, pictures: list[np.ndarray]) -> np.ndarray:
    """What torchvision alone makes of each picture, with the transforms of its weights."""
    import torch
    from torchvision import models

    from tests.torchvision_shim.models import as_tensor

    preset = models.get_model_weights(CLASSIFIER).DEFAULT.transforms()
    with torch.inference_mode():
        return np.stack(
            [model(preset(as_tensor(each))[None])[0].softmax(0).numpy() for each in pictures]
        )


def test_labels_are_torchvisions_own(classifier: tuple[Any, Path]) -> None:
    model, path = classifier
    wanted = probabilities(model, PICTURES)
    rows = predicted(kind(path), PICTURES)
    best = [["cat", "dog", "owl"][each] for each in wanted.argmax(1)]
    assert rows["predicted_label"].to_pylist() == best
    assert np.allclose(rows["predicted_score"].to_numpy(), wanted.max(1), atol=SCORE)
    assert len(set(best)) > 1
    top = predicted(kind(path, options={"top_k": 2}), PICTURES)
    assert [each[0] for each in top["predicted_label"].to_pylist()] == best
    order = -np.sort(-wanted, axis=1)[:, :2]
    assert np.allclose(top["predicted_score"].to_pylist(), order, atol=SCORE)


def test_images_travel_as_bytes(classifier: tuple[Any, Path]) -> None:
    rows = kind(classifier[1]).preprocessor()(rows_of("image", [png(PICTURES[0])]))
    assert rows.schema.field(PIXELS).type == pa.list_(pa.uint8(), 3 * 224 * 224)


def test_a_thin_line_is_not_resized_to_gigabytes(classifier: tuple[Any, Path]) -> None:
    line = png(np.zeros((1, 4_000, 3), np.uint8))
    preprocess = kind(classifier[1]).preprocessor()
    with pytest.raises(ValueError, match=r"4000 x 1 pixels, and 1024000 x 256 once resized"):
        preprocess(rows_of("image", [line]))


def test_scores_do_not_depend_on_the_batch(classifier: tuple[Any, Path]) -> None:
    together = predicted(kind(classifier[1]), PICTURES)
    alone = predicted(kind(classifier[1]), PICTURES, Placement(batch_size=1))
    first, second = (rows["predicted_score"].to_numpy() for rows in (together, alone))
    assert np.allclose(first, second, atol=SCORE)
    none = predicted(kind(classifier[1]), [])
    assert [*none.schema][-2:] == [*together.schema][-2:]


@pytest.mark.parametrize("form", ["safetensors", "old", "checkpoint", "wrapped"])
def test_weights_come_from_any_file_of_them(
    classifier: tuple[Any, Path], tmp_path: Path, form: str
) -> None:
    import torch
    from safetensors.torch import save_file

    weights, path = classifier[0].state_dict(), tmp_path / f"model.{form}"
    if form == "safetensors":
        save_file(weights, path)
    elif form == "old":
        torch.save(weights, path, _use_new_zipfile_serialization=False)
    elif form == "wrapped":  # by DataParallel, compiled, in a LightningModule
        torch.save({f"model._orig_mod.module.{name}": each for name, each in weights.items()}, path)
    else:
        torch.save({"model": weights, "epoch": 3}, path)
    key = {"state_dict_key": "model"} if form == "checkpoint" else {}
    rows = predicted(kind(path, **key), PICTURES)
    assert rows.equals(predicted(kind(classifier[1]), PICTURES))


def random_weights(name: str) -> dict[str, Any]:
    """Of three classes."""
    from torchvision import models

    bare = {"weights_backbone": None} if name == DETECTOR else {}
    return dict(models.get_model(name, weights=None, num_classes=3, **bare).state_dict())


def loaded(name: str, weights: dict[str, Any], file: Path) -> "torch.nn.Module":
    """A model on the CPU as the kind has it, of weights that it finds in a file."""
    import torch
    from safetensors.torch import save_file

    save = save_file if file.suffix == ".safetensors" else torch.save
    save(weights, file)
    model = kind(file, name)
    made: torch.nn.Module = model.built(model.architecture, ["cat", "dog", "owl"])
    return made


def outside(file: Path, model: "torch.nn.Module") -> set[str]:
    """Names of a model's tensors that are not where this process has mapped a file."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [line.split()[0].split("-") for line in lines if line.endswith(str(file))]
    mapped = [range(int(low, 16), int(high, 16)) for low, high in spans]
    tensors = model.state_dict().items()
    return {name for name, each in tensors if not any(each.data_ptr() in span for span in mapped)}


@pytest.mark.parametrize(
    ("name", "form"),
    [("resnet18", "pth"), ("resnet18", "safetensors"), ("swin_t", "pth"), (DETECTOR, "pth")],
)
def test_replicas_share_the_files_memory(
    torchvision: None, tmp_path: Path, name: str, form: str
) -> None:
    """Weights are not copied on a CPU: the model's are those of the file."""
    file = tmp_path / f"model.{form}"
    assert outside(file, loaded(name, random_weights(name), file)) == set()


def test_weights_by_names_of_older_releases_are_shared_too(
    torchvision: None, tmp_path: Path
) -> None:
    """A layer of the head had another name once; torchvision renames it while it loads."""
    weights = random_weights(DETECTOR)
    for each in ("weight", "bias"):
        weights[f"rpn.head.conv.{each}"] = weights.pop(f"rpn.head.conv.0.0.{each}")
    file = tmp_path / "model.safetensors"
    model = loaded(DETECTOR, weights, file)
    assert outside(file, model) == set()
    found = model.state_dict()["rpn.head.conv.0.0.weight"]
    assert found.equal(weights["rpn.head.conv.weight"])


def test_weights_in_half_precision_are_used_in_full(torchvision: None, tmp_path: Path) -> None:
    """A model would else take the file's precision with its memory, and detectors cannot."""
    weights = random_weights(DETECTOR)
    halves = {name: each.half() for name, each in weights.items() if each.is_floating_point()}
    model = loaded(DETECTOR, weights | halves, tmp_path / "model.pth")
    for name, each in model.state_dict().items():
        assert each.dtype == weights[name].dtype
        assert each.equal(halves.get(name, each).to(each.dtype))


def test_folded_convolutions_are_each_replicas_own(torchvision: None, tmp_path: Path) -> None:
    import torch

    from tasks.kinds.models.vision import convolutions

    file = tmp_path / "model.pth"
    model = loaded("resnet18", random_weights("resnet18"), file)
    example = {"x": torch.zeros(1, 3, 32, 32)}
    convolutions.tune(model, lambda given: model(given["x"]), example)
    assert {*model.state_dict()} - outside(file, model) == {"fc.weight", "fc.bias"}


@pytest.fixture
def thousand(torchvision: None) -> "torch.nn.Module":
    """A model of ImageNet's classes."""
    from tests.torchvision_shim import models

    made: torch.nn.Module = models.classifier(CLASSIFIER, 1000, PICTURES)
    return made


def test_torchvisions_own_weights_come_from_torchs_cache(
    thousand: "torch.nn.Module", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of classes, too, are then those of the weights; nothing is asked of any server."""
    import torch
    from torchvision import models

    entry = models.get_model_weights(CLASSIFIER).DEFAULT
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    cache = tmp_path / "checkpoints"
    cache.mkdir()
    torch.save(thousand.state_dict(), cache / entry.url.rpartition("/")[2])
    model = TorchvisionModel(name=CLASSIFIER)
    rows = predicted(model, PICTURES)
    wanted = probabilities(thousand, PICTURES)
    names = [entry.meta["categories"][each] for each in wanted.argmax(1)]
    assert rows["predicted_label"].to_pylist() == names
    assert model.fingerprint() == "IMAGENET1K_V1 shufflenetv2_x0.5-f707e7126e.pth"
    assert model.pinned(model.fingerprint()).weights == "IMAGENET1K_V1"


@pytest.fixture
def served(
    thousand: "torch.nn.Module", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WebServer]:
    """A server that stands for torchvision's; torch's cache, in `hub` beside it, is empty."""
    import torch
    from torchvision import models

    web = tmp_path / "web"
    web.mkdir()
    torch.save(thousand.state_dict(), web / "model.pth")
    digest = hashlib.sha256((web / "model.pth").read_bytes()).hexdigest()
    (web / "model.pth").rename(web / f"model-{digest[:8]}.pth")
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path / "hub"))
    entry = models.get_model_weights(CLASSIFIER).DEFAULT
    with web_server(web) as server:
        monkeypatch.setattr(entry.value, "url", server.url(f"model-{digest[:8]}.pth"))
        yield server


def test_torchvisions_own_weights_are_fetched_once(
    served: WebServer, thousand: "torch.nn.Module", tmp_path: Path
) -> None:
    model = TorchvisionModel(name=CLASSIFIER)
    rows = predicted(model, PICTURES[:3])
    wanted = probabilities(thousand, PICTURES[:3]).max(1)
    assert np.allclose(rows["predicted_score"].to_numpy(), wanted, atol=SCORE)
    (file,) = served.folder.iterdir()
    assert [each.name for each in (tmp_path / "hub" / "checkpoints").iterdir()] == [file.name]
    assert model.fingerprint() == f"IMAGENET1K_V1 {file.name}"
    served.trouble = 503
    assert predicted(model, PICTURES[:3]).equals(rows)


def test_own_weights_with_another_hash_than_their_name_has_are_refused(
    served: WebServer, tmp_path: Path
) -> None:
    (file,) = served.folder.iterdir()
    with file.open("ab") as more:
        more.write(b"\0")
    model = TorchvisionModel(name=CLASSIFIER)
    model.check()
    said = rf"model\.weights: 'IMAGENET1K_V1' .*{file.name} \(invalid hash value.*model\.path"
    with pytest.raises(Unreachable, match=said):
        model.predictor(Placement())
    assert [*(tmp_path / "hub" / "checkpoints").iterdir()] == []
    served.trouble = 503
    with pytest.raises(InvalidSpec, match=r"cannot be reached \(HTTP Error 503.*model\.path"):
        model.check()
    with pytest.raises(Unreachable, match=r"\(HTTP Error 503"):
        model.predictor(Placement())


def test_weights_out_of_reach_are_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    def unreachable(*arguments: Any, **more: Any) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(InvalidSpec, match=r"resnet50-11ad3fa6\.pth.*no route to host.*model\.path"):
        TorchvisionModel(name="resnet50").check()


def test_the_plan_pins_weights_and_transforms(classifier: tuple[Any, Path], tmp_path: Path) -> None:
    model = kind(shutil.copy(classifier[1], tmp_path / "model.pth"))
    first = model.fingerprint()
    assert first.startswith("IMAGENET1K_V1 ")
    assert kind(model.path, weights="IMAGENET1K_V1").fingerprint() == first
    with Path(model.path).open("ab") as file:
        file.write(b"\0")
    assert model.fingerprint() != first


def test_a_detectors_small_print_is_that_of_its_weights(torchvision: None) -> None:
    """Trained ones have frozen normalisation; one entry has another constant in it."""
    from torchvision import models
    from torchvision.ops.misc import FrozenBatchNorm2d

    from tasks.kinds.models.vision.zoo import Architecture

    name = "fasterrcnn_resnet50_fpn"
    plain = models.get_model(name, weights=None, weights_backbone=None, num_classes=3)
    architecture = Architecture.of(name, "DEFAULT")
    before = copy.deepcopy(architecture.entry.meta)
    built = architecture.built(plain.state_dict(), ["__background__", "cat", "dog"])
    norms = [each for each in built.modules() if isinstance(each, FrozenBatchNorm2d)]
    assert {norm.eps for norm in norms} == {0.0}
    assert not built.training
    assert architecture.entry.meta == before
    assert "get_state_dict" not in vars(architecture.entry)


def found_in(model: Any, picture: np.ndarray) -> dict[str, Any]:
    """What torchvision alone finds in a picture."""
    import torch
    from torchvision import models

    from tests.torchvision_shim.models import as_tensor

    preset = models.get_model_weights(DETECTOR).DEFAULT.transforms()
    with torch.inference_mode():
        (found,) = model([preset(as_tensor(picture))])
    return {name: values.numpy() for name, values in found.items()}


def kind_of_detector(path: Path, **options: Any) -> TorchvisionModel:
    labels = ["__background__", "cat", "dog", "owl"]
    return kind(path, DETECTOR, labels=labels, options=options)


def assert_same_objects(row: dict[str, Any], found: dict[str, Any], threshold: float) -> None:
    """A row holds what was found, as far as its score is above the threshold."""
    kept = found["scores"] > threshold
    names = [["__background__", "cat", "dog", "owl"][each] for each in found["labels"][kept]]
    assert row["labels"] == names
    assert np.allclose(row["scores"], found["scores"][kept], atol=1e-4)
    assert np.allclose(row["boxes"], found["boxes"][kept], atol=PIXEL)


def test_objects_are_torchvisions_own(detector: tuple[Any, Path]) -> None:
    """Whatever the other images: some of one shape, the others of as many shapes as there are."""
    model, path = detector
    pictures = [PICTURES[0], *PICTURES[-2:], np.flipud(PICTURES[-1]).copy()]
    wanted = [found_in(model, each) for each in pictures]
    rows = predicted(kind_of_detector(path, threshold=0.3), pictures)
    for row, found in zip(rows.to_pylist(), wanted, strict=True):
        assert_same_objects(row, found, 0.3)
    assert sum(map(len, rows["labels"].to_pylist())) > len(pictures)
    (alone,) = predicted(kind_of_detector(path, threshold=0.3), pictures[2:3]).to_pylist()
    assert_same_objects(alone, wanted[2], 0.3)


@pytest.fixture
def gpu() -> Placement:
    """A GPU that calculates as exactly as a CPU."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU and a torch built for it")
    return Placement("cuda", dtype="float32", batch_size=4)


@pytest.mark.gpu
def test_a_gpu_sees_the_classes_that_a_cpu_does(
    gpu: Placement, classifier: tuple[Any, Path]
) -> None:
    model = kind(classifier[1], options={"top_k": 3})
    rows, wanted = predicted(model, PICTURES, gpu), predicted(model, PICTURES)
    assert rows["predicted_label"].to_pylist() == wanted["predicted_label"].to_pylist()
    scores, expected = (each["predicted_score"].to_pylist() for each in (rows, wanted))
    assert np.allclose(scores, expected, atol=1e-3)


@pytest.mark.gpu
def test_a_gpu_finds_the_objects_that_a_cpu_does(
    gpu: Placement, detector: tuple[Any, Path]
) -> None:
    """With torchvision's own operators, which are built for torch with CUDA."""
    model = kind_of_detector(detector[1], threshold=0, max_detections=3)
    pictures = PICTURES[-2:]
    rows, wanted = predicted(model, pictures, gpu), predicted(model, pictures)
    assert rows["labels"].to_pylist() == wanted["labels"].to_pylist()
    for name, most in (("scores", 1e-3), ("boxes", 0.5)):
        assert np.allclose(rows[name].to_pylist(), wanted[name].to_pylist(), atol=most)


def test_options_choose_the_best_objects(detector: tuple[Any, Path]) -> None:
    model, path = detector
    found = found_in(model, PICTURES[-1])
    usual = predicted(kind_of_detector(path), PICTURES[-1:]).to_pylist()
    assert_same_objects(usual[0], found, 0.5)
    three = predicted(kind_of_detector(path, threshold=0, max_detections=3), PICTURES[-1:])
    first = {name: values[:3] for name, values in found.items()}
    assert_same_objects(three.to_pylist()[0], first, 0)


@pytest.mark.parametrize("head", ["rpn.head.cls_logits", "roi_heads.box_predictor.bbox_pred"])
def test_nothing_found_is_no_answer_of_a_model_without_numbers(
    detector: tuple[Any, Path], tmp_path: Path, head: str
) -> None:
    import torch

    weights = detector[0].state_dict()
    weights[f"{head}.bias"] = torch.full_like(weights[f"{head}.bias"], torch.nan)
    torch.save(weights, tmp_path / "model.pth")
    with pytest.raises(ValueError, match="gave no numbers for this row"):
        predicted(kind_of_detector(tmp_path / "model.pth"), PICTURES[-1:])


def test_detectors_work_with_whole_numbers_only(detector: tuple[Any, Path]) -> None:
    model = kind_of_detector(detector[1])
    with pytest.raises(InvalidSpec, match=r"resources\.dtype.*auto or float32"):
        model.predictor(Placement(dtype="bfloat16"))


def test_a_broken_image_is_the_rows_fault(detector: tuple[Any, Path]) -> None:
    preprocess = kind_of_detector(detector[1]).preprocessor()
    with pytest.raises(ValueError, match="not an image"):
        preprocess(rows_of("image", [b"no image"]))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "resnet51"}, r"model\.name: 'resnet51' does not exist; .* resnet50"),
        ({"name": "fcn_resnet50"}, "is neither a classifier nor a detector"),
        ({"name": "resnet50", "weights": "COCO_V1"}, "has IMAGENET1K_V1, IMAGENET1K_V2"),
        ({"name": "resnet50", "options": {"threshold": 0.5}}, "not for resnet50, a classifier"),
        ({"name": DETECTOR, "options": {"top_k": 5}}, f"not for {DETECTOR}, a detector"),
        ({"name": "resnet50", "labels": ["cat"]}, "needs a file of weights"),
        ({"name": "resnet50", "state_dict_key": "model"}, "needs a file of weights"),
        ({"name": "resnet50", "path": "nowhere.pth"}, "has no file"),
        ({"name": "resnet50", "path": "tests"}, "is a folder"),
        ({"name": "resnet50", "path": "README.md"}, "contains neither weights"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(fields: Any, said: str) -> None:
    with pytest.raises(InvalidSpec, match=said):
        TorchvisionModel.model_validate(fields).check()


def test_pickled_modules_are_never_loaded(torchvision: None, tmp_path: Path) -> None:
    import torch

    torch.save(torch.nn.Linear(1, 1), tmp_path / "model.pth")
    with pytest.raises(InvalidSpec, match="is not a plain state_dict"):
        kind(tmp_path / "model.pth").check()


def test_a_whole_model_is_for_another_kind(torchvision: None, tmp_path: Path) -> None:
    import torch

    program = torch.export.export(torch.nn.Linear(1, 1), (torch.zeros(1, 1),))
    torch.export.save(program, tmp_path / "model.pt2")
    with pytest.raises(InvalidSpec, match=r"exported program.*set model\.kind to torch"):
        kind(tmp_path / "model.pt2").check()


def test_weights_of_other_classes_are_an_error(classifier: tuple[Any, Path]) -> None:
    model = kind(classifier[1], labels=["cat", "dog"])
    model.check()
    with pytest.raises(InvalidSpec, match=r"not fit .* with 2 classes.*model\.labels.*fc\.weight"):
        model.predictor(Placement())


def test_without_torchvision_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(InvalidSpec, match=r"pip install 'prefect-ray-data\[torchvision\]'"):
        TorchvisionModel(name="resnet50").check()


def test_a_build_for_another_torch_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('nms does not exist')")
    monkeypatch.delitem(sys.modules, "torchvision")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidSpec, match=r"nms does not exist.*for this torch"):
        TorchvisionModel(name="resnet50").check()
