"""What all connections to the store share: the delay, the counts, and what is to go wrong."""

import collections
import threading
import time
from typing import Any

# What a store may do instead of an answer, besides a status of its own such as 503: end the
# connection without a word, or in the middle of the answer; or say nothing until it is told to.
DROP, HALF, SILENT = "drop", "half", "silent"


class Desk:
    """What all connections share: the delay, the counts, and the faults that are asked for."""

    def __init__(self, delay_s: float):
        """Nothing is counted yet, and nothing goes wrong."""
        self.delay_s = delay_s
        self._requests: collections.Counter[str] = collections.Counter()
        self._waiting = self._most_waiting = 0
        self._fault, self._faulty_kind, self._times = "", "", 0
        self._faults: collections.Counter[str] = collections.Counter()
        self._lock = threading.Condition()

    def wait(self) -> None:
        """Waits for the delay, and counts who does."""
        with self._lock:
            self._waiting += 1
            self._most_waiting = max(self._waiting, self._most_waiting)
        time.sleep(self.delay_s)
        with self._lock:
            self._waiting -= 1

    def note(self, kind: str) -> str:
        """Counts a request; returns the fault that it meets, or ""."""
        with self._lock:
            self._requests[kind] += 1
            if self._faulty_kind not in (kind, "any", "each"):
                return ""
            met = self._faults[kind] if self._faulty_kind == "each" else self._faults.total()
            if met >= self._times:
                return ""
            self._faults[kind] += 1
            fault = self._fault
            if fault == SILENT:
                self._lock.wait_for(lambda: self._fault != SILENT)
                return ""
            return fault

    def control(self, wanted: dict[str, str]) -> dict[str, Any]:
        """Sets the delay and the faults; returns what was counted since the last time."""
        with self._lock:
            self.delay_s = float(wanted.get("delay_s", self.delay_s))
            if "fault" in wanted:
                self._fault, self._faulty_kind = wanted["fault"], wanted["kind"]
                self._times = int(wanted["times"])
                self._faults.clear()
                self._lock.notify_all()
            counted = {
                "requests": dict(self._requests),
                "at_once": self._most_waiting,
                "faults": self._faults.total(),
            }
            self._requests.clear()
            self._most_waiting = 0
        return counted
