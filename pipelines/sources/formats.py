"""Every trace format, in the order in which detection tries them: the more particular first.

Belongs here: the list. Does not: any one format (its own module), or how detection goes (`traces`).
"""

from pipelines.sources.aiperf import AIPERF
from pipelines.sources.azure import AZURE
from pipelines.sources.bailian import BAILIAN
from pipelines.sources.burstgpt import BURSTGPT
from pipelines.sources.canonical import CANONICAL
from pipelines.sources.gateway import GATEWAY
from pipelines.sources.layout import Layout
from pipelines.sources.litellm import LITELLM
from pipelines.sources.mapped import MAPPED
from pipelines.sources.mooncake import MOONCAKE
from pipelines.sources.otel_genai import OTEL_GENAI
from pipelines.sources.sglang import SGLANG
from pipelines.sources.vllm_spans import VLLM_SPANS
from pipelines.sources.vllm_trace import CUSTOM, TIMED_TRACE
from pipelines.sources.weka import WEKA

LAYOUTS: tuple[Layout, ...] = (
    *(AZURE, BURSTGPT, BAILIAN, AIPERF, TIMED_TRACE, MOONCAKE, CANONICAL),
    *(LITELLM, VLLM_SPANS, OTEL_GENAI, WEKA, SGLANG, GATEWAY, CUSTOM, MAPPED),
)
