#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/nodewise/command.h"
#include "apps/nodewise/load_options.h"
#include "apps/nodewise/model_options.h"
#include "nodewise/align/alignment.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// How many sets of inputs both are run with unless told.
constexpr uint64_t kInputSets = 2;

// A model beside a network that was compiled from it.
struct ModelOfTarget {
  std::string path;
  std::shared_ptr<const Network> network;
  std::vector<size_t> inputs;  // PairInputs().
  // What to say of inputs that no name has paired.
  std::vector<std::string> notes;
  OpaqueReport opaque;
};

// Says how inputs were paired that have no names in common.
void ShowPairs(const ModelOfTarget& model, Outcome* outcome);

// Reads the model, with the sizes that the inputs of the target have. All its
// faults go into the outcome, which is then kError. Fails as PairInputs().
absl::StatusOr<ModelOfTarget> LoadModelOf(const Session& target,
                                          const std::string& path,
                                          const ModelOptions& options,
                                          Outcome* outcome);

// Takes another build of the network for the model. Fails as NetworkOfBuild()
// and PairInputs().
absl::StatusOr<ModelOfTarget> BuildAsModel(const Session& target,
                                           const Session& build);

// What both are run with: the inputs of the target, and others that are drawn
// like them.
struct SetsOfInputs {
  uint64_t sets = kInputSets;
  uint64_t seed = 1;
  // One more has NaN, infinities and zeros in some places.
  bool has_special = false;
};

void AddSetsOption(OptionList* options, std::optional<uint64_t>* sets);

// Returns what the set of this number is, in words.
std::string NameOfSet(const SetsOfInputs& sets, size_t set);

// Runs both with all sets. Fails as the runs do, naming the side.
absl::StatusOr<std::vector<RecordedPair>> RecordBoth(const Session& target,
                                                     const ModelOfTarget& model,
                                                     const SetsOfInputs& sets);

// Locates in what was recorded of both; `open` is Alignment::open.
absl::StatusOr<ValueLocateResult> LocateInRecorded(
    const GraphIndex& index, const Network& network,
    const std::vector<RecordedPair>& pairs, std::vector<ValueId> open);

// Runs both with all sets of inputs, and locates in what they make.
absl::StatusOr<ValueLocateResult> LocateBeside(const Session& target,
                                               const ModelOfTarget& model,
                                               const SetsOfInputs& sets);

}  // namespace nodewise
