"""The settings of a training run: one field is one flag, spelled the same on the command line and in Python.

They are declared in groups. `TrainConfig` inherits all of them; a function that needs one group takes it as the type.
"""

from minigrad.training.settings.teaching import OBJECTIVES
from minigrad.training.settings.train_config import ALIASES, RunSettings, TrainConfig

__all__ = ["ALIASES", "OBJECTIVES", "RunSettings", "TrainConfig"]
