"""What is looked at before anything is started."""

from pathlib import Path

import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.models.xgboost import XGBoostModel
from tasks.planning.preflight import check_code
from tests.flows.conftest import spec_of


def test_a_spec_of_another_machine_needs_no_folder_where_no_code_is_the_users(
    tmp_path: Path,
) -> None:
    """A deployment has the folder of whoever made it."""
    spec = spec_of(tmp_path, environment={"working_dir": "/home/who/deployed/it"})
    with pytest.raises(
        InvalidSpec, match=r"^environment\.working_dir: .* of a deployment it is where"
    ):
        check_code(spec)
    model = XGBoostModel(path="model.json", columns=["x"])
    assert check_code(spec.model_copy(update={"model": model})) == "none"
