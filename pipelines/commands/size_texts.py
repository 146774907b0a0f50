"""The words of `capsheet size` in English and Chinese.

Belongs here: headings, names of figures and terms, and looking a text up. Does not: layout (`size_page`), sentences
(`size_phrases`), sources (`size_sources`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from estimator.step_time import MEASURED_TERM
from pipelines.commands.size_phrases import PHRASES
from pipelines.commands.size_sources import MEANINGS, SOURCES, WORDS

LANGUAGES = ("en", "zh")

HEADINGS = {
    "account": ("Memory of one GPU", "单卡显存账"),
    "calculator": ("Time and throughput of one replica, from the step model", "单副本的时延与吞吐(步时模型)"),
    "rules": ("The published rules of thumb, to compare", "公开经验公式(对照)"),
    "fleet": ("Fleet tiers, at the whole context length", "部署档位(按完整上下文长度)"),
    "settings": ("Engine settings as resolved", "引擎参数(解析后)"),
    "notes": ("Notes", "说明"),
    "command": ("Launch command", "启动命令"),
    "not_started": ("Launch command, which does not start as it stands", "启动命令(现状无法启动)"),
    "derivation": ("Derivation", "推导过程"),
    "coefficients": (
        "Coefficients, each may be set with --coefficient NAME=VALUE",
        "系数(可用 --coefficient 名称=值 覆盖)",
    ),
    "term": ("term", "项目"),
    "figure": ("figure", "指标"),
    "value": ("value", "数值"),
    "unit": ("unit", "单位"),
    "label": ("label", "可信度"),
    "note": ("note", "备注"),
    "source": ("source", "来源"),
    "setting": ("setting", "参数"),
    "tier": ("tier", "档位"),
    "requests": ("holds at least", "至少容纳请求"),
    "gpus": ("GPUs", "GPU 数"),
    "weights": ("weights GiB/GPU", "权重 GiB/卡"),
    "cache": ("KV GiB/GPU", "KV GiB/卡"),
    "held": ("holds", "可容纳"),
    "usual": ("usual range", "常见范围"),
    "default": ("default", "默认值"),
    "meaning": ("meaning", "含义"),
    "formula": ("formula", "公式"),
    "inputs": ("inputs", "输入"),
    "none": ("none up to TP 16", "TP 16 以内无"),
    "unpublished": ("not published", "未公布"),
    "unbound": ("does not bind", "不限"),
}

SENTENCES = {
    "fits": (
        "Fits: the KV cache of one engine core takes {tokens:,} tokens, or {held:,.2f} requests of {length:,} tokens.",
        "可以部署:单个引擎核心的 KV 缓存可容 {tokens:,} token,即 {held:,.2f} 个 {length:,} token 的请求。",
    ),
    "serves": (
        "Requests of {isl:,} + {osl:,} tokens: at most {limit:,} at once in the replica (bound: {bound}), {rate} a "
        "second; begin a load test at {first:,}.",
        "{isl:,} + {osl:,} token 的请求:副本最多同时 {limit:,} 个(约束:{bound}),每秒 {rate} 个;压测自 {first:,} 个起。",
    ),
    "serves_none": (
        "Requests of {isl:,} + {osl:,} tokens: not even one meets the targets (bound: {bound}).",
        "{isl:,} + {osl:,} token 的请求:单个也不能达标(约束:{bound})。",
    ),
    "not": ("Does not fit: {why}.", "无法部署:{why}。"),
    "across": ("{gpus}, a group over {nodes} nodes", "{gpus}(一组跨 {nodes} 节点)"),
    "step": ("A decode step of {whole} ms: {parts}.", "一个 decode 步 {whole} ms:{parts}。"),
    "and": ("; ", ";"),
    "warning": ("Warning: {why}.", "警告:{why}。"),
    "assumed": ("Assumed: {what}.", "假设:{what}。"),
    "measured": (
        "Step times: {label} by {source} where it has points, physics elsewhere.",
        "步时:有测点处取自 {source}({label}),其余按物理模型。",
    ),
    "parameters": (
        "{total} parameters, {active} used by a token; {attention}; weights in {precision}.",
        "参数量 {total},每 token 激活 {active};注意力 {attention};权重精度 {precision}。",
    ),
}

NAMES = {
    "visible_memory": ("visible memory", "可见显存"),
    "utilization": ("utilisation", "显存利用率"),
    "weights": ("weights", "权重"),
    "activation": ("activation peak", "激活峰值"),
    "non_torch": ("outside PyTorch", "非 PyTorch 显存"),
    "cuda_graphs": ("CUDA graphs", "CUDA 图"),
    "safety": ("safety", "安全余量"),
    "kv_budget": ("KV budget", "KV 预算"),
    "kv_bytes_per_token": ("KV of a token", "每 token KV"),
    "state_per_sequence": ("state of a sequence", "每序列状态"),
    "kv_blocks": ("KV blocks", "KV 块数"),
    "kv_budget_tokens": ("KV tokens", "KV token 数"),
    "max_concurrency": ("requests at length", "该长度的并发"),
    "prefill_ms": ("prefill of one prompt", "单请求 prefill"),
    "zero_load_ttft_ms": ("TTFT on an idle replica", "空载 TTFT"),
    "prefill_tokens_per_s_per_replica": ("prefill rate of the replica", "副本 prefill 速率"),
    "batch": ("batch", "批大小"),
    "decode_step_ms": ("decode step at the batch", "该批大小的 decode 步时"),
    "decode_tokens_per_s_per_user": ("decode rate per user", "每用户 decode 速率"),
    "decode_tokens_per_s_per_replica": ("decode rate per replica", "每副本 decode 速率"),
    "tpot_ms": ("TPOT, prefills included", "TPOT(含他人 prefill)"),
    "tpot_p10_ms": ("TPOT, one measurement in ten is below", "TPOT 实测 P10"),
    "tpot_p90_ms": ("TPOT, one measurement in ten is above", "TPOT 实测 P90"),
    "k_requests": ("K: memory holds", "K:显存可容纳"),
    "l_requests": ("L: TPOT allows", "L:TPOT 允许"),
    "tpot_batch_limit": ("batch limit from TPOT, decode alone", "TPOT 批上限(仅 decode)"),
    "concurrency_limit": ("limit of every bound", "各上限的最小值"),
    "bottleneck": ("bottleneck", "瓶颈"),
    "capacity_rps": ("rate at that limit", "该上限的请求率"),
    "first_load_test_requests": ("begin a load test at", "压测起点"),
    "replicas_for_concurrency": ("replicas for the concurrency", "所需副本数"),
    "parallel_efficiency": ("parallel efficiency at the batch", "并行效率(该批大小)"),
    "parallel_efficiency_rule": ("parallel efficiency, rule", "并行效率(经验)"),
    "rule_prefill_ms": ("prefill, rule", "prefill(经验公式)"),
    "rule_tpot_floor_ms": ("TPOT floor: reading all weights", "TPOT 下界(读全部权重)"),
    "rule_decode_tokens_per_s_per_user": ("decode rate, rule", "decode 速率(经验公式)"),
    "moe_conservative_tokens_per_s_per_user": ("MoE conservative: all experts", "MoE 保守(读全部专家)"),
    "moe_optimistic_tokens_per_s_per_user": ("MoE optimistic: active experts", "MoE 乐观(仅激活专家)"),
    "rule_k_requests": ("K, rule", "K(经验公式)"),
    "rule_l_requests": ("L, rule: no batching", "L(经验公式,不计批处理)"),
    "rule_bottleneck": ("bottleneck, rule", "瓶颈(经验公式)"),
    "layers and step": ("layers and step", "层与步开销"),
    MEASURED_TERM: (MEASURED_TERM, "实测与物理模型之差"),
    "collectives": ("collectives", "集合通信"),
    "sequences": ("sequences", "逐序列开销"),
    "dense weights and FLOPs": ("dense weights and FLOPs", "稠密权重与计算"),
    "output head": ("output head", "输出头"),
    "expert weights and FLOPs": ("expert weights and FLOPs", "专家权重与计算"),
    "KV read": ("KV read", "读 KV"),
    "min": ("minimum", "最小"),
    "dev": ("development", "开发"),
    "prod": ("production", "生产"),
    "verified": ("verified", "已验证"),
    "measured": ("measured", "实测"),
    "cited": ("cited", "引用"),
    "inferred": ("inferred", "推断"),
    "estimated": ("estimated", "估算"),
    "assumed": ("assumed", "假设"),
    "KV memory (K)": ("KV memory (K)", "KV 显存 (K)"),
    "token budget": ("token budget", "每步 token 预算"),
    "memory capacity": ("memory capacity", "显存容量"),
    "memory bandwidth / compute": ("memory bandwidth / compute", "显存带宽 / 算力"),
    "requests": ("requests", "请求"),
    "tokens": ("tokens", "token"),
    "blocks": ("blocks", "块"),
    "replicas": ("replicas", "副本"),
    "share": ("share", "比例"),
    "yes": ("yes", "是"),
    "no": ("no", "否"),
}


def word(text: str, lang: str) -> str:
    """A name, label, unit or sentence in a language; text nobody has translated stays as it is."""
    if text in NAMES:
        return NAMES[text][LANGUAGES.index(lang)]
    return _chinese(text) if lang == "zh" else text


def source(text: str, lang: str) -> str:
    """Where a figure comes from; citations keep the names of projects, files and versions."""
    if lang != "zh":
        return text
    text = _chinese(text)
    for pattern, translated in WORDS:
        text = re.sub(pattern, translated, text)
    return text


def heading(name: str, lang: str) -> str:
    """A heading or column title."""
    return HEADINGS[name][LANGUAGES.index(lang)]


def sentence(name: str, lang: str, **values: object) -> str:
    """A sentence with its values."""
    return SENTENCES[name][LANGUAGES.index(lang)].format(**values)


def _chinese(text: str) -> str:
    """A sentence in Chinese: whole, else each sentence or clause of it that is known."""
    for pattern, translated in _patterns():
        found = pattern.fullmatch(text)
        if found:
            parts = {name: _TURN.get(name[:2], str)(value) for name, value in found.groupdict().items()}
            return translated.format(**parts)
    for join, split in (("", r"(?<=\.) (?=[A-Z])"), (";", "; ")):
        parts_ = re.split(split, text)
        if len(parts_) > 1:
            known = [_chinese(part) for part in parts_]
            return join.join(known) if known != parts_ else text
    return text


def _chinese_source(text: str) -> str:
    return source(text, "zh")


_TURN: dict[str, Callable[[str], str]] = {"t_": _chinese, "s_": _chinese_source}
"""How a placeholder's text is translated in turn, by the first letters of its name."""


_NUMBER = r"[-+]?[\d,.]+"


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The pairs with their English compiled: `{x}` matches any text, as little as it can, `{n_x}` a number."""
    return tuple((_compiled(english), chinese) for english, chinese in (*PHRASES, *SOURCES, *MEANINGS))


def _compiled(english: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", english)
    pattern = "".join(
        f"(?P<{part}>{_NUMBER if part.startswith('n_') else '.+?'})" if at % 2 else re.escape(part)
        for at, part in enumerate(parts)
    )
    return re.compile(pattern, re.DOTALL)
