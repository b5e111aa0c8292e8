"""What tests of Tidegate, and of things made for it, stand on: honest stand-ins and contract suites."""

from tidegate.testing.clock import ManualClock

__all__ = ["ManualClock"]
