"""An approval question of the server, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

Decision = Literal["approved", "approved_for_session", "denied", "abort"]
Decide = Callable[["Question"], Decision]

_ACTIONS: dict[Decision, str] = {"approved": "accept", "approved_for_session": "accept", "denied": "decline", "abort": "cancel"}


class Question:
    """An `elicitation/create` request. Answer it by one of `approve`, `approve_for_session`, `deny` and `abort`."""

    def __init__(self, request: Mapping[str, Any], respond: Callable[[Mapping[str, Any], Mapping[str, Any]], None]) -> None:
        self.request = request
        self._respond = respond

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.request["params"])

    @property
    def message(self) -> str:
        """What a person is shown."""
        return str(self.params["message"])

    @property
    def kind(self) -> str | None:
        """`exec-approval`, `patch-approval` or `budget`; None for a question that is not codex's."""
        return self.params.get("codex_elicitation")

    @property
    def command(self) -> list[str] | None:
        """The command that wants to run."""
        return self.params.get("codex_command")

    @property
    def changes(self) -> dict[str, Any] | None:
        """The files that a patch wants to change, by path."""
        return self.params.get("codex_changes")

    @property
    def call_id(self) -> str | None:
        """The model's id for the call that is asked about."""
        return self.params.get("codex_call_id")

    @property
    def thread(self) -> str | None:
        return self.params.get("threadId")

    def approve(self) -> None:
        """Let it happen, this once."""
        self.decide("approved")

    def approve_for_session(self) -> None:
        """Let it happen, and the same again without a question until the conversation ends."""
        self.decide("approved_for_session")

    def deny(self) -> None:
        """Do not let it happen; the model is told so and goes on."""
        self.decide("denied")

    def abort(self) -> None:
        """Do not let it happen, and stop the turn."""
        self.decide("abort")

    def decide(self, decision: Decision) -> None:
        self.answer(decision_result(decision))

    def answer(self, result: Mapping[str, Any]) -> None:
        """Answer with a result of your own."""
        self._respond(self.request, result)


def decision_result(decision: Decision) -> dict[str, Any]:
    """In MCP's form, and also in the form that clients of codex use."""
    action = _ACTIONS[decision]
    result: dict[str, Any] = {"action": action, "decision": decision}
    return result | ({"content": {"decision": decision}} if action == "accept" else {})
