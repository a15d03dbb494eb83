"""Lines of the watcher's log: text for people, or a JSON object a line."""

import json
import logging

from etcompile.k8s.objects import timestamp
from etcompile.watch.workqueue import JobKey

_log = logging.getLogger("etcompile.watch")
TEXT = "%(asctime)s %(levelname)s %(message)s"


def say(level: int, key: JobKey, message: str, *, pod: str = "", reason: str = "") -> None:
    """Logs what has happened to a job, or to a Pod: `training/hello-worker-1: failed (…): …`."""
    message = " ".join(message.split())
    fields = {"namespace": key[0], "job": key[1], "pod": pod, "reason": reason, "message": message}
    known = {name: value for name, value in fields.items() if value}
    _log.log(level, "%s/%s: %s", key[0], pod or key[1], message, extra={"fields": known})


class JsonFormatter(logging.Formatter):
    """A JSON object a line: `time`, `level`, `message`, and what `say` knows."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
