#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/graph/graph_json.h"
#include "nodewise/ir/network.h"
#include "nodewise/module/module.h"
#include "nodewise/ndarray/ndarray.h"

namespace nodewise {

// Runs networks by the C that they are written as. A C compiler takes longer
// to begin than for most networks, so many are compiled together.
class EmittedCases {
 public:
  // Files go into a folder that is removed with this object.
  EmittedCases();
  ~EmittedCases();
  EmittedCases(const EmittedCases&) = delete;
  EmittedCases& operator=(const EmittedCases&) = delete;

  // Notes a network, as lowered for these inputs. Fails with kUnimplemented,
  // saying why, if it cannot be lowered, or if there is no C for it.
  absl::Status Add(Network network, std::vector<NDArray> inputs);
  // Compiles all that was noted with `compiler`, and loads it.
  absl::Status Compile(const std::string& compiler);
  // REQUIRES: the network was noted with inputs of these types, and compiled.
  absl::StatusOr<std::vector<NDArray>> Run(Network network,
                                           std::vector<NDArray> inputs) const;

 private:
  // Where the functions of a graph are.
  struct Place {
    Graph graph;  // That names them.
    size_t library = 0;
  };

  absl::Status CompileBatch(const std::vector<Place*>& batch,
                            const std::string& compiler);

  std::string folder_;
  std::map<std::string, Place> places_;  // By the graph's text.
  std::vector<Ref<Library>> libraries_;
};

}  // namespace nodewise
