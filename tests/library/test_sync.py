"""The library without async."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from understudy import sync
from understudy.library import agent as asynchronous
from understudy.sync import Question, Understudy, UnderstudyError
from understudy.testing import CodexHome


def agent(tmp_path: Path, *answers: Any, **choices: Any) -> Understudy:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(answers))
    config = {"model_provider": "scripted", "understudy.scripted_model": str(script)}
    (tmp_path / "work").mkdir()
    return Understudy(home=CodexHome(tmp_path / "home", config=config).path, folder=tmp_path / "work", **choices)


def test_everything_works_without_async_and_leaves_no_thread(tmp_path: Path) -> None:
    asking = {"command": ["touch", "made"], "with_escalated_permissions": True, "justification": "it is needed"}
    before = threading.active_count()
    answers = [{"call": "shell", "arguments": asking}, {"say": "Made."}, {"say": "Again."}]
    with agent(tmp_path, *answers, approval_policy="on-request") as understudy:
        conversation = understudy.start("Make it")
        kinds: list[str] = []
        for item in conversation.items():
            kinds.append(item.kind)
            if isinstance(item, Question):
                item.answer("approve")
        assert kinds == ["user_message", "question", "command", "message", "turn_end"]
        assert (tmp_path / "work" / "made").exists()
        conversation.send("Once more")
        assert conversation.result().text == "Again."
        fork = conversation.fork()
        fork.rename("A copy")
        assert {row.title for row in understudy.conversations()} == {"Make it", "A copy"}
        fork.archive()
        assert [row.id for row in understudy.conversations()] == [conversation.id]
        assert conversation.history()[-1].kind == "turn_end"
        assert not conversation.interrupt()
        with pytest.raises(UnderstudyError):
            conversation.undo()
        assert conversation.standing().messages == 4
    assert threading.active_count() == before


def test_outside_of_with_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match="use it within `with`"):
        agent(tmp_path).run("Do it")


def test_the_names_are_the_same_as_with_async() -> None:
    assert _public(sync.Understudy) == _public(asynchronous.Understudy)
    assert _public(sync.Conversation) == _public(asynchronous.Conversation)


def _public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_who_only_runs_the_program_loads_none_of_it() -> None:
    told = "import sys, understudy; print([name for name in sys.modules if name.startswith('understudy.')])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
