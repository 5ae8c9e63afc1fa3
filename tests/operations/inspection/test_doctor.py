"""What doctor says of the installation and of the model."""

from pathlib import Path

from backstory.operations.inspection.doctor import _find_version, _try_embedder
from tests.workspaces import write_workspace


def test_it_says_what_computes_the_vectors(tmp_path: Path) -> None:
    local, hashing = (
        write_workspace(tmp_path / provider, f"embedding: {{provider: {provider}}}\n")
        for provider in ("local", "hashing")
    )
    assert "CPUExecutionProvider" in _try_embedder(local)
    assert "Provider" not in _try_embedder(hashing)


def test_a_package_that_another_build_replaces_is_no_error() -> None:
    assert _find_version("numpy").startswith("numpy ")
    assert _find_version("no-such-package") == "no-such-package absent"
