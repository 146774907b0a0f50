"""Files of serving measurements: each row read as the configuration it was measured with.

Belongs here: how such files spell a model, a GPU, a layout and a protocol (`closed_loop`, `open_loop`, `mixed`), and
the written rules for what they leave open. Does not: predicting a case (`estimator.serving`), errors (`errors`).
"""

from pipelines.planning.serving.rows import KINDS, Kind, ServingRow, kind_of, read_cases

__all__ = ["KINDS", "Kind", "ServingRow", "kind_of", "read_cases"]
