#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nodewise/debug/debug_executor.h"
#include "nodewise/module/module.h"

namespace nodewise {

// A network to be debugged. Executors over it are made as they are needed.
struct TimedNetwork {
  Graph graph;
  Ref<Library> library;
  std::function<void(GraphExecutor&)> set_inputs;
  std::string work;  // What its nodes calculate, in words.
  // Rounds of what runs it, and how often it runs in each for its times.
  int rounds = 0;
  int repeats = 1;
  // The nodes take no longer than the clock does.
  bool is_fine_grained = false;
};

std::unique_ptr<GraphExecutor> MakePlain(const TimedNetwork& network);
std::unique_ptr<DebugExecutor> MakeDebug(const TimedNetwork& network,
                                         std::optional<RecordOptions> record);

// A chain with 64 bytes for each node: almost only fixed costs.
TimedNetwork SmallChain(uint32_t nodes);
// A chain of 200 nodes of 2.56 MB.
TimedNetwork LargeChain();
// The fixture with the most bytes of entries; none if there are no fixtures.
std::optional<TimedNetwork> LargestFixture();

// Returns the network with functions that return at once.
TimedNetwork WithEmptyFunctions(TimedNetwork network);

// Returns the sizes of the graph's entries, and their sum.
std::vector<size_t> EntrySizes(const Graph& graph);
size_t EntryBytes(const Graph& graph);

}  // namespace nodewise
