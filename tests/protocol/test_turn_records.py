"""What records of retries and of failed turns say, and that those from before they said it can still be read."""

import msgspec
import pytest

from understudy.protocol.records import Failure, Noticed, Record, RetryScheduled, TurnEnded


@pytest.mark.parametrize(("seconds", "shown"), [(0.195, "195ms"), (1.752, "1.752s"), (0.9996, "1s"), (30, "30s"), (0, "0ms")])
def test_a_retry_is_told_with_its_numbers_and_its_cause(seconds: float, shown: str) -> None:
    retry = RetryScheduled(2, 5, seconds, "stream disconnected before completion: x")
    assert retry.describe() == f"stream error: stream disconnected before completion: x; retrying 2/5 in {shown}…"


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (
            TurnEnded("failed", "unexpected status 401 Unauthorized: {}", failure=Failure("model_refused", 401, "no\nhint")),
            "HTTP 401: no\nhint",
        ),
        (TurnEnded("failed", "unexpected status 502 Bad Gateway", failure=Failure("model_unavailable", 502)), "HTTP 502"),
        (TurnEnded("failed", "out of tokens", failure=Failure("turn_stopped")), "out of tokens"),
        (TurnEnded("failed", "unexpected status 401 Unauthorized: {}"), "unexpected status 401 Unauthorized: {}"),
        (TurnEnded("failed"), "the turn failed"),
    ],
)
def test_a_failed_turn_is_told_by_its_cause_and_never_by_reading_its_message(ended: TurnEnded, told: str) -> None:
    assert ended.describe_failure() == told


def test_ends_and_retries_of_earlier_logs_are_read_as_they_were_written() -> None:
    end = b'{"type":"turn_ended","reason":"failed","message":"no","unfinished":null,"asked_for":false,"cut_at":null}'
    assert msgspec.json.decode(end, type=Record) == TurnEnded("failed", "no")
    notice = b'{"type":"noticed","message":"stream error: x; retrying 1/5 in 1s\xe2\x80\xa6"}'
    assert msgspec.json.decode(notice, type=Record) == Noticed("stream error: x; retrying 1/5 in 1s…")
