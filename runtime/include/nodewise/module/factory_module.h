#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// A factory as TVM's libraries hold it: a graph's JSON, the name under which it
// creates executors (usually "default"), and parameters. Its code is what it
// imports first. Its functions are those of TVM's GraphExecutorFactory.
Ref<Module> MakeGraphFactory(std::string graph_json, std::string name,
                             std::vector<NamedTensor> params);

// The parameters of a module of kind GraphExecutorFactory; empty for others.
// The tensors are views of the library's memory, at any alignment.
std::vector<NamedTensor> FactoryParams(const Module& factory);

}  // namespace nodewise
