"""A small network learns to separate two spirals, with batches from worker processes, like those of
a data loader.

    VOR_RECORD=train.vor VOR_RECORD_SPANS=1 python examples/python/train_mlp.py
    vor stats train.vor
    vor merge train.vor train.*.vor -o train.pftrace    # with the workers, on one time axis

It needs NumPy. Without the variables it does the same and records nothing.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import vor

Batch = tuple[NDArray[np.float64], NDArray[np.float64]]
BATCH = 256
HIDDEN = 64


@vor.profile(args=True)
def make_batch(seed: int) -> Batch:
    """Draw points of two spirals, and the spiral of each."""
    random = np.random.default_rng(seed)
    of = random.integers(0, 2, BATCH)
    with vor.scope("spiral"):
        along = random.uniform(0.3, 3.0, BATCH)
        angle = 2.5 * along + np.pi * of
        points = np.stack([along * np.cos(angle), along * np.sin(angle)], axis=1)
    return points + random.normal(0.0, 0.05, points.shape), of.astype(np.float64)


def batches(steps: int, workers: int) -> Iterator[Batch]:
    """Yield batches in order, which other processes make in advance."""
    with multiprocessing.Pool(workers) as pool:
        yield from pool.imap(make_batch, range(steps))
        pool.close()
        pool.join()


@vor.profile
class Network:
    """Two layers with tanh between them and a logistic output."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.weights = [random.normal(0.0, 1.0, (2, HIDDEN)), random.normal(0.0, 0.1, (HIDDEN, 1))]
        self.biases = [np.zeros(HIDDEN), np.zeros(1)]

    def forward(
        self, points: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the hidden layer, and the probability of the second spiral for each point."""
        hidden = np.tanh(points @ self.weights[0] + self.biases[0])
        return hidden, 1.0 / (1.0 + np.exp(-(hidden @ self.weights[1] + self.biases[1])[:, 0]))

    def step(self, points: NDArray[np.float64], of: NDArray[np.float64], rate: float) -> float:
        """Learn from a batch, and return the loss before that."""
        hidden, sure = self.forward(points)
        with vor.scope("backward"):
            error = (sure - of)[:, None] / len(of)
            inner = error @ self.weights[1].T * (1.0 - hidden**2)
            self.weights[1] -= rate * hidden.T @ error
            self.biases[1] -= rate * error.sum(axis=0)
            self.weights[0] -= rate * points.T @ inner
            self.biases[0] -= rate * inner.sum(axis=0)
        return float(-np.mean(np.log(np.where(of > 0.5, sure, 1.0 - sure) + 1e-12)))


def main(steps: int = 200, workers: int = 2) -> None:
    """Train; each step is a frame."""
    vor.record_metric_unit("loss", "nats")
    network = Network()
    losses = []
    for points, of in vor.steps(batches(steps, workers)):
        losses.append(network.step(points, of, rate=1.0))
        vor.record_metric("loss", losses[-1])
    first, last = np.mean(losses[:10]), np.mean(losses[-10:])
    print(f"loss {first:.3f} at first, {last:.3f} after {steps} steps")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
