"""Server-side assignors (KIP-848): who shall hold which partition. Pure functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from coordinator.assignor_pools import Assignment, AssignorMember, TopicSizes
from coordinator.assignor_range import assign_range
from coordinator.assignor_uniform import assign_uniform

Assignor = Callable[[Sequence[AssignorMember], TopicSizes], Assignment]

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
"""By the names that members ask for and group.consumer.assignors lists."""
