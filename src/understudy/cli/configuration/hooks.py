"""`understudy hooks`: lists the hooks of a folder, tries them, and trusts them one by one."""

import asyncio
import json
import os
import sys
import uuid
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec

from understudy.cli.running.surroundings import tool_settings
from understudy.cli.tell.terminal import one_line
from understudy.config.home import find_home, user_home
from understudy.config.hooks.entries import EVENTS, Event, Hook
from understudy.config.hooks.files import read_hook_file
from understudy.config.load import load_config
from understudy.config.model import Config
from understudy.engine.hooks.answers import HookAnswer, Ran, read_answer
from understudy.engine.hooks.loading import LoadedHooks, hook_trust, load_hooks, untrusted_folders
from understudy.engine.hooks.matching import is_about, matches
from understudy.engine.hooks.rows import row_of
from understudy.engine.hooks.running import containment_of, environment, run_hook
from understudy.errors import BadRequest
from understudy.places.resolving import is_within
from understudy.protocol.records import Overrides
from understudy.sandbox.cell import trees
from understudy.sandbox.runner import Sandbox
from understudy.store.place import prepare_folder
from understudy.tools.host import ToolSettings


def config_of(options: Namespace) -> Config:
    """Raises `ConfigError`."""
    return load_config(find_home(os.environ), Overrides(model="none", cwd=options.cwd), server_cwd=Path.cwd(), env=os.environ)


def hooks_of(config: Config) -> LoadedHooks:
    """Raises `ConfigError`."""
    return load_hooks(config.cwd, config.home, os.environ, config.hooks, untrusted_folders(config.projects))


def run_list(options: Namespace) -> int:
    config = config_of(options)
    loaded = hooks_of(config)
    if options.json:
        rows: list[dict[str, Any]] = [row_of(each, order) for order, each in enumerate(loaded.judged)]
        print(json.dumps({"cwd": str(config.cwd), "hooks": rows, "warnings": list(loaded.problems), "errors": []}, indent=2))
        return 0
    for each in loaded.judged:
        hook = each.hook
        state = "counts" if each.counts else "switched off" if not each.enabled else each.standing
        about = f" ({hook.matcher})" if hook.matcher else ""
        print(one_line(f"{state:12} {hook.event}{about}: {hook.command}"))
        print(one_line(f"{'':12} {hook.key}"))
    if not loaded.judged:
        print("There are no hooks here.", file=sys.stderr)
    for notice in loaded.notices:
        print(one_line(notice), file=sys.stderr)
    return 0


def run_trust(options: Namespace) -> int:
    config = config_of(options)
    judged = {each.hook.key: each for each in hooks_of(config).judged}
    found = judged.get(options.key)
    if found is None:
        there = "".join(f"\n  {key}" for key in judged)
        raise BadRequest(f"there is no hook {options.key} in {config.cwd}" + (f"; there are{there}" if there else ""))
    if found.hook.file.source == "user":
        print(f"it is in a file of your own, and counts already: {one_line(options.key)}")
        return 0
    hook_trust(config.home).trust({found.hook.key: found.digest})
    print(one_line(f"trusted: {found.hook.key}: {found.hook.command}"))
    return 0


ALLOWED, BROKEN, BLOCKED = 0, 1, 2
_ALSO = {"apply_patch": ("Edit", "Write"), "Edit": ("apply_patch",), "Write": ("apply_patch",), "shell": ("Bash",)}
_TOOL: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "echo hello"}, "tool_use_id": "call-test"}
_SAMPLES: dict[Event, dict[str, Any]] = {
    "PreToolUse": _TOOL,
    "PermissionRequest": {key: _TOOL[key] for key in ("tool_name", "tool_input")},
    "PostToolUse": {**_TOOL, "tool_response": "hello\n"},
    "PostToolUseFailure": {**_TOOL, "error": "it failed", "is_interrupt": False},
    "UserPromptSubmit": {"prompt": "hello"},
    "Stop": {"stop_hook_active": False, "last_assistant_message": "Done."},
    "SessionStart": {"source": "startup"},
    "PreCompact": {"trigger": "manual"},
}


def run_test(options: Namespace) -> int:
    file = Path(options.file).absolute()
    entries = read_hook_file(file)
    for problem in entries.problems:
        print(one_line(problem), file=sys.stderr)
    config = config_of(options)
    said = _input(options.input)
    named = cast("Event | None", options.event or said.get("hook_event_name"))
    if named is not None and named not in EVENTS:
        raise BadRequest(f"the event {named} is not known here; there are {', '.join(EVENTS)}")
    hooks = [_as_own(hook, config) for hook in entries.hooks if named is None or hook.event == named]
    if not hooks:
        print("no hook of this file is about that", file=sys.stderr)
        return BROKEN if entries.problems else ALLOWED
    prepare_folder(config.state_dir)
    private_tmp = config.state_dir / "tmp" / f"hooks-{uuid.uuid4()}"
    private_tmp.mkdir(mode=0o700, parents=True)
    try:
        answers = asyncio.run(_run_all(hooks, said, config, tool_settings(config, private_tmp), str(private_tmp)))
    finally:
        trees.set_aside(str(private_tmp))
        trees.remove_set_aside(str(private_tmp.parent))
    if not answers:
        print("no hook of this file matches that", file=sys.stderr)
    broken = any(answer.status == "failed" for answer in answers) or bool(entries.problems)
    blocked = any(answer.decision in ("deny", "ask") and answer.status != "failed" for answer in answers)
    return BLOCKED if blocked else BROKEN if broken else ALLOWED


def _input(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    try:
        value = json.loads(sys.stdin.read() if name == "-" else Path(name).read_text())
    except OSError as error:
        raise BadRequest(f"cannot read {name}: {error.strerror}") from None
    except ValueError as error:
        raise BadRequest(f"{name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{name} should hold one JSON object")
    return cast(dict[str, Any], value)


def _as_own(hook: Hook, config: Config) -> Hook:
    """Outside the user's own folders a hook counts as a project's and runs in the sandbox."""
    path = os.path.realpath(hook.file.path)
    homes = (str(config.home), f"{user_home(os.environ)}/.claude")
    if any(is_within(path, os.path.realpath(home)) for home in homes):
        return hook
    file = msgspec.structs.replace(hook.file, source="project", folder=str(config.cwd))
    return msgspec.structs.replace(hook, file=file)


async def _run_all(
    hooks: Sequence[Hook], said: Mapping[str, Any], config: Config, settings: ToolSettings, private_tmp: str
) -> list[HookAnswer]:
    sandbox = Sandbox()
    answers: list[HookAnswer] = []
    try:
        for hook in hooks:
            told: dict[str, Any] = {
                "session_id": "test",
                "transcript_path": None,
                "cwd": settings.cwd,
                "hook_event_name": hook.event,
                "permission_mode": "default",
                **(_SAMPLES[hook.event] if not said else {}),
                **said,
            }
            if not _is_meant(hook, told):
                continue
            env = environment(hook, settings.environment, settings.cwd, "test")
            containment = containment_of(hook, settings, private_tmp)
            if containment is not None:
                containment = replace(containment, private_tmp=private_tmp)
            payload = msgspec.json.encode(told)
            ran = await run_hook(
                hook, payload, sandbox=sandbox, cwd=settings.cwd, env=env, containment=containment, owner="hooks test"
            )
            answer = read_answer(hook.event, hook.file.family, ran)
            answers.append(answer)
            _tell(hook, ran, answer)
    finally:
        await sandbox.close()
    return answers


def _is_meant(hook: Hook, told: Mapping[str, Any]) -> bool:
    name = told.get("tool_name") or told.get("source") or told.get("trigger") or ""
    names = (str(name), *_ALSO.get(str(name), ()))
    given = told.get("tool_input")
    return matches(hook, names) and is_about(hook, names, cast(Mapping[str, Any], given) if isinstance(given, Mapping) else {})


def _tell(hook: Hook, ran: Ran, answer: HookAnswer) -> None:
    did = {"deny": "blocks", "ask": "asks"}.get(answer.decision, "allows")
    state = f"failed, so a person is asked: {answer.reason}" if answer.status == "failed" else did
    words = f": {answer.reason}" if answer.reason and answer.status != "failed" else ""
    print(one_line(f"{hook.key}: {state}{words} ({ran.seconds * 1000:.0f} ms)"))
    for label, text in (("for the model", answer.context), ("for the user", answer.warning)):
        if text:
            print(one_line(f"  {label}: {text}"))
    if answer.changed is not None:
        print(one_line(f"  instead: {msgspec.json.encode(answer.changed).decode()}"))
