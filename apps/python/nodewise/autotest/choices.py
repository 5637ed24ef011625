"""What one case draws: a sequence of numbers below limits.

0 is the simplest of each, so a case becomes simpler by leaving numbers out or
making them smaller, and generators need not say how.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Optional

# A generator that draws more than this never comes to an end.
MOST_CHOICES = 100_000


class Choices:  # pylint: disable=too-few-public-methods
    """Gives back `given`, and what `rng` draws behind it: 0 without one."""

    def __init__(self, given: Sequence[int] = (),
                 rng: Optional[random.Random] = None):
        self._given = given
        self._rng = rng
        self.made: list[int] = []

    def draw(self, limit: int) -> int:
        """A number from 0 up to, but not including, `limit`."""
        if len(self.made) >= MOST_CHOICES:
            raise RuntimeError(f"autotest: a case draws {MOST_CHOICES} times, "
                               "expected generators that come to an end")
        i = len(self.made)
        if i < len(self._given):
            value = min(self._given[i], limit - 1)
        else:
            value = self._rng.randrange(limit) if self._rng else 0
        self.made.append(value)
        return value


def simpler(made: list[int], still_fails: Callable[[list[int]], Optional[list]],
            most_tries: int, most_seconds: float) -> tuple[list[int], int]:
    """The simplest choices that are found and still fail, and how many were
    tried.

    still_fails(choices) returns the choices that it really made if the case
    fails in the same way, else None.
    """
    end = time.monotonic() + most_seconds
    tries = 0
    improved = True
    while improved:
        improved = False
        i = 0
        while i < len(made):
            was_taken = False
            for attempt in _attempts(made, i):
                if tries >= most_tries or time.monotonic() > end:
                    return made, tries
                tries += 1
                kept = still_fails(attempt)
                # Only what is smaller counts, so that this ends.
                if kept is not None and (len(kept), kept) < (len(made), made):
                    made, improved, was_taken = kept, True, True
                    break
            i += not was_taken or made[i:i + 1] == [0]
    return made, tries


def _attempts(made, i):
    """Choices that are simpler at one place."""
    value = made[i]
    # The number before it says nothing of a seed, which would go down forever.
    before = value - 1 if value < 64 else 0
    smaller = sorted({0, value // 2, before} - {value, -1})
    for each in smaller:
        yield [*made[:i], each, *made[i + 1:]]
    for count in (1, 2, 4):
        if i + count <= len(made):
            yield made[:i] + made[i + count:]
