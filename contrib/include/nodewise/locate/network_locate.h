#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/locate/locate.h"
#include "nodewise/locate/outside_reference.h"
#include "nodewise/lower/lower.h"
#include "nodewise/op/op_def.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Names the operation that something else which runs a network, a foreign
// runtime say, gets wrong: the interpreter computes each operation again from
// what the candidate handed out.

struct NetworkLocateRequest {
  const Network& network;
  const OpSet& operators;
  // Makes a runner of the network, with the capabilities kTensors and kPatches,
  // that hands out inputs, outputs and those of these values that it can.
  std::function<absl::StatusOr<std::unique_ptr<Runner>>(
      const std::vector<std::string>& observed)>
      candidate;
  // The values that may be asked for: ObservableValues() of a foreign runner.
  std::vector<std::string> observable;
  std::vector<NamedTensor> inputs;
  // How often the candidate may run to find out what can be observed while the
  // fault is there.
  size_t most_search_runs = 100;
  RefereeMaker referee = nullptr;  // Is asked about culprits; may be null.
  // Makes such a runner that has each of the values from a model which ends at
  // it. Is asked where the candidate hands out nothing but outputs; may be
  // null.
  std::function<absl::StatusOr<std::unique_ptr<Runner>>(
      const std::vector<std::string>& observed)>
      by_parts = nullptr;
};

struct NetworkLocated {
  // The network as what was judged: a node for each operation, or for several
  // between which nothing was observed.
  std::shared_ptr<const Lowered> graph;
  LocateResult result;
  // The values that were not observed, since the candidate cannot hand them out
  // or the fault is gone when they are.
  std::vector<std::string> unobserved;
  // How much the outputs of the candidate change when it hands out all that it
  // can, as RelativeError(), and the output that changes most.
  double change = 0;
  std::string most_changed = {};
  // Most of the error of an output was only there with less observed than could
  // be.
  bool vanishes = false;
  // It is not even there when the candidate runs the model as it is written to
  // be observed, with nothing observed; so `result` is about a sound run.
  bool is_gone = false;
  std::vector<RefereeOpinion> opinions;  // If there is a referee.
};

// Runs the candidate twice, with and without being observed. Where most of the
// error of wrong outputs is only there as long as nothing is looked at, as much
// is observed as leaves more than half of it. Where nothing inside is handed
// out, models that end earlier and earlier say between which values the first
// one is that is off. Then does what Locate() does. Fails as that, and as
// Lower().
absl::StatusOr<NetworkLocated> LocateInNetwork(
    const NetworkLocateRequest& request, const LocateOptions& options = {});

}  // namespace nodewise
