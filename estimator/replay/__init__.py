"""Open- and closed-loop replay of requests on a fleet of engines, one engine step at a time.

Belongs here: the event loop (`kernel` in time, `routing` to engines, `engine` by steps, `schedule` by the rules, over
`transitions`, `blocks`, `tiers`, `queues` and `state`), what it serves (`workload`, `arrivals`), what bounds it
(`limits`, `options`) and its figures (`simulate`, `result`). Does not: how long a
step takes (`estimator.step_time`), SLOs and the search for a rate (`estimator.goodput`), or the number of replicas
(`estimator.fleet`).
"""

from estimator.replay.limits import EngineLimits
from estimator.replay.options import Adapters, Outage, Speculation, Tier, crash, rolling_upgrade, scale_schedule
from estimator.replay.result import Replay, Series
from estimator.replay.simulate import Router, replay
from estimator.replay.state import OUTCOMES, WAITS
from estimator.replay.workload import Workload

__all__ = [
    "OUTCOMES",
    "WAITS",
    "Adapters",
    "EngineLimits",
    "Outage",
    "Replay",
    "Router",
    "Series",
    "Speculation",
    "Tier",
    "Workload",
    "crash",
    "replay",
    "rolling_upgrade",
    "scale_schedule",
]
