"""A benchmark's configuration → the latencies it should measure, and coefficients from what it did measure.

Belongs here: a case (`case`), its prediction (`predict`), the fit of coefficients (`fit`) and intervals. Does not:
reading files of measurements (`pipelines.planning`), the step itself (`estimator.step_time`).
"""

from estimator.serving.case import Layout, Protocol, ServingCase
from estimator.serving.predict import METRICS, predict

__all__ = ["METRICS", "Layout", "Protocol", "ServingCase", "predict"]
