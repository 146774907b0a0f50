"""The memory account of one replica: what each GPU holds, what is left for the KV cache, what that serves.

Belongs here: weights by rank (`ranks`), activation, non-torch and graphs (`overheads`), pages of the cache (`kv`), the
rule that puts them together (`case`), whether it starts (`feasibility`), the account of it all (`account`) and the TP
sizes an engine accepts (`limits`). Does not: bytes of a whole
model (`estimator.weights`), an engine's settings (`estimator.engines`).
"""

from estimator.memory.account import MemoryAccount, Term, memory_account
from estimator.memory.limits import tensor_parallel_problem

__all__ = ["MemoryAccount", "Term", "memory_account", "tensor_parallel_problem"]
