#pragma once

// Cases for tests of repro, with a node that is spoiled in this process.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nodewise/repro/repro_case.h"
#include "nodewise/runners/runner_list.h"
#include "tests/contrib/lower/lower_support.h"

namespace nodewise {

// Changes the outputs of every call of a function whose name has a word in it.
// The arguments are the inputs and then the outputs.
using Spoil = std::function<void(absl::Span<const DLTensor* const> tensors)>;

class SpoilingLibrary : public Library {
 public:
  SpoilingLibrary(Ref<Library> sound, std::string word, Spoil spoil)
      : sound_(std::move(sound)),
        word_(std::move(word)),
        spoil_(std::move(spoil)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound_->Bind(request));
    if (request.function.find(word_) == std::string_view::npos) return function;
    return PackedFunc::FromBody(
        [function,
         spoil = spoil_](const PackedArgs& args) -> absl::StatusOr<Value> {
          NODEWISE_ASSIGN_OR_RETURN(Value result, function.CallPacked(args));
          std::vector<const DLTensor*> tensors;
          for (int i = 0; i < static_cast<int>(args.size()); ++i) {
            NODEWISE_ASSIGN_OR_RETURN(const ArgView argument, args.At(i));
            NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const tensor,
                                      argument.AsTensor());
            tensors.push_back(tensor);
          }
          spoil(tensors);
          return result;
        });
  }

 private:
  const Ref<Library> sound_;
  const std::string word_;
  const Spoil spoil_;
};

// Runs the network and returns the cases of these nodes.
inline absl::StatusOr<std::vector<ReproCase>> CasesOf(
    const Lowered& net, const Ref<Library>& library,
    const std::vector<std::string>& nodes, std::vector<NamedTensor> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(
      const auto target,
      GraphTarget::FromArtefact("net", {net.graph, library, Params{net.params}},
                                {kCpu}));
  ReproSource source{target->index(), AllOperators(), library, "", {}};
  for (const NamedTensor& param : net.params) {
    source.params.push_back(param.name);
  }
  std::vector<NodeId> ids;
  for (const std::string& node : nodes) {
    NODEWISE_ASSIGN_OR_RETURN(const NodeId id, target->index().FindNode(node));
    ids.push_back(id);
  }
  NODEWISE_ASSIGN_OR_RETURN(const RunnerMaker maker,
                            MakerOf("debug", {"net", target}));
  NODEWISE_ASSIGN_OR_RETURN(const auto runner, maker());
  std::vector<ReproCase> cases;
  NODEWISE_RETURN_IF_ERROR(
      VisitCases(source, ids, *runner, inputs, [&](ReproCase node_case) {
        cases.push_back(std::move(node_case));
        return absl::OkStatus();
      }));
  return cases;
}

}  // namespace nodewise
