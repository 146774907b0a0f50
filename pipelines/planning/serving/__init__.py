"""Files of serving measurements: each row read as the configuration it was measured with, predicted, held against it.

Belongs here: how such files spell a model, a GPU, a layout and a protocol (`closed_loop`, `open_loop`, `mixed`), the
written rules for what they leave open, and the sums of errors. Does not: predicting a case (`estimator.serving`).
"""

from pipelines.planning.serving.rows import KINDS, Kind, ServingRow, kind_of, read_cases

__all__ = ["KINDS", "Kind", "ServingRow", "kind_of", "read_cases"]
