from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.sandbox.stage import PROTECTED
from understudy.sandbox import Containment, Sandbox


@pytest.fixture
async def sandbox() -> AsyncGenerator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    await sandbox.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def contained(tmp_path: Path, workspace: Path) -> Containment:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    return Containment("workspace-write", (str(workspace),), private_tmp=str(private), protected=PROTECTED)


@pytest.fixture(params=["contained", "uncontained"])
def either(request: pytest.FixtureRequest, contained: Containment) -> Containment | None:
    return contained if request.param == "contained" else None
