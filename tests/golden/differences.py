"""Where ours differs from the recorded server by intent: each difference changes the recording, and says why.

What is left after these changes has to match exactly. `COMMON` holds for every recording, `TABLE` for those it names.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.golden import commands, common, conversations, servers, turns
from tests.golden.edits import Change, command_end, exec_output, files, hinted, hints, reword, tool_output, without_events
from tests.golden.matchers import Mentions
from tests.golden.recording import Recording


@dataclass(frozen=True)
class Difference:
    reason: str
    changes: tuple[Change, ...]

    def apply(self, recording: Recording) -> None:
        for change in self.changes:
            change(recording)


def differs(reason: str, *changes: Change) -> Difference:
    return Difference(reason, changes)


COMMON = [
    differs("our own name and version, and more capabilities", common.our_server_info),
    differs("a failed turn is an error and then task_complete", common.complete_failed_turns),
    differs("` Turn interrupted` begins with a blank", common.interrupted_without_blank),
    differs("patches are applied by the server itself", common.patches_within_the_server),
    differs("text deltas are passed on, live, on the Chat wire too", common.text_deltas_on_chat),
    differs("submissions of a conversation have one counter", common.one_counter),
    differs("a question says what approving means, and what the command does", common.reasons_in_questions),
    differs("a question about a patch counts its lines", common.lines_counted_in_patch_questions),
    differs("events and questions name their conversation", common.thread_ids),
    differs("a result names its conversation, also in a second text; a failure is a tool result", common.whole_results),
    differs("a message that was taken has an id, to go on from later", conversations.message_ids),
    differs("events of a conversation wait for someone who streams it", conversations.shown_in_a_stream),
]

ONCE = "the answer is in the history once"
HINTS = "an error goes on with a hint"
DENIED = "a command the sandbox stopped has its real exit code, and the model its output and a word on the sandbox"
TIMED_OUT = "a command that ran out of time has exit code 124, and the model what it had printed"
INTERRUPTED = "an interrupted turn stays in the history, with the outcome of its command"
REFUSED_WRITE = Mentions('{"output":"', "Permission denied", '"exit_code":1')

MCP_NAMES = "tools of other servers have names of their own, as in later releases"
MCP_TEXT = "the model is given the texts of a result, and what is structured, rather than JSON of its parts"
MCP_SAID = 'got {"s": "x"}\n{"said":"got {\\"s\\": \\"x\\"}"}'

TABLE: dict[str, list[Difference]] = {
    "agents_nested": [
        differs(
            "AGENTS.md files are read from the root to cwd, within one budget",
            reword(
                ("---\n\nLeaf words.\n", "---\n\nRoot words.\n\n\nMiddle words.\n\n\nLeaf words.\n"),
                ("---\n\nLeaf\n", "---\n\nRoot\n"),
            ),
        )
    ],
    "bad_arguments": [
        differs("the argument knows `on-request`", reword(("`on-failure`, `never`", "`on-failure`, `on-request`, `never`"))),
        differs(HINTS, hints(2, 3, 4, 5, 6, 8, 9, 10)),
        differs("a bad conversation id is named; conversationsList lists", turns.conversation_tools_answer),
    ],
    "cancel_shell": [differs(INTERRUPTED, commands.end_interrupted, turns.keep_interrupted_call)],
    "cancel_shell_responses": [differs(INTERRUPTED, commands.end_interrupted, turns.keep_interrupted_call)],
    "codex_reply_responses": [differs(ONCE, reword(("oneone", "one")))],
    "config_nested": [differs(HINTS, hints(2, 3, 4, 5))],
    "conversation": [differs("a second message is a second turn", conversations.second_message_accepted)],
    "conversation_on_codex_session": [differs("each call has its own turn", conversations.each_call_its_own_turn)],
    "conversation_sandbox": [differs("commands of a conversation run in the sandbox", conversations.contained_command_runs)],
    "cut_after_call": [differs("a retry carries the call that has run, and its output", turns.carry_the_call_that_ran)],
    "elicitation_error": [
        differs("an error as answer is a denial, and said to be one", turns.denied_by_error),
    ],
    "exec_failing": [
        differs("the model gets both streams", tool_output("call1234", exec_output("out\nerr\n", 3))),
    ],
    "exec_long_line": [differs("head, mark and tail", commands.long_line)],
    "exec_long_output": [differs("head, mark and tail", commands.long_output)],
    "exec_malformed_decision": [differs("`action: accept` is MCP's own way to say yes", commands.accepted)],
    "exec_stderr_only": [
        differs("the model gets both streams", tool_output("call1234", exec_output("only err\n"))),
    ],
    "exec_timeout": [
        differs(
            TIMED_OUT,
            command_end("call1234", exit_code=124, stderr=""),
            tool_output("call1234", exec_output("command timed out after 500 milliseconds\n", 124)),
        )
    ],
    "handshake": [
        differs("every request is answered, bad JSON too", turns.answer_everything),
        differs("more tools, and more properties", turns.more_tools),
    ],
    "local_image": [differs("an image that cannot be read is an error that names it", conversations.unreadable_image_named)],
    "mcp_server_missing": [differs("a server that is missing is told, and the turn goes on without it", servers.the_turn_goes_on)],
    "mcp_tool_cancel": [
        differs(MCP_NAMES, servers.our_names),
        differs("the outcome of a call that was cut off is told", servers.outcome_of_a_cancelled_call),
    ],
    "mcp_tool_ok": [differs(MCP_NAMES, servers.our_names), differs(MCP_TEXT, tool_output("call1234", MCP_SAID))],
    "mcp_tool_ok_responses": [differs(MCP_NAMES, servers.our_names), differs(MCP_TEXT, tool_output("call1234", MCP_SAID))],
    "model_400": [differs("a status that time does not mend is not asked again", turns.ask_once)],
    "model_401": [differs(HINTS, hinted('unexpected status 401 Unauthorized: {"error":{"message":"bad key"}}'))],
    "model_500": [
        differs("the provider's own words are passed on", reword(("500 Internal Server Error", "500 Internal Server Error: boom"))),
        differs(HINTS, hinted("exceeded retry limit, last status: 500 Internal Server Error: boom")),
    ],
    "model_500_responses": [
        differs(
            "the provider's own words are passed on",
            reword(("<high demand>", "exceeded retry limit, last status: 500 Internal Server Error: boom")),
        ),
        differs(HINTS, hinted("exceeded retry limit, last status: 500 Internal Server Error: boom")),
    ],
    "model_stream_cut": [differs("a stream that closed early is asked for again", turns.ask_again_after_cut)],
    "model_stream_cut_responses": [differs("text that differs from what was shown is not shown beside it", turns.told_anew)],
    "never_127_and_signal": [
        differs(
            "a command ended by a signal has a shell's exit code for it",
            command_end("call2", exit_code=137, stderr=""),
            tool_output("call2", exec_output("", 137)),
        )
    ],
    "never_denied_read_only": [differs(DENIED, command_end("call1234", exit_code=1), tool_output("call1234", REFUSED_WRITE))],
    "never_denied_workspace": [differs(DENIED, command_end("call1234", exit_code=1), tool_output("call1234", REFUSED_WRITE))],
    "never_denied_workspace_responses": [
        differs(DENIED, command_end("call1234", exit_code=1), tool_output("call1234", REFUSED_WRITE))
    ],
    "onfailure_approved": [
        differs(DENIED, command_end("call1234", exit_code=1)),
        differs("`approved` holds once, so the second run is asked about too", commands.asked_again),
    ],
    "onfailure_approved_responses": [
        differs(DENIED, command_end("call1234", exit_code=1)),
        differs("`approved` holds once, so the second run is asked about too", commands.asked_again),
    ],
    "onfailure_plain_failure": [differs("a command that fails by itself is no matter for a question", commands.plain_failure)],
    "onfailure_timeout": [
        differs(
            TIMED_OUT,
            command_end("call1234", exit_code=124, stderr=""),
            tool_output("call1234", exec_output("command timed out after 400 milliseconds\n", 124)),
        )
    ],
    "onrequest_escalated": [differs("the model's justification is in the question", commands.justified)],
    "patch_forms": [differs("other commands of a script run; `cd` and a tool of that name work", commands.patch_forms)],
    "patch_outside_never": [differs("full access is full access", commands.patch_outside_applied)],
    "patch_outside_onfailure": [differs("the question is about the patch", commands.patch_outside_asked)],
    "patch_partial": [
        differs(
            "a patch is applied whole or not at all",
            without_events("turn_diff"),
            files(new__txt=None),
        )
    ],
    "patch_unsorted": [differs("an added line lands in its place", commands.added_in_place)],
    "profile": [
        differs("an argument wins over the profile, and the profile's sandbox_mode counts", turns.argument_before_profile),
        differs(HINTS, hints(4)),
    ],
    "reasoning": [
        differs(ONCE, turns.reasoning_once),
        differs("our own name as the originator", turns.our_originator),
    ],
    "reasoning_chat": [
        differs(ONCE, reword(("Hi youHi you", "Hi you"))),
        differs("whoever missed the deltas gets the finished reasoning", turns.finished_reasoning),
    ],
    "reply_after_error": [differs("a session outlives a failed turn", turns.answer_after_error)],
    "reply_while_busy": [differs("the prompt reaches the model once, and both calls are answered", turns.both_answered)],
    "several_calls_chat": [differs("both calls run", commands.both_run)],
    "text_and_call": [differs("text comes before the calls of the same answer", turns.text_first)],
    "text_and_call_responses": [differs(ONCE, reword(("I will lookI will look", "I will look")))],
}


def apply(recording: Recording) -> None:
    for difference in (*TABLE.get(recording.name, ()), *COMMON):
        difference.apply(recording)
