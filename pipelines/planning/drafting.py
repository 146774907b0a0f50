"""Speculative decoding as options name it.

Belongs here: what makes no sense in them. Does not: what drafts do to a step (`estimator.replay`), and the memory of a
drafter, which nothing counts.
"""

from __future__ import annotations

from estimator.replay import Speculation
from warehouse.errors import CapsheetError


def speculation_of(drafts: int, accepted: float | None, draft_ms: float) -> Speculation | None:
    """`drafts` tokens a step, each accepted with the chance `accepted` if those before it were; None without drafts.

    `draft_ms` is the drafter's time in a step. Raises CapsheetError for drafts that cannot be.
    """
    if not drafts:
        if accepted is None and not draft_ms:
            return None
        raise CapsheetError("--accepted and --draft-ms say how drafts fare: give --drafts too.")
    if accepted is None:
        raise CapsheetError("--drafts needs --accepted: the chance that a drafted token is, from the engine's metrics.")
    try:
        return Speculation.per_token(drafts, accepted, draft_ms / 1e3)
    except ValueError as error:
        raise CapsheetError(f"--drafts: {error}") from None
