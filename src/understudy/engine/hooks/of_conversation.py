"""The hooks of one conversation, while this process has it: which of them count, what they are told, and running them."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from understudy.config.hooks.entries import Event, Hook, snake_case
from understudy.config.model import Config
from understudy.engine.hooks.answers import HookAnswer, Ran, read_answer
from understudy.engine.hooks.calls import View
from understudy.engine.hooks.loading import JudgedHook, LoadedHooks, load_hooks, untrusted_folders, whole_digest
from understudy.engine.hooks.running import containment_of, environment, run_hook, scripts_of, words_of
from understudy.engine.hooks.transcript import INSIDE, Transcript
from understudy.engine.log.fold import State
from understudy.errors import SandboxError
from understudy.places.resolving import is_within
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import HookRan, Question, Record
from understudy.sandbox.spec import Temporary
from understudy.tools.acts.dependencies import beside_the_loop
from understudy.tools.host import ApprovalAnswer, RunsCommands, ToolSettings

AT_ONCE = 16  # hooks of one conversation
CHANGED = "it or its script has changed since you trusted it, so it was not run"
BESIDE = "-hooks"  # added to the name of the conversation's own /tmp: a folder for transcripts and the /tmp of contained hooks


class HookHost(Protocol):
    """The turn, as hooks see it."""

    turn_id: str

    @property
    def settings(self) -> ToolSettings: ...

    @property
    def owner(self) -> str: ...

    @property
    def sandbox(self) -> RunsCommands: ...

    @property
    def state(self) -> State: ...

    def record(self, *records: Record) -> None: ...

    async def ask(self, question: Question) -> ApprovalAnswer: ...


# Fields that Claude Code sends its hooks and for which we have no value.
_WITHOUT_EFFORT = frozenset(("SessionStart", "UserPromptSubmit", "PreCompact"))
_ALWAYS_TOLD: Mapping[str, Mapping[str, Any]] = {
    "PermissionRequest": {"permission_suggestions": []},
    "Stop": {"background_tasks": [], "session_crons": []},
}


class Meant(msgspec.Struct, frozen=True):
    """A hook that will run, and what it is told."""

    judged: JudgedHook
    order: int
    payload: Mapping[str, Any]
    call_id: str = ""
    tool: str = ""
    view: View | None = None  # set for a call

    @property
    def hook(self) -> Hook:
        return self.judged.hook


class Said(msgspec.Struct, frozen=True):
    """A hook and its answer."""

    meant: Meant
    answer: HookAnswer
    record: HookRan


class ConversationHooks:
    def __init__(self, loaded: LoadedHooks, config: Config, conversation_id: ConversationId, private_tmp: Path) -> None:
        self.may_allow = config.hooks_may_allow
        self.conversation_id = conversation_id
        self.untold = loaded.notices  # until they are told
        self.started = False  # SessionStart has run in this process
        self.started_at = 0  # the request at which it ran
        self._model, self._effort = config.model, config.model_reasoning_effort
        self._hooks = [each for each in loaded.judged if each.counts]
        self._events = {each.hook.event for each in self._hooks}
        self._scripts = {script for each in self._hooks if each.hook.file.source == "user" for script in scripts_of(each.hook)}
        self._kept = frozenset[str]()
        self._done: set[str] = set()  # keys of hooks that run once and have run
        self._room = asyncio.Semaphore(AT_ONCE)
        self._folder = Path(f"{private_tmp}{BESIDE}")
        self._transcript = Transcript(self._folder, str(conversation_id))

    def keep_scripts(self, config: Config) -> frozenset[str]:
        """The scripts of the user's own hooks that lie in a root of this conversation. In other conversations they run with the
        user's rights, so no conversation may write them.
        """
        roots = [os.path.realpath(root) for root in (config.cwd, *config.sandbox.writable_roots)] if self._scripts else []
        self._kept = frozenset(script for script in self._scripts if any(is_within(script, root) for root in roots))
        return self._kept

    def has(self, *events: Event) -> bool:
        return not self._events.isdisjoint(events)

    def of(self, event: Event) -> list[tuple[int, JudgedHook]]:
        """Hooks for this event in file order, each with its index."""
        return [
            (order, each) for order, each in enumerate(self._hooks) if each.hook.event == event and each.hook.key not in self._done
        ]

    def told(self, hook: Hook, host: HookHost, more: Mapping[str, Any]) -> dict[str, Any]:
        """What a hook is told, in the shape of its family. The transcript's path is filled in by `run`."""
        event, settings = hook.event, host.settings
        mode = "plan" if settings.plans else "bypassPermissions" if settings.approval_policy == "never" else "default"
        told: dict[str, Any] = {"session_id": str(self.conversation_id)}
        if hook.file.family == "codex":
            if event != "SessionStart":
                told["turn_id"] = host.turn_id
            told |= {"transcript_path": None, "cwd": settings.cwd, "hook_event_name": event, "model": self._model}
        else:
            told |= {"transcript_path": None, "cwd": settings.cwd, "hook_event_name": event}
            told |= {} if event == "SessionStart" else {"prompt_id": host.turn_id}
            told |= {} if event in _WITHOUT_EFFORT else {"effort": {"level": self._effort}}
            told |= _ALWAYS_TOLD.get(event, {})
        if event != "PreCompact" and not (event == "SessionStart" and hook.file.family == "claude"):
            told["permission_mode"] = mode
        return {**told, **more}

    async def run(self, meant: Sequence[Meant], host: HookHost, detached: Callable[[Awaitable[None]], None]) -> list[Said]:
        """Run all of them concurrently and return the answers in file order. Their effects are recorded once all have ended;
        detached hooks are not waited for.
        """
        if meant:
            meant = [await self._with_transcript(each, host) for each in meant]
            await self._transcript.write(host.state, host.settings.places.doer)
        waited = [each for each in meant if not each.hook.detached]
        for each in meant:
            if each.hook.once:
                self._done.add(each.hook.key)
            if each.hook.detached:
                detached(self._run_detached(each, host))
        if not waited:
            return []
        if len(waited) == 1:
            said = [await self._run_one(waited[0], host)]
        else:
            tasks = [asyncio.ensure_future(self._run_one(each, host)) for each in waited]
            try:
                said = list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        return said

    async def _with_transcript(self, meant: Meant, host: HookHost) -> Meant:
        settings, folder = host.settings, str(self._folder / INSIDE)
        containment = containment_of(meant.hook, settings, folder, self._kept)
        private: Temporary | None = None
        if containment is not None:
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                private = await host.sandbox.temporary(containment, settings.cwd)
            except (OSError, SandboxError):
                return meant  # the hook cannot be run either, and says why
        payload = {**meant.payload, "transcript_path": self._transcript.path_for(meant.hook, private)}
        return msgspec.structs.replace(meant, payload=payload)

    async def _run_detached(self, meant: Meant, host: HookHost) -> None:
        said = await self._run_one(meant, host)
        host.record(msgspec.structs.replace(said.record, detached=True, context="", changed=None, asks=False))

    async def _run_one(self, meant: Meant, host: HookHost) -> Said:
        async with self._room:
            began = time.time()
            ran = await self._run(meant, host)
        hook = meant.hook
        answer = read_answer(hook.event, hook.file.family, ran)
        return Said(meant, answer, _record(meant, answer, began, ran.seconds))

    async def _run(self, meant: Meant, host: HookHost) -> Ran:
        hook, settings = meant.hook, host.settings
        digest = partial(whole_digest, hook)
        if hook.file.source == "project" and await beside_the_loop(words_of(hook), digest) != meant.judged.digest:
            return Ran(-1, problem=CHANGED)
        env = environment(hook, settings.environment, settings.cwd, str(self.conversation_id))
        containment = containment_of(hook, settings, str(self._folder / INSIDE), self._kept)
        payload = msgspec.json.encode(meant.payload)
        return await run_hook(
            hook, payload, sandbox=host.sandbox, cwd=settings.cwd, env=env, containment=containment, owner=host.owner
        )


def _record(meant: Meant, answer: HookAnswer, began: float, seconds: float) -> HookRan:
    hook = meant.hook
    name = _dashed(hook.event)
    return HookRan(
        f"{name}:{meant.order}:{hook.file.path}" + (f":{meant.call_id}" if meant.call_id else ""),
        hook.event,
        hook.key,
        answer.status,
        meant.order,
        hook.file.path,
        hook.file.source,
        began,
        round(seconds, 4),
        meant.call_id,
        meant.tool,
        answer.reason,
        answer.context,
        answer.warning,
        asks=answer.decision == "ask",
        changed=None if answer.changed is None else dict(answer.changed),
        status_message=hook.status_message,
    )


def _dashed(event: str) -> str:
    return snake_case(event).replace("_", "-")


def open_hooks(
    config: Config, env: Mapping[str, str], conversation_id: ConversationId, private_tmp: Path
) -> ConversationHooks | None:
    """None if there are neither hooks nor notices about them. Raises `ConfigError`."""
    loaded = load_hooks(config.cwd, config.home, env, config.hooks, untrusted_folders(config.projects), only_to_run=True)
    if not loaded.notices and not any(each.counts for each in loaded.judged):
        return None
    return ConversationHooks(loaded, config, conversation_id, private_tmp)
