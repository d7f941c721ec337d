"""A model of two layers learns a parity, and the profiler looks inside its steps."""

import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def batches(count):
    for _ in range(count):
        with record_function("load"):
            bits = torch.randint(0, 2, (64, 8)).float()
        yield bits, bits.sum(1, keepdim=True) % 2


def accuracy(bits, parity):
    with record_function("accuracy"):
        return ((model(bits) > 0) == (parity > 0)).float().mean().item()


def train():
    right = 0.0
    for step, (bits, parity) in enumerate(batches(30)):
        with record_function("forward"):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(bits), parity)
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 10 == 9:
            right = accuracy(bits, parity)
        profiler.step()
    print(f"{100 * right:.0f} % right", file=sys.stderr)


with profile(activities=[ProfilerActivity.CPU]) as profiler:
    train()

for row in profiler.key_averages():
    if row.key in ("load", "forward", "backward", "accuracy"):
        print(f"{row.key}\t{row.count}")
