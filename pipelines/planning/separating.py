"""One configuration with prefill and decode on different replicas: what `capsheet replay` asks for and what it answers.

Belongs here: two sized pools and a link turned into a replay of both, and the waits between them as figures. Does not:
one pool's configuration and the figures of a client (`replaying`), sizing (`sizing`), wording (`pipelines.commands`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from estimator.goodput import ServiceLevel
from estimator.hardware import GB
from estimator.replay import Handoff, Pool, Replay, Separated, Workload, replay_separated
from estimator.replay.separated import FirstToken, Link
from estimator.replay.workload import Floats
from pipelines.planning.replaying import (
    QUANTILES,
    SERIES_BINS,
    Answer,
    Configuration,
    Fleet,
    Load,
    figures,
    search,
    series_figures,
)
from pipelines.planning.sizing import Sized
from warehouse.errors import CapsheetError

FIRST_TOKEN: dict[str, FirstToken] = {"vllm": "decode", "sglang": "with_kv"}
"""Where clients get the first token from, by engine (assumed: held against no version's source or log; `--first-token`
overrides it). vLLM's decode instance computes the last token of the prompt again, SGLang's gets it with the KV."""
_WAITS = ("blocks_wait", "post", "link_wait", "transfer", "place_wait", "visible_wait")


@dataclass(frozen=True, slots=True)
class Split:
    """How the fleet is split. What of the prefill pool is None is as in the decode pool.

    `link_gbs` is what one GPU's link carries in one direction, GB/s: every GPU moves its own part of the KV.
    """

    prefill_replicas: int = 0
    decode_replicas: int = 0
    prefill_gpu: str | None = None
    prefill_tp: int | None = None
    prefill_max_num_seqs: int | None = None
    prefill_max_num_batched_tokens: int | None = None
    link_gbs: float | None = None
    post_ms: float = 0.0
    transfers_at_once: int = 0
    link: Link = "prefill"
    first_token: FirstToken | None = None

    @property
    def asked(self) -> bool:
        """Whether prefill and decode are to be on different replicas. Raises CapsheetError where only half is said."""
        if (self.prefill_replicas > 0) != (self.decode_replicas > 0):
            raise CapsheetError("--prefill-replicas and --decode-replicas go together: give both, or neither.")
        if not self.prefill_replicas:
            return False
        if self.link_gbs is None:
            raise CapsheetError("--link-gbs is missing: what a GPU's link carries from prefill to decode, GB/s.")
        return True

    def prefill(self, ask: dict[str, Any]) -> dict[str, Any]:
        """The options of the prefill pool, from those of the decode pool."""
        own = {
            "gpu": self.prefill_gpu,
            "tp": self.prefill_tp,
            "max_num_seqs": self.prefill_max_num_seqs,
            "max_num_batched_tokens": self.prefill_max_num_batched_tokens,
        }
        return ask | {name: value for name, value in own.items() if value is not None}


def handoff(split: Split, prefill: Sized, decode: Sized) -> Handoff:
    """The way of the KV: of the GPUs at both ends, those that move most bytes a token set its time."""
    assert prefill.account is not None and decode.account is not None and split.link_gbs is not None
    first_token = split.first_token or FIRST_TOKEN.get(decode.engine)
    if first_token is None:
        raise CapsheetError(f"--first-token is missing: where clients of {decode.engine} get it from is not known.")
    return Handoff(
        bytes_per_token=max(a.kv_bytes_per_token_per_gpu for a in (prefill.account, decode.account)),
        bytes_per_s=split.link_gbs * GB,
        post_seconds=split.post_ms / 1000,
        at_once=split.transfers_at_once,
        link=split.link,
        first_token=first_token,
    )


def answer_split(
    load: Load,
    workload: Workload,
    made: tuple[Configuration, Configuration],
    split: Split,
    way: Handoff,
    fleet: Fleet,
    slo: ServiceLevel | None,
) -> tuple[Answer, Separated]:
    """Replay both pools, and search for their goodput as a whole where there is a promise and an open loop.

    Raises CapsheetError for what cannot be.
    """
    first, second = made
    pools = (
        Pool(first.step, first.limits, split.prefill_replicas, fleet.router, first.ranks),
        Pool(second.step, second.limits, split.decode_replicas, fleet.router, second.ranks),
    )

    def serve(played: Workload) -> Replay:
        return replay_separated(played, *pools, way, request_seconds=second.request_s).waiting

    try:
        both = replay_separated(
            workload,
            *pools,
            way,
            request_seconds=second.request_s,
            clients=load.clients,
            series_bins=SERIES_BINS,
        )
        counted = fleet.counted(both.client)
        reach = search(load, workload, second, fleet, slo, serve)
    except ValueError as error:
        raise CapsheetError(str(error)) from None
    return Answer(both.client, counted, reach, load.clients, "goodput_rps"), both


def split_figures(found: Answer, both: Separated, way: Handoff, slo: ServiceLevel | None) -> dict[str, Any]:
    """What clients saw, what the KV's way took of it, and each pool's own view; units in the names."""
    pools = {
        name: {
            "replicas": pool.replicas,
            "busy_share": pool.busy_share,
            "running_mean": pool.running_mean,
            "waiting_max": pool.waiting_max,
            "kv_usage_p99": pool.kv_usage_p99,
            "queue_ms": _quantiles_ms(pool.queue_s[found.counted]),
            "queue_limits_share": pool.waits_share,
            "series": series_figures(pool),
        }
        for name, pool in (("prefill", both.prefill), ("decode", both.decode))
    }
    return figures(found, slo) | {
        "first_token": way.first_token,
        "handoff_bytes_per_token_per_gpu": way.bytes_per_token,
        "handoff_ms": {name: _quantiles_ms(getattr(both, f"{name}_s")[found.counted]) for name in _WAITS},
        "pools": pools,
    }


def _quantiles_ms(seconds: Floats) -> dict[str, float]:
    seconds = seconds[np.isfinite(seconds)]
    if not len(seconds):
        return {}
    at = np.quantile(seconds, [q / 100 for q in QUANTILES], method="inverted_cdf")
    return {"mean": float(seconds.mean()) * 1000} | {
        f"p{q}": float(v) * 1000 for q, v in zip(QUANTILES, at, strict=True)
    }
