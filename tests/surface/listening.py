"""What the processes of a session listen on: ``python -m tests.surface.listening CONF`` prints it as JSON."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import sys
from pathlib import Path

LISTEN = "0A"


def children(pid: int) -> list[int]:
    """The process and all that it started."""
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += children(int(child))
    return found


def listening(pid: int) -> set[str]:
    """Addresses of the process's sockets that wait for connections; none if it has ended."""
    held = set()
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                held.add(os.readlink(fd))
    found = set()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and f"socket:[{fields[9]}]" in held:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _address(text: str) -> str:
    words = [bytes.fromhex(text[i : i + 8])[::-1] for i in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def main(conf: str) -> None:
    import slackwater as sw

    spark = sw.session(cores=1, conf=json.loads(conf))
    print(json.dumps(sorted({a for pid in children(os.getpid()) for a in listening(pid)})))
    print(spark.conf.get("spark.driver.host", "unset"))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
