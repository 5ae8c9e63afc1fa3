"""The bar of a run: one for all steps, which never goes back, also where each day makes every table again."""

from collections.abc import Callable

import pytest

from backstory.base.progress import listening
from backstory.interfaces.cli.terminal import RunBar
from backstory.pipeline.run.run import Run, RunEvent, RunPosition
from backstory.pipeline.run.runner import execute_run, find_wanted
from backstory.pipeline.workspace import Workspace
from tests.workspaces import DIGEST


@pytest.mark.parametrize("feedback", ["off", "on"])
def test_one_bar_moves_from_nothing_to_its_last_step(
    make_workspace: Callable[..., Workspace], feedback: str
) -> None:
    workspace = make_workspace(DIGEST.replace("digest}", f'digest, feedback: "{feedback}"}}'))
    drawn: list[tuple[float, int, str]] = []
    positions: list[RunPosition] = []
    bar = RunBar(lambda done, total, text: drawn.append((done, total, text)))

    def move(event: RunEvent) -> None:
        if isinstance(event, RunPosition):
            positions.append(event)
            bar.move(event)

    with listening(bar.follow, draws=True):
        assert execute_run(workspace, Run(find_wanted(workspace, None, None)), move).success
    assert len({total for _, total, _ in drawn}) == 1
    dones = [done for done, _, _ in drawn]
    assert dones == sorted(dones)
    assert dones[0] == 0
    assert max(position.done for position in positions) == drawn[0][1] - 1
    assert dones[-1] < drawn[0][1]
