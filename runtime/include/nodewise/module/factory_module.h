#pragma once

#include <string>
#include <utility>
#include <vector>

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

}  // namespace nodewise
