"""What would these policies do? The gate's own scripts in virtual time; no decision is written twice."""

from .clock import SteppedStore
from .world import Arrival, Ended, World

__all__ = ["Arrival", "Ended", "SteppedStore", "World"]
