"""The loop that people write instead of `nodewise autotest`: operators of torch
against numpy on random inputs, the results compared with numpy's allclose.
Sizes are drawn as there.

    /usr/bin/python3 torch_loop.py

answers each line "OPERATOR forward|backward CASES" with the nanoseconds of
processor time of one case, and "" with the names of the operators; see peer.h.
With "backward" torch computes the gradients too, and numpy those of the same
formula.
"""

import math
import random
import sys
import time

import numpy as np
import torch


MOST_ELEMENTS = 2048


def tensor(shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def side():
    return random.randint(1, 4) if random.random() < 0.75 else random.choice(
        [5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65])


def shape():
    sides = [side() for _ in range(random.randint(1, 4))]
    while math.prod(sides) > MOST_ELEMENTS:
        sides[sides.index(max(sides))] = random.randint(1, 4)
    return sides


def one():
    return [tensor(shape())]


def two():
    sides = shape()
    return [tensor(sides), tensor(sides)]


def factors():
    m, k, n = (side() for _ in range(3))
    return [tensor((m, k)), tensor((k, n))]


def softmax(x):
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax_gradient(x, g):
    y = softmax(x)
    return y * (g - (g * y).sum(-1, keepdims=True))


def ones_behind(g, x):
    return np.broadcast_to(np.expand_dims(g, -1), x.shape)


# Inputs, torch, numpy, and numpy's gradients of inputs and what comes back.
OPERATORS = {
    "Add": (two, torch.add, np.add, lambda a, b, g: (g, g)),
    "Sub": (two, torch.sub, np.subtract, lambda a, b, g: (g, -g)),
    "Mul": (two, torch.mul, np.multiply, lambda a, b, g: (g * b, g * a)),
    "Div": (two, torch.div, np.divide,
            lambda a, b, g: (g / b, -g * a / (b * b))),
    "MatMul": (factors, torch.matmul, np.matmul,
               lambda a, b, g: (g @ b.T, a.T @ g)),
    "Relu": (one, torch.relu, lambda x: np.maximum(x, 0),
             lambda x, g: (g * (x > 0),)),
    "Sigmoid": (one, torch.sigmoid, sigmoid,
                lambda x, g: (g * sigmoid(x) * (1 - sigmoid(x)),)),
    "Tanh": (one, torch.tanh, np.tanh,
             lambda x, g: (g * (1 - np.tanh(x) ** 2),)),
    "Exp": (one, torch.exp, np.exp, lambda x, g: (g * np.exp(x),)),
    "Abs": (one, torch.abs, np.abs, lambda x, g: (g * np.sign(x),)),
    "Softmax": (one, lambda x: torch.softmax(x, -1), softmax,
                lambda x, g: (softmax_gradient(x, g),)),
    "ReduceMean": (one, lambda x: torch.mean(x, -1), lambda x: x.mean(-1),
                   lambda x, g: (ones_behind(g, x) / x.shape[-1],)),
    "ReduceMax": (one, lambda x: torch.amax(x, -1), lambda x: x.max(-1),
                  lambda x, g: (ones_behind(g, x) * (
                      x == x.max(-1, keepdims=True)),)),
}


def check(name, expected, found):
    if (found.shape != np.shape(expected) or
            not np.allclose(expected, found, 1e-4, 1e-4)):
        raise ValueError(f"{name}: found {found}, expected {expected}")


def run_case(name, with_gradients):
    draw, tested, formula, gradients = OPERATORS[name]
    inputs = draw()
    leaves = [torch.from_numpy(x) for x in inputs]
    if not with_gradients:
        return check(name, formula(*inputs), tested(*leaves).numpy())
    for leaf in leaves:
        leaf.requires_grad_()
    made = tested(*leaves)
    check(name, formula(*inputs), made.detach().numpy())
    back = tensor(made.shape)
    made.backward(torch.from_numpy(back))
    for leaf, expected in zip(leaves, gradients(*inputs, back)):
        check(name, expected, leaf.grad.numpy())
    return None


def main():
    for line in sys.stdin:
        if not line.strip():
            print(" ".join(OPERATORS), flush=True)
            continue
        name, way, cases = line.split()
        start = time.process_time_ns()
        for _ in range(int(cases)):
            run_case(name, way == "backward")
        spent = time.process_time_ns() - start
        print(spent / int(cases), flush=True)


RANDOM = np.random.default_rng(1)

if __name__ == "__main__":
    torch.set_num_threads(1)
    random.seed(1)
    main()
