"""Where ours differs from the recorded `codex app-server` by intent. What is left after these changes has to match exactly.

`LEFT_OUT`, `FIELDS` and `IDS` hold for every recording and for what we say alike; `TABLE` changes the recordings that it names.
"""

import ast
import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from tests.golden.matchers import AtLeast, Begins, Matcher, Mentions

Json = dict[str, Any]


class Anything(Matcher):
    def fits(self, value: Any) -> bool:
        return True


LEFT_OUT = {
    "remoteControl/status/changed": "there is no remote control here",
    "account/rateLimits/updated": "providers' keys have no limits that we could tell",
    "thread/readState/changed": "which turns a person has read is the editor's to know",
    "thread/goal/cleared": "there are no goals here",
    "deprecationNotice": "nothing is deprecated: turns are read whole or by pages",
    "thread/settings/updated": "tests of their own say when it comes: upstream sends it before the answer, ours behind it",
    "warning": "the words of warnings are our own",
}

BY_CHANCE = {
    (
        "interrupt",
        "item/commandExecution/outputDelta",
    ): "the command is interrupted as soon as it is said to start; it may print before that",
}

FIELDS = {
    "reasoningEffort": "ours always says the effort that a turn would run with",
    "activePermissionProfile": "a matter of names: the sandbox itself is compared",
    "modelContextWindow": "what we know of a model is in another table",
    "processId": "commands that the model waits for have no number here",
    "source": "the same",
    "originator": "which client began a conversation is not kept",
    "readState": "which turns a person has read is the editor's to know",
    "readStates": "the same",
    "backwardsCursor": "ours are numbers",
    "turnsBackwardsCursor": "ours are numbers",
    "itemsBackwardsCursor": "ours are numbers",
    "initialTurnsPage": "only given with thread/resume",
    "collaborationMode": "told as it changes, and not yet in the answer to thread/resume",
    "proposedExecpolicyAmendment": "rules are the user's, in the configuration: a client cannot add any",
    "availableDecisions": "ours are all four, always",
    "environmentId": "only in questions about commands",
    "emittedAtMs": "the time of sending",
    "durationMs": "a time",
    "misalignment": "not judged here",
}


def alike(name: str, messages: list[Json]) -> list[Json]:
    """Both what was recorded and what we said, without what is not compared."""
    by_chance = {method for recording, method in BY_CHANCE if recording == name}
    kept = [message for message in messages if message.get("method") not in {*LEFT_OUT, *by_chance}]
    return [_without_phase(_without(message)) for message in kept]


def _without_phase(message: Json) -> Json:
    """That a text is commentary is known here once it is whole."""
    if message.get("method") == "item/started":
        message["params"]["item"].pop("phase", None)
    return message


def _without(value: Any) -> Any:
    match value:
        case dict():
            table = cast(Json, value)
            return {key: _without(each) for key, each in table.items() if not _is_left_out(key, each)}
        case list():
            return [_without(each) for each in cast(list[Any], value)]
        case str():
            return re.sub(r"^(msg|rs)_\d+$", r"\1", value)  # ours count through the thread, upstream's begin anew in each answer
        case _:
            return value


def _is_left_out(key: str, value: Any) -> bool:
    """Also the file of a thread, since conversations are in one store; and a phase that nobody named, told now and then only."""
    file = key == "path" and (value is None or str(value).endswith(".jsonl"))
    return key in FIELDS or file or (key == "phase" and value is None)


# -- changes of a recording

Change = Callable[[list[Json]], None]


@dataclass(frozen=True)
class Difference:
    reason: str
    changes: tuple[Change, ...]


def differs(reason: str, *changes: Change) -> Difference:
    return Difference(reason, changes)


def answered(number: int | str, **members: Any) -> Change:
    """Another answer to a request; one that had none gets it at the end of its session."""

    def change(session: list[Json]) -> None:
        said = {"server": {"id": number, **members}}
        for index, step in enumerate(session):
            if step.get("server", {}).get("id") == number and "method" not in step["server"]:
                session[index] = said
                return
        session.insert(len(session) - 1, said)

    return change


def fails(number: int | str, code: int, *words: str) -> Change:
    return answered(number, error=AtLeast({"code": code, "message": Mentions(*words)}))


def unknown(number: int | str, method: str) -> Change:
    return fails(number, -32601, f"method not found: {method}")


def without(fits: Callable[[Json], bool]) -> Change:
    """What ours does not say."""

    def change(session: list[Json]) -> None:
        session[:] = [step for step in session if "server" not in step or not fits(step["server"])]

    return change


def each(fits: Callable[[Json], bool], **members: Any) -> Change:
    """Other members in the params of what ours says too; a dotted name reaches into one of them."""

    def change(session: list[Json]) -> None:
        for step in session:
            if "server" in step and fits(step["server"]):
                for name, value in members.items():
                    *path, last = name.split("__")
                    place = step["server"]["params"]
                    for part in path:
                        place = place[part]
                    place[last] = value

    return change


def added_before(fits: Callable[[Json], bool], *messages: Json, at: int = 0) -> Change:
    """What ours says besides, before the `at`th message that fits."""

    def change(session: list[Json]) -> None:
        found = [index for index, step in enumerate(session) if "server" in step and fits(step["server"])]
        session[found[at] : found[at]] = [{"server": message} for message in messages]

    return change


def said(method: str, **params: Any) -> Callable[[Json], bool]:
    def fits(message: Json) -> bool:
        given = message.get("params", {})
        return message.get("method") == method and all(given.get(name) == value for name, value in params.items())

    return fits


def of_item(kind: str, *methods: str) -> Callable[[Json], bool]:
    def fits(message: Json) -> bool:
        return message.get("params", {}).get("item", {}).get("type") == kind and (not methods or message["method"] in methods)

    return fits


def once(session: list[Json]) -> None:
    """A diff that is the same as the one before it."""
    before: Any = None
    kept: list[Json] = []
    for step in session:
        message = step.get("server", {})
        if message.get("method") == "turn/diff/updated":
            if message["params"]["diff"] == before:
                continue
            before = message["params"]["diff"]
        kept.append(step)
    session[:] = kept


def item(method: str, turn: str, **members: Any) -> Json:
    """An item of ours that was not recorded."""
    began = method == "item/started"
    times = {"startedAtMs": "<ms>", "completedAtMs": None if began else "<ms>"}
    when = {"startedAtMs": "<ms>"} if began else {"completedAtMs": "<ms>"}
    return {"method": method, "params": {"item": {**members, **times}, "threadId": "<uuid-2>", "turnId": turn, **when}}


def at_its_end(message: Json) -> Change:
    """When the server ends: nobody waits for it."""
    return lambda session: session.insert(len(session) - 1, {"server": message, "late": True})


def printed(text: str, turn: str) -> Difference:
    """Upstream loses the first piece of a command's output."""
    params = {"threadId": "<uuid-2>", "turnId": turn, "itemId": "call_1", "delta": text}
    delta: Json = {"method": "item/commandExecution/outputDelta", "params": params}
    return differs("output is complete", added_before(of_item("commandExecution", "item/completed"), delta))


def cut_command(line: str, turn: str) -> Json:
    about: Json = {"pluginId": None, "scriptPath": None, "cwd": "<CWD>", "commandActions": [{"type": "unknown", "command": line}]}
    return item(
        "item/completed",
        turn,
        type="commandExecution",
        id="call_1",
        command=f"/bin/bash -lc '{line}'",
        status="failed",
        aggregatedOutput=Anything(),
        exitCode=Anything(),
        **about,
    )


def failed_turn(message: Any, info: Any) -> Json:
    return {"message": message, "codexErrorInfo": info, "additionalDetails": None}


REASON = differs(
    "the question says what an approval means, and marks the model's words as such",
    each(said("item/commandExecution/requestApproval"), reason=Mentions("outside the sandbox", "need it")),
)
UNCOUNTED = {
    "eof_busy": "what an answer took is counted also where the server ends while its command runs",
    "failures": "upstream counts a full context as a whole window, which nobody was charged for",
}

WORKSPACE: Json = {
    "type": "workspaceWrite",
    "writableRoots": [],
    "networkAccess": False,
    "excludeTmpdirEnvVar": False,
    "excludeSlashTmp": False,
}
NOWHERE = "thread not found: "


def first_line(number: int | str, text: str) -> Change:
    return answered(number, error=AtLeast({"code": -32600, "message": Begins(text)}))


def named(session: list[Json]) -> None:
    """A fork begins like its source up to the end of a turn, and this one was named after it."""
    for step in session:
        for thread in _threads(step.get("server", {})):
            if thread["forkedFromId"] is not None:
                thread["name"] = None


def listed(session: list[Json]) -> None:
    """What upstream leaves out of a thread that it has not loaded."""
    for step in session:
        for thread in _threads(step.get("server", {})):
            if thread.get("canAcceptDirectInput") is None:
                thread["canAcceptDirectInput"] = True
            if thread.get("environments") is None:
                thread["environments"] = [{"environmentId": "local", "cwd": "<CWD>", "runtimeWorkspaceRoots": ["<CWD>"]}]


def _threads(message: Json) -> list[Json]:
    result: Any = message.get("result", {})
    if not isinstance(result, dict):
        return []
    table = cast(Json, result)
    found: list[Any] = [table.get("thread"), message.get("params", {}).get("thread"), *table.get("data", [])]
    return [cast(Json, thread) for thread in found if isinstance(thread, dict) and "sessionId" in thread]


def in_a_turn_of_its_own(session: list[Json]) -> None:
    """What was joined to the running turn begins one after it."""
    second = "a second turn/start while busy"
    turn = next(step for step in session if step.get("server", {}).get("id") == 7)["server"]["result"]["turn"]
    turn.update(id="<uuid-70>", rootTurnId="<uuid-70>")
    apart = [step for step in session if second in str(step.get("server", {}).get("params", {}))]
    for step in apart:
        session.remove(step)
        step["server"]["params"]["turnId"] = "<uuid-70>"
    begun = copy.deepcopy(next(step for step in session if said("turn/started")(step.get("server", {}))))
    begun["server"]["params"]["turn"].update(id="<uuid-70>", rootTurnId="<uuid-70>")
    rest = [step for step in session if "heard both" in str(step) or of_item("agentMessage")(step.get("server", {}))]
    again: list[Json] = copy.deepcopy(rest)
    for step in again:
        text = str(step).replace("heard both", "heard the other").replace("<uuid-3>", "<uuid-70>")
        step.update(ast.literal_eval(text))
    states = [{"server": _state({"type": "active", "activeFlags": []})}, {"server": _state({"type": "idle"})}]
    total = {"totalTokens": 360, "inputTokens": 300, "cachedInputTokens": 120, "cacheWriteInputTokens": 0, "outputTokens": 60}
    last = {"totalTokens": 120, "inputTokens": 100, "cachedInputTokens": 40, "cacheWriteInputTokens": 0, "outputTokens": 20}
    usage = {"total": {**total, "reasoningOutputTokens": 21}, "last": {**last, "reasoningOutputTokens": 7}, "modelContextWindow": 1}
    counted = {"server": {"method": "thread/tokenUsage/updated", "params": {"tokenUsage": usage}}}
    session[len(session) - 1 : len(session) - 1] = [states[0], begun, *apart, *again, counted, states[1]]


def _state(status: Json) -> Json:
    return {"method": "thread/status/changed", "params": {"threadId": "<uuid-2>", "status": status}}


def config_of_ours(number: int) -> Change:
    wanted = {
        "config": AtLeast({"model": "gpt-5.5", "model_provider": "mock", "mcp_servers": Anything(), "model_providers": Anything()})
    }
    return answered(number, result=AtLeast({**wanted, "origins": {}}))


def models_of_ours(number: int, cursor: str | None = None) -> Change:
    shape = ("displayName", "description", "hidden", "defaultReasoningEffort", "supportedReasoningEfforts")
    model = {"id": "gpt-5.5", "model": "gpt-5.5", "isDefault": True, **{name: Anything() for name in shape}}
    return answered(number, result=AtLeast({"data": [AtLeast(model)], "nextCursor": cursor}))


def skills_of_ours(number: int) -> Change:
    return answered(number, result={"data": [{"cwd": "<CWD>", "skills": [], "errors": []}]})


def turn_of(session: list[Json], number: int) -> tuple[int, int]:
    """From the request that begins a turn to the next one, or to the end."""
    begin = next(index for index, step in enumerate(session) if step.get("client", {}).get("id") == number)
    later = (index for index, step in enumerate(session) if index > begin and ("client" in step or "stop" in step))
    return begin, next(later)


def refuses(number: int, *words: str) -> Change:
    """A turn that was begun there is refused here."""

    def change(session: list[Json]) -> None:
        begin, end = turn_of(session, number)
        session[begin + 1 : end] = [{"server": {"id": number, "error": AtLeast({"code": -32602, "message": Mentions(*words)})}}]

    return change


def tells_of_turn(number: int, *messages: Json, keep: int) -> Change:
    """Of the turn that this request begins, other messages behind the first ones."""

    def change(session: list[Json]) -> None:
        begin, end = turn_of(session, number)
        kept = [step for step in session[begin + 1 : end] if step["server"].get("method") != "thread/tokenUsage/updated"]
        session[begin + 1 : end] = [*kept[:keep], *({"server": message} for message in messages)]

    return change


def ended(turn: str, status: str, error: Json | None, *items: Json) -> Json:
    about: Json = {"id": turn, "rootTurnId": turn, "items": list(items), "itemsView": "summary" if items else "notLoaded"}
    times: Json = {"startedAt": "<unix s>", "completedAt": "<unix s>"}
    return {
        "method": "turn/completed",
        "params": {"threadId": "<uuid-2>", "turn": {**about, **times, "status": status, "error": error}},
    }


def broken(turn: str, error: Json) -> list[Json]:
    told = {"method": "error", "params": {"error": error, "willRetry": False, "threadId": "<uuid-2>", "turnId": turn}}
    return [_state({"type": "systemError"}), told, ended(turn, "failed", error)]


def spoken(turn: str, text: str) -> list[Json]:
    more: Json = {"memoryCitation": None, "delivery": None, "questions": None}
    message: Json = {"type": "agentMessage", "id": "msg_1", **more}
    delta = {"threadId": "<uuid-2>", "turnId": turn, "itemId": "msg_1", "delta": text}
    whole = {**message, "text": text, "startedAtMs": "<ms>", "completedAtMs": "<ms>"}
    return [
        item("item/started", turn, **message, text=""),
        {"method": "item/agentMessage/delta", "params": delta},
        item("item/completed", turn, **message, text=text),
        _state({"type": "idle"}),
        ended(turn, "completed", None, whole),
    ]


def nobodys(code: int) -> Change:
    """An answer to what has no id."""
    return lambda session: session.insert(len(session) - 1, {"server": {"id": None, "error": AtLeast({"code": code})}})


def whole_thread(number: int, turns: Any) -> Change:
    return answered(number, result={"thread": AtLeast({"turns": turns})})


def fork_preview(session: list[Json]) -> None:
    for step in session:
        for thread in _threads(step.get("server", {})):
            if thread["forkedFromId"] is not None:
                thread["preview"] = "first"


def shown_images(session: list[Json]) -> None:
    for step in session:
        item_ = step.get("server", {}).get("params", {}).get("item", {})
        if item_.get("type") == "userMessage":
            item_["content"] = [
                {"type": "image", "url": Begins("data:image/png;base64,"), "detail": None} if part["type"] != "text" else part
                for part in item_["content"]
            ]


def fine_again() -> list[Json]:
    turn = "<uuid-13>"
    begun: Json = {"id": turn, "rootTurnId": turn, "items": [], "itemsView": "notLoaded", "status": "inProgress", "error": None}
    text: Json = {"type": "userMessage", "id": "<uuid-15>", "clientId": None}
    text["content"] = [{"type": "text", "text": "fine", "text_elements": []}]
    return [
        {"id": 8, "result": {"turn": {**begun, "startedAt": None, "completedAt": None}}},
        _state({"type": "active", "activeFlags": []}),
        {
            "method": "turn/started",
            "params": {"threadId": "<uuid-2>", "turn": {**begun, "startedAt": "<unix s>", "completedAt": None}},
        },
        item("item/started", turn, **text),
        item("item/completed", turn, **text),
        *spoken(turn, "fine again"),
    ]


NO_KEY = failed_turn(Begins("HTTP 401: Incorrect API key"), {"httpConnectionFailed": {"httpStatusCode": 401}})
FULL = failed_turn(Begins("HTTP 400: too long\nThe model's context is full"), "contextWindowExceeded")
BAD = failed_turn("HTTP 400: bad thing", "other")
CORES = "the catalogue, the configuration and the skills are our own"

TABLE: dict[str, tuple[Difference, ...]] = {
    "handshake": (
        differs(
            "errors have the codes of JSON-RPC, and do not list every method", unknown(4, "no/such"), fails(5, -32602, "params.cwd")
        ),
        differs("the sandbox is workspace-write unless configured", lambda session: _result(session, 6).update(sandbox=WORKSPACE)),
        differs("params may be missing where none are needed", answered(9, result={"data": ["<uuid-2>"], "nextCursor": None})),
        differs("what is no message gets an answer", *(nobodys(code) for code in (-32700, -32600, -32600))),
    ),
    "command_approvals": (REASON,),
    "patch_approvals": (
        differs(
            "the question says why it is put, and what would change",
            each(said("item/fileChange/requestApproval"), reason=Mentions("the sandbox is read-only", "- add ")),
        ),
        differs("a diff comes when it has changed", once),
        differs(
            "every item that begins is completed",
            added_before(
                said("turn/completed"),
                item(
                    "item/completed",
                    "<uuid-3>",
                    type="fileChange",
                    id="c3",
                    changes=[{"path": "<CWD>/three.txt", "kind": {"type": "add"}, "diff": "3\n"}],
                    status="declined",
                ),
            ),
        ),
    ),
    "patch_items": (
        differs(
            "a diff comes when it has changed; its files are in our order",
            once,
            each(said("turn/diff/updated"), diff=Mentions("new.txt")),
        ),
        differs(
            "a patch that does not apply is an item",
            added_before(
                of_item("agentMessage", "item/started"),
                *(
                    item(
                        method,
                        "<uuid-3>",
                        type="fileChange",
                        id="call_2",
                        changes=[{"path": "<CWD>/nope.txt", "kind": {"type": "update", "move_path": None}, "diff": ""}],
                        status="failed",
                    )
                    for method in ("item/started", "item/completed")
                ),
            ),
        ),
    ),
    "items": (
        differs(
            "servers are started for a turn, and told of when they are ready",
            without(said("mcpServer/startupStatus/updated", status="starting")),
        ),
        differs("searches of the provider are not shown", without(of_item("webSearch"))),
        differs("output is complete", each(said("item/commandExecution/outputDelta"), delta="one\ntwo\n")),
    ),
    "interrupt": (
        differs(
            "the command that was interrupted is completed",
            added_before(said("turn/completed"), cut_command("echo started; sleep 30", "<uuid-3>")),
        ),
    ),
    "eof_busy": (
        differs(
            "the end is told to a client that still reads",
            at_its_end(cut_command("sleep 3; touch late", "<uuid-3>")),
            at_its_end(_state({"type": "idle"})),
            at_its_end(ended("<uuid-3>", "interrupted", None)),
        ),
    ),
    "steer": (differs("`turn/start` begins a turn of its own, after the running one", in_a_turn_of_its_own),),
    "threads": (
        differs("a thread that is not loaded looks like one that is", listed),
        differs("a fork has no name that its source was given after its last turn", named),
        differs("turns can be read at every time, of ephemeral threads too", whole_thread(3, []), whole_thread(12, Anything())),
        differs("a fork shows its first message", fork_preview),
        differs(
            "one text for a thread that is not there",
            first_line(18, NOWHERE),
            first_line(19, NOWHERE),
            first_line(20, "invalid thread id: "),
        ),
        differs("the text says what to do", first_line(24, NOWHERE)),
        differs(
            "a thread can be deleted that others were forked from",
            answered(28, result={}),
            first_line(29, NOWHERE),
            lambda session: session.insert(
                len(session) - 1, {"server": {"method": "thread/deleted", "params": {"threadId": "<uuid-2>"}}}
            ),
        ),
    ),
    "failures": (
        differs("a failure is told by its status and the provider's words", tells_of_turn(3, *broken("<uuid-3>", BAD), keep=5)),
        differs("401 is not tried again", tells_of_turn(6, *broken("<uuid-9>", NO_KEY), keep=5)),
        differs("a full context is told in the provider's words", tells_of_turn(7, *broken("<uuid-11>", FULL), keep=5)),
        differs(
            "a full context is made room in when the provider says so again, not by a guess",
            tells_of_turn(8, *fine_again(), keep=0),
        ),
    ),
    "inputs": (
        differs("images are shown as what the model is given", shown_images),
        printed("<CWD>/sub\n", "<uuid-9>"),
        differs("an image that cannot be read is an error", refuses(7, "none.png")),
        differs("a turn needs an input", refuses(8, "`input` is empty")),
        differs("what is wrong is told by -32602", fails(9, -32602, "nonsense")),
    ),
    "startup": (
        differs(CORES, models_of_ours(3), models_of_ours(4), config_of_ours(5), skills_of_ours(6)),
        differs(
            "methods that are not offered say so at once",
            unknown(7, "mcpServerStatus/list"),
            unknown(8, "account/rateLimits/read"),
            unknown(11, "configRequirements/read"),
            unknown(12, "gitDiffToRemote"),
            unknown(13, "fuzzyFileSearch"),
        ),
    ),
    "account": (differs("no WebSocket is tried, so nothing has to be tried again", without(said("error"))),),
    "python_twice": (differs("a thread that is not loaded looks like one that is", listed),),
    "editor_acp": (
        differs(CORES, config_of_ours(1), config_of_ours(4), models_of_ours(6), skills_of_ours(7), skills_of_ours(9)),
        differs(
            "the question says what an approval means",
            each(said("item/commandExecution/requestApproval"), reason=Mentions("outside the sandbox", "because")),
            each(said("item/fileChange/requestApproval"), reason=Mentions("the sandbox is read-only")),
        ),
        differs("a diff comes when it has changed", once),
        differs("the sandbox is workspace-write unless configured", lambda session: _result(session, 10).update(sandbox=WORKSPACE)),
        printed("hi\n", "<uuid-3>"),
    ),
}


def _result(session: list[Json], number: int | str) -> Json:
    return next(
        step["server"]["result"] for step in session if step.get("server", {}).get("id") == number and "result" in step["server"]
    )


def change(name: str, recording: Json) -> None:
    session: list[Json] = recording["session"]
    for step in session:
        if "server" in step and "userAgent" in step["server"].get("result", {}):
            step["server"]["result"]["userAgent"] = "<text>"
    for difference in TABLE.get(name, ()):
        for each_change in difference.changes:
            each_change(session)
