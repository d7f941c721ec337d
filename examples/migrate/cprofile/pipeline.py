"""A pipeline over readings of sensors, which neither profiler changes."""

import json
import random
from collections import defaultdict


def lines(count):
    """Yield readings as a sensor sends them, some of them cut short."""
    for number in range(count):
        reading = {"sensor": number % 7, "celsius": 20 + random.gauss(0, 5)}
        line = json.dumps(reading)
        yield line if number % 50 else line[:10]


def parse(line):
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


class Mean:
    """A mean over a window."""

    def __init__(self, size):
        self.size = size
        self.values = []

    def add(self, value):
        self.values.append(value)
        if len(self.values) > self.size:
            self.values.pop(0)

    @property
    def value(self):
        return sum(self.values) / len(self.values)


def depth(count):
    """Halve a count until nothing is left, for a recursive function."""
    return 0 if count == 0 else 1 + depth(count // 2)


def main():
    random.seed(1)
    means = defaultdict(lambda: Mean(20))
    rejected = 0
    for line in lines(1000):
        reading = parse(line)
        if reading is None:
            rejected += 1
            continue
        means[reading["sensor"]].add(reading["celsius"])
    warmest = max(means, key=lambda sensor: means[sensor].value)
    print(f"sensor {warmest} is warmest, {rejected} lines rejected, depth {depth(rejected)}")


if __name__ == "__main__":
    main()
