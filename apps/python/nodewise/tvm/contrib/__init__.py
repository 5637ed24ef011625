"""tvm.contrib: the executors."""

from nodewise.tvm.contrib import (debugger, graph_executor,
                                  graph_runtime)

__all__ = ["debugger", "graph_executor", "graph_runtime"]
