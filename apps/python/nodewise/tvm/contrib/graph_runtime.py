"""The name of graph_executor up to 0.7, which 0.8 still has."""

from nodewise.tvm.contrib.graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
