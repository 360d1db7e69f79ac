"""What the slash commands do."""

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from understudy.cli.chat.chat import Chat
from understudy.cli.chat.teller import ChatTeller, Fold
from understudy.cli.chat.typed import KEYS, Called, help_lines
from understudy.cli.exec.input import read_images
from understudy.cli.parsing import nearest
from understudy.cli.tell.listing import ago, unique_length
from understudy.cli.tell.record_teller import RecordTeller
from understudy.cli.tell.terminal import cost_text, one_line, shorten, tokens_text
from understudy.engine.handle import Handle
from understudy.errors import BadRequest
from understudy.protocol.callers import LOCAL
from understudy.protocol.choices import APPROVAL_POLICIES, SANDBOX_MODES, ApprovalPolicy, SandboxMode
from understudy.protocol.ids import ConversationId
from understudy.protocol.records import DiffChanged, Overrides, PatchApprovalAsked, PlanUpdated
from understudy.servers.given_images import places_for
from understudy.store.lookup import find_id

MOST_LISTED = 12
_NEXT = "from your next message on"


class Actions:
    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._listed: list[ConversationId] = []  # the last list of /resume

    def carry_out(self, called: Called) -> None:
        acts: dict[str, Callable[[Called], Coroutine[Any, Any, None]]] = {
            "help": self._help,
            "model": self._model,
            "approvals": self._approvals,
            "plan": self._plan,
            "diff": self._diff,
            "undo": self._undo,
            "show": self._show,
            "cost": self._cost,
            "compact": self._compact,
            "image": self._image,
            "queue": self._queue,
            "resume": self._resume,
            "fork": self._fork,
            "new": self._new,
            "quit": self._quit,
        }
        act = acts[called.slash.name]
        begin = self._chat.begin if called.slash.name == "quit" else self._chat.begin_line  # slow actions must not delay leaving
        begin(lambda: act(called))

    @property
    def _teller(self) -> ChatTeller:
        return self._chat.showing.teller

    def _say(self, text: str) -> None:
        self._chat.showing.say(text)

    # -- looking

    async def _help(self, called: Called) -> None:
        rows = [*KEYS, ("", ""), *help_lines(), *self._chat.help_lines()]
        console = self._teller.console
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", min_width=9, max_width=max(console.width // 3, 9))
        table.add_column()
        for name, about in rows:
            table.add_row(name, about)
        self._teller.aside("Keys and commands")
        console.print(Padding(table, (0, 0, 0, 2)))

    async def _plan(self, called: Called) -> None:
        if called.rest:
            if called.rest not in ("on", "off"):
                raise BadRequest(f"/plan takes on or off, not {one_line(called.rest)}")
            self._chat.choose(Overrides(mode="plan" if called.rest == "on" else "default"))
            self._say(f"plan mode {called.rest}, {_NEXT}")
            return
        entry = self._chat.showing.plan
        if entry is None or not isinstance(entry.record, PlanUpdated):
            self._say("there is no plan yet")
            return
        RecordTeller(self._teller, "").tell(entry.record)

    async def _diff(self, called: Called) -> None:
        diffs = self._chat.showing.diffs
        if not diffs:
            self._say("no file was changed by a patch in this conversation")
            return
        wanted = list(diffs.values()) if called.words[:1] == ["all"] else list(diffs.values())[-1:]
        teller = self._all_of()
        for seq in wanted:
            for entry in await self._chat.handle.read(seq - 1, 1):
                if isinstance(entry.record, DiffChanged):
                    teller.aside(f"changed by turn {entry.turn}:")
                    teller.turn_diff(entry.record.unified_diff)

    async def _show(self, called: Called) -> None:
        folds = self._chat.showing.folds
        text = called.rest.lstrip("#")
        number = int(text) if text.isdecimal() and len(text) < 9 else 0 if text else len(folds)
        fold = folds.find(number)
        if fold is None:
            raise BadRequest(f"nothing is folded under {text or 'any number'}; there are {len(folds)}")
        await self._unfold(fold)

    def show_next(self) -> None:
        """Called by a key."""
        self._chat.begin_line(self._unfold_next)

    async def _unfold_next(self) -> None:
        fold = self._chat.showing.folds.next_to_open()
        if fold is None:
            self._say("nothing more is folded")
        else:
            await self._unfold(fold)

    async def _unfold(self, fold: Fold) -> None:
        teller = self._all_of()
        for entry in await self._chat.handle.read(fold.seq - 1, 1):
            teller.expect(entry, fold.title)
            if isinstance(entry.record, PatchApprovalAsked):
                for path, change in entry.record.changes.items():
                    teller.change(path, change, 0, exact=True)
            else:
                RecordTeller(teller, self._chat.handle.facts.cwd).tell(entry.record)

    def _all_of(self) -> ChatTeller:
        """A teller that folds nothing."""
        teller = ChatTeller(self._teller.console, self._chat.showing.folds, cwd=self._chat.handle.facts.cwd)
        teller.shows_all = True
        return teller

    async def _cost(self, called: Called) -> None:
        """Tokens as shown on the screen. The index, which also has the cost, may be slightly behind, or ahead for another
        process."""
        listed = await self._chat.engine.log.find(self._chat.handle.id)
        usage = self._chat.showing.usage
        if usage is None:
            self._say("nothing is known of what was used yet")
            return
        in_index = None if listed is None else listed.summary.tokens
        told = f"{tokens_text(max(usage.total_tokens, in_index or 0))} tokens"
        if listed is not None and (cost := cost_text(listed.summary.cost_usd)):
            told += f", {cost}"
        told += f" ({tokens_text(usage.input_tokens)} in, {tokens_text(usage.output_tokens)} out)"
        if listed is not None and in_index is not None and listed.summary.cost_usd is None:
            told += "; the price of this model is not known"
        self._say(told)

    # -- changing

    async def _model(self, called: Called) -> None:
        if not called.rest:
            self._say(f"model: {self._chat.model()}. Another one: /model NAME; `understudy model list` has names")
            return
        self._chat.choose(Overrides(model=called.rest))
        self._say(f"model: {called.rest}, {_NEXT}")

    async def _approvals(self, called: Called) -> None:
        facts, chosen = self._chat.handle.facts, self._chat.chosen or Overrides()
        policy, sandbox = chosen.approval_policy or facts.approval_policy, chosen.sandbox or facts.sandbox
        if not called.words:
            self._say(
                f"asked: {policy} (of {', '.join(APPROVAL_POLICIES)})\nwritten: {sandbox} (of {', '.join(SANDBOX_MODES)})\n"
                "Change it: /approvals POLICY, /approvals SANDBOX, or both"
            )
            return
        for word in called.words:
            if word in APPROVAL_POLICIES:
                self._chat.choose(Overrides(approval_policy=cast(ApprovalPolicy, word)))
            elif word in SANDBOX_MODES:
                self._chat.choose(Overrides(sandbox=cast(SandboxMode, word)))
            else:
                known = (*APPROVAL_POLICIES, *SANDBOX_MODES)
                near = nearest(word, known)
                raise BadRequest(f"{word} is none of {', '.join(known)}" + (f"; did you mean {near}?" if near else ""))
        self._say(f"{', '.join(called.words)}, {_NEXT}")

    async def _compact(self, called: Called) -> None:
        await self._chat.handle.compact()

    async def _undo(self, called: Called) -> None:
        """The outcome is a record, and is shown as one."""
        if self._chat.works:
            raise BadRequest("a turn is at work: interrupt it first (Esc), or wait for its end")
        await self._chat.handle.undo(called.rest)

    async def _image(self, called: Called) -> None:
        self._chat.images += image_urls([called.rest], self._chat.handle)
        self._say(f"{one_line(called.rest)} goes with your next message")

    async def _queue(self, called: Called) -> None:
        if not called.rest:
            raise BadRequest("/queue needs a text")
        if self._chat.works:
            self._chat.queue(called.rest)
        else:
            await self._chat.send(called.rest)

    # -- other conversations

    async def _resume(self, called: Called) -> None:
        if not called.rest:
            await self._list()
            return
        number = int(called.rest) if called.rest.isdecimal() and len(called.rest) < 4 else 0
        if 0 < number <= len(self._listed):
            wanted = self._listed[number - 1]
        else:
            wanted = await find_id(self._chat.engine.log, called.rest)
        await self._chat.attach(await self._chat.engine.find(LOCAL, wanted))
        self._say(f"this is conversation {wanted}")

    async def _list(self) -> None:
        page = await self._chat.engine.list(LOCAL, MOST_LISTED)
        rows = [listed for listed in page.rows if listed.conversation_id != self._chat.handle.id]
        if not rows:
            self._say("there is no other conversation")
            return
        self._listed = [listed.conversation_id for listed in rows]
        length = unique_length(self._listed, self._listed)
        self._teller.aside("/resume N goes on with one of them:")
        now = time.time()
        console = self._teller.console
        for number, listed in enumerate(rows, 1):
            standing = await self._chat.engine.standing_of(listed)
            listed, status = standing.listed, standing.status
            state = "" if status == "idle" else f", {status}"
            line = f"{number:>4}  {listed.conversation_id[:length]}  {one_line(listed.summary.title)}"
            when = f"  ({ago(now - listed.updated_at)}{state})"
            console.print(Text.assemble(shorten(line, max(console.width - len(when) - 1, 20)), (when, "dim")), soft_wrap=True)

    async def _fork(self, called: Called) -> None:
        before = self._chat.handle.id
        handle = await self._chat.engine.fork(LOCAL, before)
        await self._chat.attach(handle)
        self._say(f"this is a copy, {handle.id}; the first one is still there: /resume {before[:8]}")

    async def _new(self, called: Called) -> None:
        await self._chat.open_new()
        self._say(f"a new conversation, {self._chat.handle.id}")

    async def _quit(self, called: Called) -> None:
        self._chat.leave()


def image_urls(paths: Sequence[str], handle: Handle) -> list[str]:
    """Raises `BadRequest`."""
    return read_images(paths, lambda: places_for(handle))
