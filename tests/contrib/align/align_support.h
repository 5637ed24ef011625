#pragma once

// What tests of the alignment examine: one network compiled in place of
// another.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/align/alignment.h"
#include "nodewise/align/similar_inputs.h"
#include "nodewise/align/value_locate.h"
#include "nodewise/random/random.h"
#include "nodewise/runners/runner_list.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {

inline NDArray Drawn(const std::string& name,
                     const std::vector<int64_t>& shape) {
  RandomSource source(7, name);
  return RandomTensor(source, shape, kFloat32).value();
}

// What was compiled, and what is known of it beside the network as it is meant.
struct Examined {
  std::shared_ptr<const Network> network;
  std::vector<RecordedPair> pairs;
  std::shared_ptr<const GraphTarget> target;
  Alignment alignment;
  ValueLocateResult result;

  std::vector<std::string> Operations(size_t culprit) const {
    std::vector<std::string> names;
    for (const OperationId id : result.culprits[culprit].operations) {
      names.push_back(network->operation(id).name);
    }
    return names;
  }
  // What the alignment says of the entry of that name.
  const AlignedEntry& Entry(const std::string& name) const {
    const GraphIndex& index = target->index();
    return alignment.entries[Index(index.FindEntry(name).value())];
  }
  // What locating says of it.
  const LocatedEntry& Located(const std::string& name) const {
    return result.entries[Index(target->index().FindEntry(name).value())];
  }
  // What was recorded of the first set, or a parameter.
  NDArray Made(EntryId entry) const {
    const GraphIndex& index = target->index();
    const std::string node = index.KeyOf(index.NodeOf(entry));
    for (const NamedTensor& param : target->artefact().params.tensors) {
      if (param.name == node) return param.tensor;
    }
    const size_t place =
        pairs[0].compiled->Find({node, index.OutputOf(entry)}).value();
    return pairs[0].compiled->Load(place).value();
  }
  EntryState StateOf(const std::string& name) const {
    const GraphIndex& index = target->index();
    return result.entries[Index(index.FindEntry(name).value())].state;
  }
  std::string NodeOf(size_t culprit) const {
    return target->index().KeyOf(result.culprits[culprit].node);
  }
  std::vector<std::string> Explanations(size_t culprit) const {
    std::vector<std::string> texts;
    for (const Explanation& one : result.culprits[culprit].explanations) {
      texts.push_back(one.what);
    }
    return texts;
  }
};

// Examines what `compiled` makes beside the network that it should have been
// made from, with those inputs and others drawn like them.
inline Examined ExamineBeside(const Network& meant, const Network& compiled,
                              std::vector<NamedTensor> given,
                              const LowerOptions& options,
                              const SearchLimits& limits = {}) {
  Examined examined;
  examined.network = std::make_shared<const Network>(meant);
  Lowered lowered = Lower(compiled, "net", options).value();
  examined.target =
      GraphTarget::FromArtefact(
          "net",
          {std::move(lowered.graph), BuiltInFunctions(AllOperators()),
           Params{std::move(lowered.params)}},
          {kCpu})
          .value();
  const auto graph_runner =
      MakerOf("debug", {"net", examined.target}).value()().value();
  const auto network_runner =
      MakerOf("interpreter", {"net", nullptr, examined.network})
          .value()()
          .value();
  const std::vector<size_t> inputs =
      PairInputs(graph_runner->inputs(), network_runner->inputs()).value();
  std::vector<RecordedPair>& pairs = examined.pairs;
  for (uint64_t set = 0; set < 2; ++set) {
    if (set > 0) given = DrawSimilar(given, set).value();
    pairs.push_back(
        RecordPair(graph_runner.get(), network_runner.get(), inputs, given)
            .value());
  }
  const GraphIndex& index = examined.target->index();
  examined.alignment = Align(index, *examined.network, pairs).value();
  examined.result = LocateByValue(index, *examined.network, pairs,
                                  examined.alignment, AllOperators(), limits)
                        .value();
  return examined;
}

}  // namespace nodewise
