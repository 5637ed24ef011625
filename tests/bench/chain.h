#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nodewise/graph/graph_executor.h"
#include "nodewise/graph/graph_json.h"

namespace nodewise {

// A network in which every node reads the node before it.
struct Chain {
  uint32_t nodes = 0;
  int64_t floats = 0;  // The size of every tensor.
  // Every node also reads one common parameter.
  bool reads_parameter = false;
  std::function<std::string(uint32_t call)> function;
};

// The input is `x`, the parameter `p`. Two blocks of memory take turns for
// what the nodes make, as a compiler plans it.
Graph ChainGraph(const Chain& chain);

NDArray Ones(int64_t floats);
// Sets every input to ones; they must be of one dimension and float32.
void FillWithOnes(GraphExecutor& executor);

// The function of a call of bench_add_000 and so on, `functions` by turns.
std::string AddFunction(uint32_t call, uint32_t functions);

}  // namespace nodewise
