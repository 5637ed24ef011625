#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Makes a factory as TVM's libraries hold it: a graph's JSON, the name under
// which it creates executors (usually "default"), and parameters. Its first
// import is its code. It has the functions of TVM's GraphExecutorFactory.
Ref<Module> MakeGraphFactory(std::string graph_json, std::string name,
                             std::vector<NamedTensor> params);

// Returns the parameters of a GraphExecutorFactory; empty for other modules.
// The tensors are views of the library's memory, at any alignment.
std::vector<NamedTensor> FactoryParams(const Module& factory);

// Returns the bytes of a library file without what a factory carries beside its
// code, so that the code can be given away without the network: blanks for the
// graph, underscores for the names of parameters and of the module, zeros for
// the numbers. Lengths, types and shapes stay, so that the library loads as
// before, and its functions do what they did; it makes no executors any more.
// Modules of other kinds stay as they are, and so does a blob that is not
// understood. Fails as opening the file and as reading it as ELF.
absl::StatusOr<std::string> WithErasedFactories(const std::string& path);

}  // namespace nodewise
