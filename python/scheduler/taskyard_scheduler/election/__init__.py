"""How one scheduler of a cluster becomes the leader. The term in SQL, not the election, fences writes."""

from taskyard_scheduler.election.open import open_election

__all__ = ["open_election"]
