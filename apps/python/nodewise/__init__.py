"""nodewise names the operator that makes a neural network's results wrong.

>>> import nodewise
>>> answer = nodewise.verify("model.onnx")
>>> answer.status
'ok'

Each verb of the command is a function here, with the command's options as
keywords, and returns an Answer. Targets are paths, bytes, onnx.ModelProto,
modules of TVM, "ort:model.onnx", or a runtime() of your own.
"""

from nodewise._answer import Answer, Culprit, Finding, Verdict
from nodewise._errors import Error, WrongResult
from nodewise._runtime import Runtime, runtime
from nodewise.verbs import (align, compare, convert, diagnose, dump, extract,
                            inspect, locate, profile, repro, run, run_autotest,
                            verify)

__all__ = ["Answer", "Culprit", "Error", "Finding", "Runtime", "Verdict",
           "WrongResult", "align", "compare", "convert", "diagnose", "dump",
           "extract", "inspect", "locate", "profile", "repro", "run",
           "run_autotest", "runtime", "verify"]
