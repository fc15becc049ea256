"""A thread that drops small Parquet files into a directory as the packets arrive."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow.parquet as pq

from slackwater.engine.clock import monotonic, wall_micros
from slackwater.model.time import SECOND
from slackwater.surface.demo.packets import Scene, Traffic

TICK = 0.5


class Feed:
    """Plays a scene in real time, one file per router and tick."""

    def __init__(self, scene: Scene, folder: Path, *, seed: int = 7):
        self.scene = scene
        self.folder = folder
        self.rows = 0
        self.files = 0
        self.error: BaseException | None = None
        self._seed = seed
        self._begun = 0.0
        self._stop = threading.Event()
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slackwater-demo-feed", daemon=True)

    def start(self) -> None:
        """Begin to play; the first packets of each router are there on return."""
        self._begun = monotonic()
        self._thread.start()
        self._first.wait()

    def stop(self) -> None:
        """End the play, and wait until the last file is there."""
        self._stop.set()
        if self._begun:
            self._thread.join()

    @property
    def playing(self) -> bool:
        """Whether more will come."""
        return self._thread.is_alive()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return min(monotonic() - self._begun, self.scene.seconds) if self._begun else 0.0

    def _run(self) -> None:
        try:
            # The first tick lies in the past: its packets are there at once.
            traffic = Traffic(self.scene, wall_micros() - int(TICK * SECOND), self._seed)
            ticks = round(self.scene.seconds / TICK)
            for tick in range(ticks):
                due = self._begun + tick * TICK
                if self._stop.wait(max(0.0, due - monotonic())):
                    return
                for router in range(len(self.scene.routers)):
                    self._write(traffic, router, tick)
                self._first.set()
        except BaseException as error:
            self.error = error
        finally:
            self._first.set()

    def _write(self, traffic: Traffic, router: int, tick: int) -> None:
        table = traffic.arrivals(router, tick * TICK, (tick + 1) * TICK)
        if not table.num_rows:
            return
        name = f"{self.scene.routers[router].name}-{tick:05d}.parquet"
        hidden = self.folder / f".{name}"
        pq.write_table(table, hidden)
        # A source must never see half a file: it appears whole, under its name.
        os.replace(hidden, self.folder / name)
        self.rows += table.num_rows
        self.files += 1
