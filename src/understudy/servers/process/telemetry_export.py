"""Sends traces and metrics to a collector by OTLP over HTTP, if OpenTelemetry's standard variables name one.

The SDK and its exporter are the extra `telemetry`. Without a collector, none of it is imported.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from understudy.errors import how_to_add

if TYPE_CHECKING:
    from understudy.servers.process.telemetry import Telemetry

logger = logging.getLogger(__name__)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
LAST_WORDS_SECONDS = 2.0  # to send what is left when the server ends


class Exporting:
    def __init__(self, observer: "Telemetry", shut_down: Callable[[], None]) -> None:
        self.observer = observer
        self._shut_down = shut_down

    def close(self) -> None:
        """Send what is left, within a time limit: the server's end does not wait for a slow collector."""
        self.observer.close()
        sending = threading.Thread(target=self._shut_down, name="understudy-telemetry", daemon=True)
        sending.start()
        sending.join(LAST_WORDS_SECONDS)


def start_telemetry(env: Mapping[str, str]) -> Exporting | None:
    """None if it is not wanted or not available; in the latter case a warning says why."""
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    wants_traces, wants_metrics = (bool(env.get(ENDPOINT) or env.get(name)) for name in (TRACES, METRICS))
    if "opentelemetry.sdk.trace" in sys.modules:  # already set up, for example by `opentelemetry-instrument`
        from understudy.servers.process import telemetry  # the extra is there

        return Exporting(telemetry.Telemetry(), lambda: None)
    if not wants_traces and not wants_metrics:
        return None
    if _is_missing("opentelemetry.sdk") or _is_missing("opentelemetry.exporter.otlp.proto.http"):
        logger.warning("no traces are sent, because OpenTelemetry is not installed: %s", how_to_add("telemetry"))
        return None
    if env.get(PROTOCOL, "http/protobuf") != "http/protobuf":
        logger.warning("no traces are sent: %s is %r, and only `http/protobuf` is spoken here", PROTOCOL, env[PROTOCOL])
        return None
    from understudy.servers.process import telemetry, telemetry_sdk  # the extra is there

    shut_down = telemetry_sdk.set_up(traces=wants_traces, metrics=wants_metrics)
    return Exporting(telemetry.Telemetry(), shut_down)  # after the set-up, whose providers it asks for


def _is_missing(module: str) -> bool:
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:
        return True
