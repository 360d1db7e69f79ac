"""End-to-end tests that are about the file in which conversations are kept by default: they are not run with a database."""

LEFT_OUT = {
    # files that are deleted, damaged, or cannot grow
    "tests/e2e/test_store_taken_away.py",
    "tests/e2e/test_one_damaged_conversation.py",
    "tests/e2e/test_failed_writes_at_doors.py",
    "tests/e2e/http/test_ready.py",
    # what the file's own mark of changes spares
    "tests/engine/conversation/test_watch.py",
    # a driver of a database needs more threads
    "tests/e2e/test_few_threads.py",
    # tests that read or write the file themselves
    "tests/e2e/test_two_processes.py::test_what_was_written_by_a_process_that_died_before_telling_is_shown",
    "tests/e2e/test_two_processes.py::test_messages_that_the_other_sends_while_it_is_deleted_leave_nothing_behind",
    # what is seen where a commit is there before anything else comes
    "tests/e2e/http/test_resuming.py::test_from_every_event_on_a_client_gets_exactly_the_rest",
    "tests/e2e/http/test_sessions.py::test_a_call_streams_its_events_with_ids_and_ends_with_its_answer",
    "tests/e2e/rest/test_conversations.py::test_a_conversation_is_begun_watched_and_listed",
    "tests/e2e/test_cancelling.py::test_a_cancel_that_comes_with_the_call_ends_it",
}


def is_left_out(node: str) -> bool:
    file, _, name = node.partition("::")
    return file in LEFT_OUT or f"{file}::{name.partition('[')[0]}" in LEFT_OUT
