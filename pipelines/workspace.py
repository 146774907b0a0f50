"""The workspace file `capsheet.yaml`: what to plan for, read strictly and named exactly when it is wrong.

Belongs here: the schema of the file, and where a workspace keeps things. Does not: reading what it points to
(`pipelines.sources`) or what it means (`estimator`).
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipelines.executor import Executor
from warehouse.errors import CapsheetError

FILE_NAME = "capsheet.yaml"
PERCENTILES = (50, 90, 95, 99)
Metric = Literal["ttft", "tpot", "e2e"]
METRICS: tuple[Metric, ...] = ("ttft", "tpot", "e2e")

Milliseconds = Annotated[float, Field(gt=0, le=86_400_000, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class WorkspaceError(CapsheetError):
    """The workspace file is missing or wrong. The message names file, line, key, what is wrong and what to do."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _plain(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", name):
        raise ValueError(
            "use letters, digits, space, dot, dash or underscore, starting with a letter or digit, at most 64"
        )
    return name


Name = Annotated[str, AfterValidator(_plain)]


class ServiceLevelSpec(_Strict):
    """Percentile targets in ms, and the share of requests that must meet every one of them."""

    ttft_p50_ms: Milliseconds | None = None
    ttft_p90_ms: Milliseconds | None = None
    ttft_p95_ms: Milliseconds | None = None
    ttft_p99_ms: Milliseconds | None = None
    tpot_p50_ms: Milliseconds | None = None
    tpot_p90_ms: Milliseconds | None = None
    tpot_p95_ms: Milliseconds | None = None
    tpot_p99_ms: Milliseconds | None = None
    e2e_p50_ms: Milliseconds | None = None
    e2e_p90_ms: Milliseconds | None = None
    e2e_p95_ms: Milliseconds | None = None
    e2e_p99_ms: Milliseconds | None = None
    attainment: Share = 0.99

    def targets(self, metric: Metric) -> dict[int, float]:
        """Percentile to target in ms, for one metric."""
        values = {q: getattr(self, f"{metric}_p{q}_ms") for q in PERCENTILES}
        return {q: value for q, value in values.items() if value is not None}

    @model_validator(mode="after")
    def _both_phases(self) -> ServiceLevelSpec:
        for metric in METRICS[:2]:
            if not self.targets(metric):
                raise ValueError(f"no {metric.upper()} target: set {metric}_p99_ms (milliseconds)")
        for metric in METRICS:
            for (low_q, low), (high_q, high) in itertools.pairwise(self.targets(metric).items()):
                if low > high:
                    raise ValueError(f"{metric}_p{low_q}_ms ({low:g}) is above {metric}_p{high_q}_ms ({high:g})")
        return self


class TraceSpec(_Strict):
    """Where the requests come from and how the plan uses them."""

    source: str = Field(min_length=1)
    format: str = "auto"
    demand_factor: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 1.0
    """Planned demand over traced demand: growth, or 20 for a trace that holds one request in twenty."""
    window_minutes: Annotated[int, Field(ge=1, le=1440)] = 60
    """Length of the busiest stretch that capacity is planned on."""
    spread: Literal["none", "uniform"] = "none"
    """What to do with arrivals that lie on a coarse grid: keep them, or spread each over its grid step."""
    prefix_sharing: bool = True
    """Replay the trace's prefix relation; false counts every prompt as new."""
    options: dict[str, str | int | float | bool | dict[str, str]] = Field(default_factory=dict)
    """Reader options, such as `columns` of a mapped file: canonical name to the file's own."""


class EngineSpec(_Strict):
    """An engine at a version, with the flags the deployment sets; what is left out takes the engine's own default."""

    name: str
    version: str
    gpu_memory_utilization: Share | None = None
    max_num_seqs: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    kv_cache_dtype: str | None = None
    chunked_prefill: bool | None = None
    exclusive_prefill: bool | None = None
    """Prompts in steps of their own while decodes wait; false is SGLang's --enable-mixed-chunk."""
    prefix_caching: bool | None = None

    def overrides(self) -> dict[str, object]:
        """The flags that are set."""
        return {k: v for k, v in self.model_dump(exclude={"name", "version"}).items() if v is not None}


class CandidatesSpec(_Strict):
    """The configurations to consider: every combination that the model and the engine allow."""

    accelerators: Annotated[list[str], Field(min_length=1, max_length=64)]
    tensor_parallel: Annotated[list[Annotated[int, Field(ge=1, le=1024)]], Field(min_length=1, max_length=16)] = [1]
    precisions: Annotated[list[str], Field(min_length=1, max_length=16)] = ["auto"]
    engines: Annotated[list[EngineSpec], Field(min_length=1, max_length=16)]
    max_model_len: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Longest context served; left out, the longest request of the trace, rounded up to 1,024."""

    @field_validator("tensor_parallel", "accelerators", "precisions")
    @classmethod
    def _once(cls, values: list[Any]) -> list[Any]:
        repeated = sorted({str(v) for v in values if values.count(v) > 1})
        if repeated:
            raise ValueError(f"{', '.join(repeated)} stands twice")
        return values


class HeadroomSpec(_Strict):
    """One allowance a risk, so that each one's cost can be seen and argued about."""

    traffic_factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.2
    """Demand is multiplied by this before replicas are chosen: forecast error and bursts beyond the trace."""
    failure_replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Replicas that may be lost at once while the planned demand keeps its SLO."""
    deployment_surge_replicas: Annotated[int, Field(ge=0, le=1000)] = 0
    """Replicas that run twice during a rolling upgrade."""
    memory_gib_per_gpu: Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)] = 1.0
    """Memory kept free on every GPU: fragmentation, workspaces, version drift."""
    ready_minutes: Annotated[float, Field(ge=0, le=1440, allow_inf_nan=False)] = 10.0
    """Time from asking for a replica to the router sending it traffic."""
    growth_per_hour: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 0.0
    """Growth of demand that must be bridged while a replica becomes ready, as a share an hour."""


class ServiceSpec(_Strict):
    """One service: what it promises, what it runs, what it may run on."""

    name: Name
    model: str = Field(min_length=1, max_length=400)
    revision: str | None = None
    slo: ServiceLevelSpec
    trace: TraceSpec
    candidates: CandidatesSpec
    headroom: HeadroomSpec = HeadroomSpec()


class PricesSpec(_Strict):
    """Your own prices, where you have them; elsewhere the catalogue's."""

    usd_per_gpu_hour: dict[str, Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    source: str = "capsheet.yaml"
    """Where your prices come from: a contract number, a quote, a date."""
    hours_per_month: Annotated[float, Field(gt=0, le=744, allow_inf_nan=False)] = 730.0


class ObservationsSpec(_Strict):
    """A file (or pattern) of measured serving; `served` names what a file cannot say of itself."""

    source: str = Field(min_length=1)
    format: str = "auto"
    served: dict[str, str | int | float | bool] = Field(default_factory=dict)


class ProfileSpec(_Strict):
    """Step times somebody measured (or AIConfigurator estimates), and what they were measured on."""

    source: str = Field(min_length=1)
    """A file, a folder, a pattern, or `aiconfigurator`."""
    format: str = "auto"
    model: str = Field(min_length=1, max_length=400)
    accelerator: str = Field(min_length=1, max_length=100)
    engine: str = Field(min_length=1, max_length=100)
    version: str = Field(min_length=1, max_length=100)
    precision: str = Field(min_length=1, max_length=100)
    tensor_parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    data_parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    expert_parallel: Annotated[int, Field(ge=1, le=1024)] = 1
    label: Literal["measured", "cited", "inferred", "estimated", "assumed"] = "measured"
    options: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """What its files do not say of their runs: input_len, output_len, batch_size of `vllm bench latency`."""


class Workspace(_Strict):
    """The whole file."""

    workspace: Name
    services: Annotated[list[ServiceSpec], Field(min_length=1, max_length=200)]
    prices: PricesSpec = PricesSpec()
    observations: list[ObservationsSpec] = Field(default_factory=list)
    profiles: list[ProfileSpec] = Field(default_factory=list)
    max_rejected_share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.05
    """Share of a trace's rows that may be broken before the trace itself is refused."""
    offline: bool = False
    """Never ask a model hub: local files and the catalogue only."""
    executor: Executor = "local"
    """Where replays run: processes of this machine, or the Ray cluster at RAY_ADDRESS. Results are the same."""

    @model_validator(mode="after")
    def _distinct(self) -> Workspace:
        names = [service.name for service in self.services]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two services are called {', '.join(repeated)}")
        for what, key in (("trace", "source"), ("model", "")):
            said: dict[str, object] = {}
            for service in self.services:
                name = service.trace.source if key else service.model
                trace = service.trace
                how: object = (trace.format, trace.spread, trace.options) if key else service.revision
                if said.setdefault(name, how) != how:
                    asked = "format, spread and options" if key else "revision"
                    raise ValueError(f"two services read the {what} {name} with a different {asked}: say the same")
        models = [service.model for service in self.services]
        other = next((profile.model for profile in self.profiles if profile.model not in models), None)
        if other is not None:
            raise ValueError(
                f"a profile is of {other[:80]}, which no service runs: name one of {', '.join(models)[:200]}"
            )
        return self


class Place:
    """A workspace on disk: its file, its warehouse, its workbooks, its Dagster home.

    Raises:
        WorkspaceError: the file is missing, is not YAML, or does not fit the schema.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.file = self.folder / FILE_NAME
        self.warehouse = self.folder / "capsheet.duckdb"
        self.plans = self.folder / "plans"
        self.state = self.folder / ".capsheet"
        self.dagster_home = self.state / "dagster"
        self.lock = self.state / "run.lock"
        self.spec, self.sha256 = _load(self.file)

    def path(self, source: str) -> Path:
        """A path of the file, relative to the workspace. Raises SourceError for a home folder nobody has."""
        from pipelines.sources.base import expanded  # here: readers take longer to import than a file to check

        return self.folder / expanded(source)

    def line_of(self, *keys: str | int) -> str:
        """`file:line` of a key, for messages."""
        return _where(self.file, self.file.read_text(encoding="utf-8"), keys)


class _Loader(yaml.SafeLoader):
    """YAML as people mean it: a key stands once, and 010, 1:30 or yes are text, not numbers or flags."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {str(key.value)[:60]} stands twice", key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_NUMBERS = {
    "tag:yaml.org,2002:bool": r"true|false|True|False|TRUE|FALSE",
    "tag:yaml.org,2002:int": r"[-+]?(?:0|[1-9][0-9]*)",
    "tag:yaml.org,2002:float": r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag not in _NUMBERS]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list("-+0123456789.tTfF"))


def _load(file: Path) -> tuple[Workspace, str]:
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise WorkspaceError(
            f"no workspace in {file.parent}: {FILE_NAME} is not there. Run `capsheet init {file.parent}` to make one, "
            "or name another folder with --workspace."
        ) from None
    except OSError as error:
        raise WorkspaceError(f"{file} cannot be read: {error.strerror}. Make it a readable file.") from None
    try:
        text = raw.decode("utf-8-sig")
        data = yaml.load(text, Loader=_Loader)
    except UnicodeDecodeError as error:
        raise WorkspaceError(f"{file} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise WorkspaceError(f"{file}{line} is not valid YAML: {problem}. Mend that line.") from None
    if not isinstance(data, dict):
        raise WorkspaceError(f"{file} is not a mapping of keys. Run `capsheet init` in an empty folder to see one.")
    try:
        return Workspace.model_validate(data), hashlib.sha256(raw).hexdigest()
    except ValidationError as error:
        first = error.errors()[0]
        keys = tuple(first["loc"])
        more = f" ({error.error_count() - 1} more below it)" if error.error_count() > 1 else ""
        raise WorkspaceError(f"{_where(file, text, keys)}: {_dotted(keys)} {_complaint(first)}{more}.") from None


def _complaint(error: Any) -> str:
    kind, value = error["type"], error.get("input")
    if kind == "extra_forbidden":
        return "is not a key of this file: remove it or mend its spelling"
    if kind == "missing":
        return "is missing: add it"
    shown = repr(value) if isinstance(value, str | int | float | bool | type(None)) else f"a {type(value).__name__}"
    if kind == "value_error":
        return f"does not hold: {error['ctx']['error']}"
    return f"is {shown[:80]}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _dotted(keys: Sequence[str | int]) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")
    return text or "the file"


def _where(file: Path, text: str, keys: Sequence[str | int]) -> str:
    """`file:line` of the deepest node that the keys reach."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    line = node.start_mark.line if node is not None else 0
    for key in keys:
        if isinstance(node, yaml.MappingNode):
            match = next((pair for pair in node.value if pair[0].value == str(key)), None)
            if match is None:
                break
            line, node = match[0].start_mark.line, match[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
            line = node.start_mark.line
        else:
            break
    return f"{file}:{line + 1}"
