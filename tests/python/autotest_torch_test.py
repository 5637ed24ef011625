"""AutoTest with torch on both sides, where it is installed: the tests that the
framework which this is modelled on was shown with, word for word."""

import importlib.util
import unittest

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("torch is not installed")

# pylint: disable=wrong-import-position,import-error
import torch as torch_original  # noqa: E402
from autotest_test import run_programs  # noqa: E402
from package_support import nodewise  # noqa: E402

from nodewise.autotest import (autotest, constant, dual, nothing,  # noqa: E402
                               random, random_device)


class TorchBut:
    """torch, or a module of it, with other things in the place of some."""

    def __init__(self, module, changed):
        self._module, self._changed = module, changed

    def __getattr__(self, name):
        if name in self._changed:
            return self._changed[name]
        inner = {key.partition(".")[2]: value
                 for key, value in self._changed.items()
                 if key.startswith(name + ".")}
        value = getattr(self._module, name)
        return TorchBut(value, inner) if inner else value


class WrongDilation(torch_original.nn.ConvTranspose2d):
    def forward(self, x):  # pylint: disable=arguments-differ
        made = super().forward(x)
        return made * (1.01 if self.dilation[0] > 1 else 1)


class WrongAxis(torch_original.nn.Flatten):
    def forward(self, x):  # pylint: disable=arguments-renamed
        made = super().forward(x)
        return made.flip(-1)


class _WrongBackward(torch_original.autograd.Function):
    # pylint: disable=abstract-method,arguments-differ
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(context, gradient):
        x, = context.saved_tensors
        return gradient * (x > 0) * 1.01


class WrongGradient(torch_original.nn.ReLU):
    def forward(self, x):  # pylint: disable=arguments-renamed
        return _WrongBackward.apply(x)


class WrongSum(torch_original.nn.BatchNorm2d):
    def forward(self, x):  # pylint: disable=arguments-renamed
        made = super().forward(x)
        if self.running_mean is not None:
            self.running_mean += 1
        return made


MINE = TorchBut(torch_original, {
    "nn.ConvTranspose2d": WrongDilation, "nn.Flatten": WrongAxis,
    "nn.ReLU": WrongGradient, "nn.BatchNorm2d": WrongSum,
    "matmul": lambda a, b: torch_original.matmul(a, b.detach())})
RIGHT = TorchBut(torch_original, {})


def deconv2d(torch):
    channels = random(1, 6)
    m = torch.nn.ConvTranspose2d(
        in_channels=channels,
        out_channels=random(1, 20),
        kernel_size=random(1, 4),
        stride=random() | nothing(),
        padding=random(1, 3).to(int) | nothing(),
        dilation=random(1, 5) | nothing(),
        groups=random(1, 5) | nothing(),
        padding_mode=constant("zeros") | nothing(),
    )
    m.train(random())
    device = random_device()
    m.to(device)
    x = torch.random_tensor(ndim=4, dim1=channels).to(device)
    y = m(x)
    return y


def matmul(torch):
    k = random(1, 6)
    x = torch.random_tensor(ndim=2, dim1=k)
    y = torch.random_tensor(ndim=2, dim0=k)
    z = torch.matmul(x, y)
    return z


def flatten(torch):
    m = torch.nn.Flatten(
        start_dim=random(1, 6) | nothing(), end_dim=random(1, 6) | nothing())
    m.train(random())
    device = random_device()
    m.to(device)
    x = torch.random_tensor().to(device)
    y = m(x)
    return y


def relu(torch):
    m = torch.nn.ReLU()
    m.train(random())
    return m(torch.random_tensor())


def batch_norm(torch):
    channels = random(1, 4).to(int)
    m = torch.nn.BatchNorm2d(num_features=channels, eps=random(0, 1),
                             momentum=random(0, 1), affine=random())
    m.train(constant(True))
    return m(torch.random_tensor(4, dim0=random(2, 4), dim1=channels))


class TorchTest(unittest.TestCase):
    def fails(self, body, **options):
        with self.assertRaises(nodewise.WrongResult) as caught:
            autotest(seed=1, **options)(
                lambda: body(dual(MINE, torch_original)))()
        return str(caught.exception)

    def test_the_same_library_agrees_with_itself(self):
        for body in (deconv2d, matmul, flatten, relu, batch_norm):
            with self.subTest(body.__name__):
                autotest(n=10)(
                    lambda body=body: body(dual(RIGHT, torch_original)))()

    def test_a_wrong_module_is_found(self):
        text = self.fails(deconv2d)
        self.assertIn("ConvTranspose2d: the candidate differs", text)
        # The parameters of the reference are those of the candidate.
        self.assertEqual(text.count(".load_state_dict("), 2)
        self.assertIn("Flatten: the candidate differs", self.fails(flatten))

    def test_a_wrong_gradient_is_found(self):
        self.assertIn("the gradient of an input: the candidate differs",
                      self.fails(relu))
        self.assertIn("the gradient of an input: the candidate differs: is "
                      "None, expected a Tensor", self.fails(matmul))
        autotest(auto_backward=False)(
            lambda: relu(dual(MINE, torch_original)))()

    def test_what_a_module_keeps_is_compared(self):
        self.assertIn("the state of a module afterwards: the candidate differs:"
                      " ['running_mean']", self.fails(
                          batch_norm, auto_backward=False))

    def test_programs_with_modules_and_gradients_run(self):
        for body in (deconv2d, relu, matmul):
            wrong, right = run_programs(self, self.fails(body))
            self.assertIn("tensor(", right)
            self.assertNotEqual(wrong, right)

    def test_torch_and_numpy_are_compared(self):
        import numpy  # pylint: disable=import-outside-toplevel
        both = dual(torch_original, numpy)
        autotest()(lambda: both.matmul(
            both.random_tensor(2, dim1=3), both.random_tensor(2, 3)).sum())()
        both = dual(MINE, numpy, names=("MINE", None))
        with self.assertRaises(nodewise.WrongResult):
            autotest(rtol=0, atol=0)(lambda: both.exp(
                both.random_tensor(1, 40)))()


if __name__ == "__main__":
    unittest.main()
