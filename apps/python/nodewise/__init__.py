"""nodewise names the operator that makes a neural network's results wrong.

>>> import nodewise
>>> answer = nodewise.locate("model.onnx", random_inputs=1)
>>> answer.status
'ok'

load() keeps a network loaded, to be run, stopped between nodes, looked into and
changed. Each verb of the command is a function here, with the command's options
as keywords, and returns an Answer. Targets are paths, bytes, onnx.ModelProto,
modules of TVM, "ort:model.onnx", or a runtime() of your own.
"""

import importlib
import typing

from nodewise._answer import Answer, Culprit, Finding, Source, Verdict
from nodewise._errors import Error, WrongResult
from nodewise._runner import Runner, Runtime, runner, runtime
from nodewise._vm_trace import VmTrace, trace_vm
from nodewise.verbs import (align, compare, convert, diagnose, dump, extract,
                            inspect, locate, profile, repro, run, run_autotest,
                            verify)

if typing.TYPE_CHECKING:
    from nodewise import autotest, testing
    from nodewise._sample_comparison import (Metric, OutputComparison,
                                             SampleComparison, top1)
    from nodewise._samples import compare_samples
    from nodewise._session import Session, load
    from nodewise._tensors import Tensor, TensorFile, tensors

__all__ = ["Answer", "Culprit", "Error", "Finding", "Metric",
           "OutputComparison", "Runner", "Runtime", "SampleComparison",
           "Session", "Source", "Tensor", "TensorFile", "Verdict",
           "VmTrace", "WrongResult", "align", "autotest", "compare", "compare_samples",
           "convert", "diagnose", "dump", "extract", "inspect", "load",
           "locate", "profile", "repro", "run", "run_autotest", "runner",
           "runtime", "tensors", "testing", "top1", "trace_vm", "verify"]

# What needs the native module, or numpy, is imported when it is first asked for:
# the verbs work without it, and an import costs no more than its own files.
_LATER = {"Session": "_session", "load": "_session", "Tensor": "_tensors",
          "TensorFile": "_tensors", "tensors": "_tensors",
          "Metric": "_sample_comparison", "top1": "_sample_comparison",
          "OutputComparison": "_sample_comparison",
          "SampleComparison": "_sample_comparison",
          "compare_samples": "_samples"}


def __getattr__(name: str) -> typing.Any:
    if name in ("autotest", "testing"):
        return importlib.import_module(f"nodewise.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'nodewise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"nodewise.{_LATER[name]}"), name)
