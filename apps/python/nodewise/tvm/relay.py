"""tvm.relay: only what host code took from there before it was moved."""

from nodewise.tvm.runtime import load_param_dict, save_param_dict

__all__ = ["load_param_dict", "save_param_dict"]
