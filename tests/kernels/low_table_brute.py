"""The low-level table row by row, written from its definition: slots in a list, one arrival at a time."""

from __future__ import annotations

from slackwater.semantics.limits import START


class Entry:
    """A group's rows of one pane."""

    def __init__(self, pane, group, values):
        self.pane, self.group, self.values = pane, group, list(values)

    def key(self):
        return self.pane, self.group


class OrderFree:
    """Lazy flush, and slow flush if ``every``; ``home`` gives the slot of a group."""

    def __init__(self, slots, home, every=0, probe=False):
        self.slots, self.home, self.every, self.probe = [None] * slots, home, every, probe
        self.count, self.position = 0, 0

    def arrive(self, pane, group, value, open_pane):
        """One row; what leaves."""
        out = []
        home = self.home(group)
        places = [home, home ^ 1] if self.probe else [home]
        found = [p for p in places if self.slots[p] and self.slots[p].key() == (pane, group)]
        if found:
            self.slots[found[0]].values.append(value)
        else:
            free = [p for p in places if self.slots[p] is None]
            place = free[0] if free else home
            if self.slots[place] is not None:
                out.append(self.slots[place])
            self.slots[place] = Entry(pane, group, [value])
        self.count += 1
        if self.every and self.count % self.every == 0:
            for _ in self.slots:
                self.position = (self.position + 1) % len(self.slots)
                entry = self.slots[self.position]
                if entry is not None and entry.pane < open_pane:
                    out.append(entry)
                    self.slots[self.position] = None
                    break
        return out

    def drain(self, mark):
        """All entries of panes below ``mark``."""
        out = [e for e in self.slots if e is not None and e.pane < mark]
        self.slots = [None if e in out else e for e in self.slots]
        return out


class Ordered:
    """Slow flush for rows in order of pane; the output is in order, too."""

    def __init__(self, slots, home, probe=False):
        self.slots, self.home, self.probe = [None] * slots, home, probe
        self.window, self.position, self.finished = START, 0, True

    def is_old(self, place):
        return self.slots[place] is not None and self.slots[place].pane < self.window

    def flush_all(self):
        out = [self.slots[p] for p in range(len(self.slots)) if self.is_old(p)]
        self.slots = [None if e in out else e for e in self.slots]
        self.finished = True
        return out

    def arrive(self, pane, group, value):
        out = []
        if pane > self.window:
            out += self.flush_all()
            self.window, self.position, self.finished = pane, 0, False
        if not self.finished:
            while self.position < len(self.slots) and not self.is_old(self.position):
                self.position += 1
            if self.position < len(self.slots):
                out.append(self.slots[self.position])
                self.slots[self.position] = None
                self.position += 1
            self.finished = self.position >= len(self.slots)
        home = self.home(group)
        places = [home, home ^ 1] if self.probe else [home]
        for place in places:
            if self.slots[place] is not None and self.slots[place].key() == (pane, group):
                self.slots[place].values.append(value)
                return out
        for place in places:
            if self.slots[place] is None or self.is_old(place):
                out += [self.slots[place]] if self.slots[place] is not None else []
                self.slots[place] = Entry(pane, group, [value])
                return out
        out += self.flush_all()
        out.append(self.slots[home])
        self.slots[home] = Entry(pane, group, [value])
        return out
