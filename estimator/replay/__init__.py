"""Open- and closed-loop replay of requests on a fleet of engines, one engine step at a time.

Belongs here: the event loop (`kernel` routes, `engine` schedules, over `transitions`, `blocks`, `queues` and `state`),
what it serves (`workload`, `arrivals`), what bounds it (`limits`) and its figures (`simulate`). Does not: how long a
step takes (`estimator.step_time`), SLOs and the search for a rate (`estimator.goodput`), or the number of replicas
(`estimator.fleet`).
"""

from estimator.replay.limits import EngineLimits
from estimator.replay.simulate import Replay, Router, replay
from estimator.replay.state import OUTCOMES, WAITS
from estimator.replay.workload import Workload

__all__ = ["OUTCOMES", "WAITS", "EngineLimits", "Replay", "Router", "Workload", "replay"]
