"""A model of two layers learns a parity, and its steps are frames."""

import sys

import torch

import vor
from vor.integrations import torch as vor_torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def batches(count):
    for _ in range(count):
        with vor_torch.scope("load"):
            bits = torch.randint(0, 2, (64, 8)).float()
        yield bits, bits.sum(1, keepdim=True) % 2


def accuracy(bits, parity):
    with vor_torch.scope("accuracy"):
        return ((model(bits) > 0) == (parity > 0)).float().mean().item()


def train():
    right = 0.0
    for step, (bits, parity) in enumerate(batches(30)):
        with vor_torch.scope("forward"):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(bits), parity)
        with vor_torch.scope("backward"):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 10 == 9:
            right = accuracy(bits, parity)
        vor.record_metric("loss", loss.item())
        vor_torch.record_memory()
        vor.frame_mark()
    print(f"{100 * right:.0f} % right", file=sys.stderr)


vor.enable(capture=sys.argv[1])
train()
vor.close_capture()
