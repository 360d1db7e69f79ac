"""Where conversations are kept cannot be chosen by a caller, and what leads there is kept from commands."""

from pathlib import Path
from typing import Any

import pytest

from understudy.config.load import load_config
from understudy.config.model import Config
from understudy.errors import ConfigError
from understudy.protocol.records import Overrides


def load(home: Path, text: str, env: dict[str, str] | None = None, config: dict[str, Any] | None = None) -> Config:
    (home / "config.toml").write_text(text)
    variables = {"HOME": str(home.parent), **(env or {})}
    return load_config(home, Overrides(model="m", config=config or {}), server_cwd=home.parent, env=variables)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "user" / ".codex"
    home.mkdir(parents=True)
    return home


def test_the_files_that_lead_to_the_database_are_hidden_from_commands(home: Path) -> None:
    text = '[understudy.store]\nurl_file = "/srv/url"\n[understudy.cluster]\naudit_key_file = "audit"\n'
    masked = load(home, text, {"UNDERSTUDY_STORE_URL_FILE": "/srv/other"}).sandbox.mask
    assert {Path("/srv/url"), Path("/srv/other"), home / "audit"} <= {Path(path) for path in masked}


def test_a_caller_cannot_choose_the_store(home: Path) -> None:
    for key in ("understudy.store.url", "understudy.cluster.lease_seconds"):
        value = "sqlite" if key.endswith("url") else 3
        with pytest.raises(ConfigError, match=r"only in config\.toml itself"):
            load(home, "", config={key: value})
        name = key.rpartition(".")
        load(home, f"[{name[0]}]\n{name[2]} = {value!r}\n", config={key: value})  # what stands there already is no choice
