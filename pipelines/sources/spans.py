"""OpenTelemetry spans out of whatever holds them: OTLP JSON, a collector's file of it, Jaeger's export, the console's.

Belongs here: finding spans and flattening their attributes. Does not: what an attribute means (`otel_genai`,
`vllm_spans`). https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: times are nanoseconds as text, ids hex.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pipelines.sources.base import NOT_A_REQUEST, shown

_YEAR_2100_NS = 4_102_444_800 * 10**9


@dataclass(frozen=True, slots=True)
class Span:
    """One span: its times in nanoseconds of Unix time (None where it has none), its status and flat attributes."""

    name: str
    trace_id: str
    span_id: str
    start_ns: int | None
    end_ns: int | None
    failed: bool
    attributes: Mapping[str, object] = field(default_factory=dict)
    service: str | None = None
    """The service that wrote it, by its resource."""

    def first(self, *names: str) -> object:
        """The first of the attributes that is there."""
        return next((self.attributes[name] for name in names if self.attributes.get(name) is not None), None)

    @property
    def start(self) -> str | None:
        """Its start as a written time in UTC, to the microsecond; None where it has none that can be."""
        if self.start_ns is None or not 0 <= self.start_ns < _YEAR_2100_NS:
            return None
        seconds, ns = divmod(self.start_ns, 10**9)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{ns // 1000:06d}Z"

    @property
    def duration_ms(self) -> float | None:
        """From start to end; None where either is missing or they are the wrong way round."""
        if self.start_ns is None or self.end_ns is None or self.end_ns < self.start_ns:
            return None
        return (self.end_ns - self.start_ns) / 1e6

    @property
    def identity(self) -> str | None:
        """What no other span has; None where it lacks an id."""
        return f"{self.trace_id}/{self.span_id}" if self.trace_id.strip("0x") and self.span_id.strip("0x") else None

    @property
    def aside(self) -> str:
        """The reason for a span that is no request of a model."""
        return f"{NOT_A_REQUEST}: span {shown(self.name, 40)}"


def spans(value: Mapping[str, object]) -> Iterator[Span | str]:
    """The spans of one JSON object, or for what should have been one the reason why it is none."""
    held = [value[key] for key in ("resourceSpans", "resource_spans", "batches") if key in value]
    if held:
        for resource in _list(held[0]):
            service = _service(resource)
            scopes = [resource.get(key) for key in _SCOPES if isinstance(resource, dict) and key in resource]
            for scope in (item for group in scopes for item in _list(group)):
                for span in _list(scope.get("spans") if isinstance(scope, dict) else None):
                    yield _otlp(span, service) if isinstance(span, dict) else "not a span"
    elif isinstance(value.get("data"), list):
        for trace in _list(value["data"]):
            processes = trace.get("processes") if isinstance(trace, dict) else None
            for span in _list(trace.get("spans") if isinstance(trace, dict) else None):
                yield _jaeger(span, processes) if isinstance(span, dict) else "not a span"
    elif isinstance(value.get("spans"), list):
        for span in _list(value["spans"]):
            yield (
                (_jaeger(span, value.get("processes")) if "operationName" in span else _otlp(span, None))
                if isinstance(span, dict)
                else "not a span"
            )
    elif "attributes" in value and "name" in value:
        yield _console(value)
    else:
        yield "holds no spans"


_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")


def sampled(objects: Sequence[Mapping[str, object]]) -> Iterator[Span]:
    """The spans of the first objects of a file, for detection."""
    for value in objects:
        if any(key in value for key in ("resourceSpans", "resource_spans", "batches", "data", "spans", "attributes")):
            yield from (span for span in spans(value) if isinstance(span, Span))


def _service(holder: object) -> str | None:
    """The name of the service that a span's holder says wrote it."""
    resource = holder.get("resource") if isinstance(holder, dict) else None
    name = _attributes(resource.get("attributes")).get("service.name") if isinstance(resource, dict) else None
    return name if isinstance(name, str) and name and not name.startswith("unknown_service") else None


def _otlp(span: Mapping[str, object], service: str | None) -> Span:
    status = span.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    return Span(
        str(span.get("name", "")),
        str(span.get("traceId", span.get("trace_id", ""))),
        str(span.get("spanId", span.get("span_id", ""))),
        _whole(span.get("startTimeUnixNano", span.get("start_time_unix_nano"))),
        _whole(span.get("endTimeUnixNano", span.get("end_time_unix_nano"))),
        code in (2, "2", "STATUS_CODE_ERROR"),
        _attributes(span.get("attributes")),
        service,
    )


def _jaeger(span: Mapping[str, object], processes: object) -> Span:
    """A span of Jaeger's JSON: microseconds, tags in place of attributes."""
    tags = {
        str(tag["key"]): tag.get("value") for tag in _list(span.get("tags")) if isinstance(tag, dict) and "key" in tag
    }
    process = processes.get(str(span.get("processID"))) if isinstance(processes, dict) else None
    service = process.get("serviceName") if isinstance(process, dict) else None
    start, lasts = _whole(span.get("startTime")), _whole(span.get("duration"))
    return Span(
        str(span.get("operationName", "")),
        str(span.get("traceID", "")),
        str(span.get("spanID", "")),
        None if start is None else start * 1000,
        None if start is None or lasts is None else (start + lasts) * 1000,
        tags.get("error") is True or tags.get("otel.status_code") == "ERROR",
        tags,
        service if isinstance(service, str) and service else None,
    )


def _console(span: Mapping[str, object]) -> Span:
    """A span as Python's ConsoleSpanExporter prints it: written times, attributes already flat."""
    context, status = span.get("context"), span.get("status")
    return Span(
        str(span.get("name", "")),
        str(context.get("trace_id", "")) if isinstance(context, dict) else "",
        str(context.get("span_id", "")) if isinstance(context, dict) else "",
        _written_ns(span.get("start_time")),
        _written_ns(span.get("end_time")),
        isinstance(status, dict) and status.get("status_code") == "ERROR",
        _attributes(span.get("attributes")),
        _service(span),
    )


def _attributes(held: object) -> dict[str, object]:
    if isinstance(held, dict):
        return {str(key): value for key, value in held.items()}
    return {
        str(item["key"]): _value(item.get("value"))
        for item in _list(held)
        if isinstance(item, dict) and isinstance(item.get("key"), str)
    }


def _value(held: object) -> object:
    """An AnyValue: {"intValue": "3025"} is 3025, as text where the protocol writes text."""
    if not isinstance(held, dict):
        return held
    for kind in ("stringValue", "intValue", "doubleValue", "boolValue"):
        if kind in held:
            return held[kind]
    if isinstance(held.get("arrayValue"), dict):
        return [_value(item) for item in _list(held["arrayValue"].get("values"))]
    return None


def _list(held: object) -> list[object]:
    return held if isinstance(held, list) else []


def _whole(held: object) -> int | None:
    try:
        return int(held) if isinstance(held, int | str) and not isinstance(held, bool) else None
    except ValueError:
        return None


def _written_ns(held: object) -> int | None:
    try:
        moment = datetime.fromisoformat(str(held))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1e6) * 1000
