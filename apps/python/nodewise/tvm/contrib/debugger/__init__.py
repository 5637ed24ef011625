"""tvm.contrib.debugger: the debug executor, by both of its names."""

from nodewise.tvm.contrib.debugger import debug_executor, debug_runtime

__all__ = ["debug_executor", "debug_runtime"]
