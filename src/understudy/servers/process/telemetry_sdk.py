"""Sets up OpenTelemetry's SDK with its exporters. The only file that imports the SDK: both come with the extra `telemetry`."""

import logging
from collections.abc import Callable

from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from understudy import __version__
from understudy.servers.process.telemetry import AGENT

logger = logging.getLogger(__name__)


def set_up(*, traces: bool, metrics: bool) -> Callable[[], None]:
    """Returns what sends the last of it, and ends."""
    resource = Resource.create({"service.version": __version__})
    if str(resource.attributes.get("service.name", "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": AGENT}))
    ends: list[Callable[[], object]] = []
    if traces:
        spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace_api.set_tracer_provider(spans)
        ends.append(spans.shutdown)
    if metrics:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        metrics_api.set_meter_provider(meters)
        ends.append(meters.shutdown)

    def shut_down() -> None:
        for end in ends:
            try:
                end()
            except Exception as error:
                logger.warning("the last traces or metrics were not sent: %s", error)

    return shut_down
