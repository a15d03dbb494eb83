"""What time it is for the API server, from the dates of its answers.

The times in objects are the API server's: when a Pod was created, by when it should have gone. To
compare them with the clock of this machine is wrong by as much as the two clocks differ. Every
answer carries a date, in whole seconds; between answers a clock runs that nobody sets.
"""

import threading
import time
from email.utils import parsedate_to_datetime

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Seconds of a clock that nobody sets, and that runs on while the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class ServerClock:
    """The clock of an API server; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ahead: float | None = None
        self._last = ("", 0.0)

    def now(self) -> float:
        """The time, in seconds since 1970; this machine's until the first answer."""
        ahead = self._ahead
        return time.time() if ahead is None else steady() + ahead

    def heard(self, date: str, sent: float) -> None:
        """Notes the date of an answer.

        Args:
            date: The header `Date`; nothing is noted of one that cannot be read.
            sent: When the request was sent, by `steady`.
        """
        told = self._seconds(date)
        if told is None:
            return
        # The date was written between request and answer, and lacks up to a second.
        least, most = told - steady(), told + 1.0 - sent
        with self._lock:
            known = (least + most) / 2 if self._ahead is None else self._ahead
            self._ahead = min(max(known, least), most)

    def _seconds(self, date: str) -> float | None:
        text, told = self._last
        if text == date:
            return told
        try:
            told = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return None
        self._last = date, told
        return told
