"""A collector of OpenTelemetry for tests: takes OTLP over HTTP, and keeps what it is sent."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from understudy.testing.waiting import WAIT_SECONDS


class SpanSeen:
    def __init__(self, span: Any, resource: dict[str, Any]) -> None:
        self.name: str = span.name
        self.kind: int = span.kind
        self.trace_id: str = span.trace_id.hex()
        self.id: str = span.span_id.hex()
        self.parent: str = span.parent_span_id.hex()
        self.began: int = span.start_time_unix_nano
        self.ended: int = span.end_time_unix_nano
        self.failed = span.status.code == 2
        self.attributes = _attributes(span.attributes)
        self.events = [event.name for event in span.events]
        self.links = [link.span_id.hex() for link in span.links]
        self.resource = resource


class Collector:
    def __init__(self) -> None:
        self.spans: list[SpanSeen] = []
        self.metrics: dict[str, list[tuple[dict[str, Any], float, int]]] = {}  # of each name: attributes, sum and count, the latest
        self.raw = b""
        self.headers: list[dict[str, str]] = []
        self._server: asyncio.Server | None = None
        self._news = asyncio.Event()

    @property
    def env(self) -> dict[str, str]:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        }

    async def wait_for(self, found: Callable[[Collector], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not found(self):
                self._news.clear()
                await self._news.wait()

    def named(self, name: str) -> list[SpanSeen]:
        return [span for span in self.spans if span.name == name]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1]
                lines = [line.decode().partition(":") for line in head.split(b"\r\n")[1:] if line]
                headers = {name.lower(): value.strip() for name, _, value in lines}
                self.headers.append(headers)
                body = await reader.readexactly(int(headers["content-length"]))
                if headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                self.raw += body
                self._take(path, body)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                self._news.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _take(self, path: bytes, body: bytes) -> None:
        if path == b"/v1/traces":
            for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = _attributes(resource_spans.resource.attributes)
                for scope in resource_spans.scope_spans:
                    self.spans += [SpanSeen(span, resource) for span in scope.spans]
        elif path == b"/v1/metrics":
            for resource_metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in resource_metrics.scope_metrics:
                    for metric in scope.metrics:
                        points = metric.histogram.data_points
                        self.metrics[metric.name] = [(_attributes(point.attributes), point.sum, point.count) for point in points]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
