#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "nodewise/locate/locate.h"
#include "nodewise/ndarray/ndarray.h"
#include "nodewise/op/op_def.h"
#include "nodewise/report/report.h"
#include "nodewise/runner/runner.h"

namespace nodewise {

// Whether a verdict about a runtime can be believed: the search is asked about
// networks that the runtime is given as they are, and about some in which one
// operation was changed before the runtime got them. It must accuse none of the
// first, and the changed operation of the others, and no other but those into
// which the runtime carries the change.

struct CheckedNetwork {
  std::string name;
  // Must not change any more.
  std::shared_ptr<const Network> network;
  std::vector<NamedTensor> inputs;
  std::string model_file = {};  // As in ProgramRequest.
};

struct AdapterCheckOptions {
  uint64_t seed = 1;
  size_t faults = 10;  // In all networks together.
  // For a runtime that has a file of its own, which no change of the model
  // reaches: what it makes is exchanged for other numbers inside of it. How it
  // reads the model is not tried then.
  bool spoils = false;
  // As in LocateOptions.
  decltype(LocateOptions::known) known = nullptr;
  // May be null.
  std::function<void(size_t done, size_t total)> progress = nullptr;
};

// One search.
struct AdapterTrial {
  enum class Outcome : uint8_t {
    kRight,
    kMissed,  // A changed operation was not named.
    kWrong,   // An unchanged one is accused.
    kFailed,  // The search did not come to its end.
  };

  std::string network;
  // The operation that was changed, and how; empty if none was.
  std::string operation = {};
  std::string change = {};
  Outcome outcome = Outcome::kRight;
  std::vector<std::string> accused = {};  // Operations.
  // Accused operations that do not depend on the changed one, but whose results
  // in the runtime differ from those for the unchanged network: they are wrong.
  std::vector<std::string> carried_into = {};
  // Operations whose results the runtime does not have, so that they are judged
  // together with the spoiled one.
  std::vector<std::string> judged_with = {};
  // The shorter type that the runtime computes in, if it does; that is not a
  // fault.
  std::string precision = {};
  std::string why = {};  // kFailed: the reason.
};
// Returns "right", "missed", "wrong" or "failed".
std::string_view NameOf(AdapterTrial::Outcome outcome);

struct AdapterCheck {
  std::string runtime;  // What it calls itself.
  std::vector<AdapterTrial> trials;
  // Changes that the runtime ignored, so that others were drawn in their place.
  // A runtime that runs a network of its own ignores all of them, and the
  // changes that stay are missed.
  std::vector<AdapterTrial> dropped;

  bool IsTrusted() const;
};

// A network with one operation changed as it may be by mistake, so that an
// output changes by more than any rounding, and in words how.
struct ChangedNetwork {
  std::shared_ptr<const Network> network;
  std::string operation;
  std::string change;
};
// Draws one. Fails with kNotFound if no mistake that is known shows.
absl::StatusOr<ChangedNetwork> ChangeOneOperation(const CheckedNetwork& checked,
                                                  const OpSet& operators,
                                                  uint64_t seed);

// Fails with kInvalidArgument without a network, and with
// kFailedPrecondition, giving the reason, if the program ran none. What else
// fails in a search is an outcome.
absl::StatusOr<AdapterCheck> CheckAdapter(
    std::shared_ptr<const NetworkProgram> program,
    const std::vector<CheckedNetwork>& networks, const OpSet& operators,
    const AdapterCheckOptions& options = {});

// What was found out about an adapter, as text and document (docs/adapters.md
// has its members).
Report ReportOf(const AdapterCheck& check, const AdapterCheckOptions& options);

}  // namespace nodewise
