"""Which error of a failed step is told."""

import pytest
from dagster_shared.error import SerializableErrorInfo

from pipelines.failures import find_reported


def chain(*names: str) -> SerializableErrorInfo:
    """Make errors, each the reason of the one before."""
    cause = None
    for name in reversed(names):
        cause = SerializableErrorInfo(f"{name}: words\n", [], name, cause=cause)
    assert cause is not None
    return cause


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("DagsterExecutionStepExecutionError", "ModelSetupError", "Fail"), "ModelSetupError"),
        (
            ("DagsterExecutionStepExecutionError", "ContractError", "WorkspaceError", "OSError"),
            "ContractError",
        ),
        (("DagsterExecutionStepExecutionError", "KeyError", "ZeroDivisionError"), "ZeroDivisionError"),
        (("DagsterAssetCheckFailedError",), "DagsterAssetCheckFailedError"),
    ],
)
def test_the_outermost_error_of_the_library_is_told_since_it_names_the_remedy(
    names: tuple[str, ...], told: str
) -> None:
    assert find_reported(chain(*names)).cls_name == told
