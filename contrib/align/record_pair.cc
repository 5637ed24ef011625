#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "contrib/align/precision.h"
#include "nodewise/align/alignment.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// Compilers write names as identifiers of C: `data.0` becomes `data_0`.
std::string Identifier(std::string name) {
  for (char& c : name) {
    if (!absl::ascii_isalnum(c)) c = '_';
  }
  return name;
}

// Returns where a name is among others, as it is or as compilers write it; the
// number of names if it is not.
size_t PlaceOfName(const std::vector<std::string>& names,
                   const std::string& name) {
  auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    found = std::ranges::find(names, Identifier(name), &Identifier);
  }
  return static_cast<size_t>(found - names.begin());
}

absl::StatusOr<std::unique_ptr<TensorSpool>> RecordNetwork(
    Runner* network, absl::Span<const NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(auto spool, TensorSpool::Create());
  NODEWISE_RETURN_IF_ERROR(
      network->Run(inputs, {.sink = spool.get()}).status());
  return spool;
}

// A compiled network may read and make numbers in a shorter type, or in a
// longer one.
absl::StatusOr<std::vector<NamedTensor>> WithInputTypes(
    const InputList& list, absl::Span<const NamedTensor> inputs) {
  std::vector<NamedTensor> typed(inputs.begin(), inputs.end());
  for (NamedTensor& input : typed) {
    const auto place = list.Find(input.name);
    if (!place.ok()) continue;  // A run reports this error.
    const DLDataType dtype = list.Type(*place).dtype;
    if (!HasNumbers(dtype) || !HasNumbers(input.tensor.dtype())) continue;
    NODEWISE_ASSIGN_OR_RETURN(input.tensor, InType(input.tensor, dtype));
  }
  return typed;
}

std::vector<size_t> InputsWhere(const InputList& list, bool needed) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list.IsNeeded(i) == needed) inputs.push_back(i);
  }
  return inputs;
}

}  // namespace

// Names come before places: two inputs of one type may stand in any order, and
// a wrong pair would make every node look wrong.
absl::StatusOr<std::vector<size_t>> PairInputs(const InputList& compiled,
                                               const InputList& network) {
  const std::vector<size_t> needed = InputsWhere(compiled, true);
  const std::vector<size_t> given = InputsWhere(network, true);
  std::vector<std::string> names;
  for (const size_t input : given) names.push_back(network.Name(input));
  std::vector<size_t> pairs;
  for (size_t i = 0; i < needed.size(); ++i) {
    const std::string name = compiled.Name(needed[i]);
    size_t found = PlaceOfName(names, name);
    if (found == given.size() && i < given.size() &&
        AreCompatible(compiled.Type(needed[i]), network.Type(given[i]))) {
      found = i;
    }
    if (found == given.size()) {
      return InvalidArgument(
          "input {}: {} of the compiled network, expected an input of the "
          "model with its name, or with its type in the same place (the model "
          "has {})",
          Printable(name), compiled.TypeText(needed[i]), ListOf(names));
    }
    pairs.push_back(given[found]);
  }
  return pairs;
}

std::vector<size_t> PairsByPlace(const InputList& compiled,
                                 const InputList& network,
                                 absl::Span<const size_t> pairs) {
  const std::vector<size_t> needed = InputsWhere(compiled, true);
  std::vector<size_t> by_place;
  for (size_t i = 0; i < pairs.size() && i < needed.size(); ++i) {
    const std::vector<std::string> name = {network.Name(pairs[i])};
    if (PlaceOfName(name, compiled.Name(needed[i])) == name.size()) {
      by_place.push_back(i);
    }
  }
  return by_place;
}

// The compiled graph is given what the network reads and not what was given:
// where the network has the shorter type, both have the rounded numbers.
absl::StatusOr<RecordedPair> RecordPair(Runner* compiled, Runner* network,
                                        absl::Span<const size_t> pairs,
                                        absl::Span<const NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NamedTensor> given,
                            WithInputTypes(network->inputs(), inputs));
  NODEWISE_ASSIGN_OR_RETURN(const std::vector<NDArray> tensors,
                            MatchInputs(network->inputs(), given));
  RecordedPair recorded;
  NODEWISE_ASSIGN_OR_RETURN(recorded.network, RecordNetwork(network, given));
  const std::vector<size_t> needed = InputsWhere(compiled->inputs(), true);
  std::vector<NamedTensor> compiled_inputs;
  for (size_t i = 0; i < needed.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(
        NDArray tensor,
        InType(tensors[pairs[i]], compiled->inputs().Type(needed[i]).dtype));
    compiled_inputs.push_back(
        {compiled->inputs().Key(needed[i]), std::move(tensor)});
    recorded.inputs.push_back(
        {compiled_inputs.back().name, network->inputs().Name(pairs[i])});
  }
  NODEWISE_ASSIGN_OR_RETURN(recorded.compiled, TensorSpool::Create());
  std::set<std::string> unneeded;
  for (const size_t i : InputsWhere(compiled->inputs(), false)) {
    unneeded.insert(compiled->inputs().Key(i));
  }
  const auto is_looked_at = [&unneeded](const std::string& node) {
    return unneeded.count(node) == 0;
  };
  NODEWISE_ASSIGN_OR_RETURN(
      RunResult result,
      compiled->Run(compiled_inputs,
                    {.sink = recorded.compiled.get(), .select = is_looked_at}));
  for (NamedTensor& output : result.outputs) {
    recorded.outputs.push_back(std::move(output.tensor));
  }
  return recorded;
}

absl::StatusOr<RecordedPair> RecordFromDump(const GraphIndex& index,
                                            TensorSource* dump,
                                            Runner* network) {
  const Graph& graph = index.graph();
  RecordedPair recorded;
  NODEWISE_ASSIGN_OR_RETURN(recorded.compiled, TensorSpool::Create());
  NODEWISE_RETURN_IF_ERROR(dump->Visit(*recorded.compiled));
  // The graph does not say which of its inputs are parameters. Those that no
  // input of the network goes with are taken for such.
  std::vector<std::string> keys;
  for (const uint32_t node : graph.arg_nodes) {
    keys.push_back(index.KeyOf(NodeId{node}));
  }
  std::vector<NamedTensor> inputs;
  for (const size_t i : InputsWhere(network->inputs(), true)) {
    const std::string name = network->inputs().Name(i);
    const size_t key = PlaceOfName(keys, name);
    if (key == keys.size()) {
      return InvalidArgument(
          "{}: has no input {}, expected a dump of what was compiled from the "
          "model (its graph has {})",
          dump->name(), Printable(name), ListOf(keys, 8));
    }
    NODEWISE_ASSIGN_OR_RETURN(const size_t place,
                              recorded.compiled->Find({keys[key]}));
    NODEWISE_ASSIGN_OR_RETURN(NDArray tensor, recorded.compiled->Load(place));
    inputs.push_back({name, std::move(tensor)});
    recorded.inputs.push_back({keys[key], name});
  }
  NODEWISE_ASSIGN_OR_RETURN(inputs, WithInputTypes(network->inputs(), inputs));
  NODEWISE_ASSIGN_OR_RETURN(recorded.network, RecordNetwork(network, inputs));
  return recorded;
}

}  // namespace nodewise
