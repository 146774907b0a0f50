"""Reading config.json mappings into `estimator.architecture.Architecture`.

Belongs here: what the many dialects of config.json mean. Does not: fetching them (`pipelines.sources`), bytes on a
device (`estimator.weights`, `estimator.memory`). Anything a config holds that is not understood is refused with
`UnsupportedConfig` or named in `Architecture.unaccounted`; nothing is guessed in silence.
"""

from estimator.configs.fields import UnsupportedConfig
from estimator.configs.model import parse_config

__all__ = ["UnsupportedConfig", "parse_config"]
