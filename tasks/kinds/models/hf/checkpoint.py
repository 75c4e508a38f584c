"""Loads the parts of a checkpoint: configuration, processor, tokenizer, weights."""

import json
import pickle
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import BatchInferenceError, InvalidSpec
from tasks.kinds.models.hf import hub
from tasks.kinds.models.hf.architectures import type_of, unknown_type
from tasks.kinds.models.hf.fitting_weights import refuse_other_weights
from tasks.kinds.models.hf.folder import local_folder
from tasks.kinds.models.hf.own_code import OWN_CODE
from tasks.kinds.models.hf.processor_files import PROCESSOR_FILES, knows_words
from tasks.kinds.models.machine_errors import is_of_the_machine
from tasks.kinds.models.model import Placement

MOST_CHARACTERS = 500
"""Of what transformers says of a package that it lacks, which may be a page."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder, or a name on the Hugging Face Hub at a revision."""

    name: str
    revision: str = "main"

    @property
    def where(self) -> dict[str, Any]:
        """Arguments of every `from_pretrained`."""
        return {
            "pretrained_model_name_or_path": str(Path(self.name).expanduser()),
            "revision": self.revision,
            "trust_remote_code": False,
        }

    def config(self) -> Any:
        """The model's configuration."""
        from transformers import AutoConfig

        with self.explains():
            return AutoConfig.from_pretrained(**self.where)

    def image_processor(self) -> Any:
        """What turns images into the model's input."""
        from transformers import AutoImageProcessor

        with self.prepares_images(), quiet(), self.explains():
            return AutoImageProcessor.from_pretrained(**self.where)

    def feature_extractor(self) -> Any:
        """What turns sounds into the model's input."""
        from transformers import AutoFeatureExtractor

        with quiet(), self.explains():
            return AutoFeatureExtractor.from_pretrained(**self.where)

    def tokenizer(self) -> Any:
        """What turns text into token numbers.

        Raises:
            InvalidSpec: the checkpoint has no vocabulary, and all texts would look alike.
        """
        from transformers import AutoTokenizer

        with quiet(), self.explains():
            tokenizer = AutoTokenizer.from_pretrained(**self.where)
        if not knows_words(tokenizer):
            problem = (
                f"has no vocabulary file for its {type(tokenizer).__name__}: save the model's "
                "tokenizer beside it, with its save_pretrained or push_to_hub"
            )
            raise InvalidSpec.at(hub.FIELD, self.name, problem)
        return tokenizer

    def model_class(self) -> Any:
        """The class of the model without a head; None where there is none."""
        from transformers import MODEL_MAPPING

        return MODEL_MAPPING.get(type(self.config()), None)

    def json_file(self, name: str) -> Any:
        """What a further file of the checkpoint holds; None where there is no such file.

        Raises:
            Unreachable: the Hub does not answer.
        """
        path = self.file(name)
        return json.loads(path.read_text()) if path else None

    def file(self, name: str) -> Path | None:
        """A further file of the checkpoint; None where there is no such file.

        Raises:
            Unreachable: the Hub does not answer.
        """
        folder = local_folder(self.name)
        path = folder / name if folder else hub.download(self.name, name, self.revision)
        return path if path and path.is_file() else None

    def model(self, auto_class: str, placement: Placement, unused: str = "") -> Any:
        """The model with its weights on the device, ready to predict.

        Args:
            auto_class: of transformers, that makes it.
            placement: where it runs.
            unused: what stands in the names of weights that predictions do not go through, and
                that may be missing: transformers makes them up.

        Raises:
            InvalidSpec: the checkpoint lacks weights that predictions need, or has them in other
                shapes, or of more layers; or it needs code of its own.
        """
        import transformers

        with quiet(), only_tensors(self.name), self.explains():
            model, found = getattr(transformers, auto_class).from_pretrained(
                **self.where,
                dtype=torch_dtype(placement),
                output_loading_info=True,
                weights_only=True,
                ignore_mismatched_sizes=True,  # else its error does not say of which weights
            )
        refuse_other_weights(self.name, model, found, unused)
        attend_to_all(model)
        return model.to(placement.device).eval()

    @contextmanager
    def explains(self) -> Iterator[None]:
        """Explain why transformers cannot load a part.

        Raises:
            InvalidSpec: it does not know the type of the model, stops short of running code, or
                lacks a package for it; or the Hub does not give the part to whoever asks here.
            Unreachable: the Hub does not answer.
        """
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
        from transformers import CONFIG_MAPPING

        try:
            yield
        except OSError as error:
            of_hub = error.__cause__
            if isinstance(of_hub, LocalEntryNotFoundError):
                of_hub = of_hub.__cause__ or of_hub
            elif not isinstance(of_hub, HfHubHTTPError):
                raise
            raise hub.explained(self.name, self.revision, of_hub, hub.FIELD) from error
        except ImportError as error:
            if error.name is not None:  # Python's own, of a package that is there in part
                raise
            said = " ".join(str(error).split())[:MOST_CHARACTERS]
            problem = (
                f"needs a package that is not installed: install it, here and on every node. {said}"
            )
            raise InvalidSpec.at(hub.FIELD, self.name, problem) from error
        except ValueError as error:
            config = self.json_file("config.json") or {}
            if type_of(config) not in CONFIG_MAPPING:
                raise unknown_type(self.name, config) from error
            if stops_short_of_code(error):
                raise InvalidSpec.at(hub.FIELD, self.name, OWN_CODE) from error
            raise

    @contextmanager
    def prepares_images(self) -> Iterator[None]:
        """Explain why no image processor can be made, or why it prepares no image of ours.

        Raises:
            InvalidSpec: it is the fault of its settings.
        """
        try:
            yield
        except Exception as error:
            others = (BatchInferenceError, ImportError, OSError)
            if isinstance(error, others) or is_of_the_machine(error):
                raise
            files = [each for each in PROCESSOR_FILES if self.json_file(each) is not None]
            problem = (
                f"has settings in its {(files or ['config.json'])[0]} with which no image can be "
                f"prepared: {error}; correct them, or save the processor used in training beside "
                "the model, with its save_pretrained"
            )
            raise InvalidSpec.at(hub.FIELD, self.name, problem) from error


def attend_to_all(model: Any) -> None:
    """Make BigBird read texts of any length in one way.

    It leaves out most pairs of a long text's tokens, but only until it is given the first short
    batch: what a text gets would depend on what came before it.
    """
    for part in [*model.modules()]:
        if hasattr(part, "set_attention_type"):
            part.set_attention_type("original_full")


@contextmanager
def only_tensors(name: str) -> Iterator[None]:
    """Explain why pickled weights that hold more than tensors are not read.

    Raises:
        InvalidSpec: they do.
    """
    try:
        yield
    except pickle.UnpicklingError as error:
        problem = (
            "has pickled weights that contain more than tensors, which could run any code and is "
            "never unpickled; save them as safetensors, or use another model"
        )
        raise InvalidSpec.at(hub.FIELD, name, problem) from error


def stops_short_of_code(error: ValueError) -> bool:
    """Whether transformers would have run a checkpoint's code, were it let.

    Its error is a general one: where it was raised tells, whatever it says.
    """
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_name == "resolve_trust_remote_code"


def torch_dtype(placement: Placement) -> Any:
    """The number format of weights and arithmetic; `auto` is the fastest that is safe."""
    import torch

    if placement.dtype != "auto":
        return getattr(torch, placement.dtype)
    if placement.device == "cpu":
        return torch.float32
    has_bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)  # which is slow
    return torch.bfloat16 if has_bfloat16 else torch.float16


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and no advice from transformers; errors still come as exceptions."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
