# What to build. Edit this file, or copy it into the build folder and edit the
# copy, which then wins; -DOPTION=VALUE on cmake's command line wins over both.

# The debug executor: every node timed and recorded, the commands and the
# functions for it. Without it the runtime only runs.
set(USE_PROFILER ON)

# ONNX models in and out. Needs protobuf; without it commands that are given a
# model say so.
set(USE_ONNX ON)

# Fast kernels for models. Needs oneDNN 2.6 or newer (libdnnl-dev).
set(USE_ONEDNN ON)

# The libraries that find out what is wrong with a run, for C++ programs:
# nodewise::diagnose and others. Need nlohmann_json and zlib; without them only
# the runtime library is built.
set(USE_CONTRIB ON)

# What looks for faults where none has been met yet: random tests of operators
# (`nodewise autotest`, `nodewise adapter check`), gradients, planted faults.
# Needs USE_ONNX and USE_PROFILER; without it those verbs say so.
set(USE_LAB ON)

# The `nodewise` command. Needs USE_CONTRIB and CLI11.
set(USE_COMMAND ON)

# The native half of the Python package: networks that stay loaded. Needs
# USE_CONTRIB, USE_PROFILER, Python's headers and the PyPI package nanobind.
set(USE_PYTHON OFF)

# `cmake --install` also makes a link libtvm_runtime.so, by which programs that
# are linked against TVM find nodewise. A TVM that is there already stays.
set(INSTALL_TVM_LINK ON)
