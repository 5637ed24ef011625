#include "nodewise/graph/named_outputs.h"

#include <set>
#include <utility>

#include "fmt/format.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<std::vector<NamedTensor>> FetchOutputs(
    const GraphExecutor& executor) {
  std::vector<NamedTensor> outputs;
  for (size_t i = 0; i < executor.NumOutputs(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const NDArray output, executor.GetOutput(i));
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, output.CopyToHost());
    outputs.push_back({executor.OutputInfo(i).name, std::move(copy)});
  }
  MakeNamesUnique(&outputs);
  return outputs;
}

void MakeNamesUnique(std::vector<NamedTensor>* tensors) {
  std::set<std::string> taken;
  for (NamedTensor& entry : *tensors) {
    const std::string name = entry.name;
    for (int n = 2; !taken.insert(entry.name).second; ++n) {
      entry.name = fmt::format("{}_{}", name, n);
    }
  }
}

}  // namespace nodewise
