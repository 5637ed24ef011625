"""The name of debug_executor up to 0.7, which 0.8 still has."""

from nodewise.tvm.contrib.debugger.debug_executor import (GraphModuleDebug,
                                                          create)

__all__ = ["GraphModuleDebug", "create"]
