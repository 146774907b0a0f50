"""Open- and closed-loop replay of requests on a fleet of engines, one engine step at a time.

Belongs here: the event loop (`kernel` in time, or `stepwise` where engines depend on each other; `routing` to engines,
`engine` by steps, `schedule` by the rules, over `transitions`, `blocks`, `tiers`, `loads`, `links`, `queues` and
`state`), what it serves (`workload`, `arrivals`), what bounds it (`limits`, `options`) and its figures (`simulate`,
`separated`, `result`). Does not: how long a
step takes (`estimator.step_time`), SLOs and the search for a rate (`estimator.goodput`), or the number of replicas
(`estimator.fleet`).
"""

from estimator.replay.limits import EngineLimits
from estimator.replay.options import Adapters, Outage, Speculation, Tier, crash, rolling_upgrade, scale_schedule
from estimator.replay.result import Replay, Series
from estimator.replay.separated import Handoff, Pool, Separated, replay_separated
from estimator.replay.simulate import Router, replay
from estimator.replay.state import OUTCOMES, WAITS
from estimator.replay.workload import Workload

__all__ = [
    "OUTCOMES",
    "WAITS",
    "Adapters",
    "EngineLimits",
    "Handoff",
    "Outage",
    "Pool",
    "Replay",
    "Router",
    "Separated",
    "Series",
    "Speculation",
    "Tier",
    "Workload",
    "crash",
    "replay",
    "replay_separated",
    "rolling_upgrade",
    "scale_schedule",
]
