#include "tests/onnx/emitted_cases.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "nodewise/emit_c/emit_c.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status.h"
#include "tests/onnx/lowered_case.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNetworksAtOnce = 150;

}  // namespace

EmittedCases::EmittedCases() {
  std::string folder = fs::temp_directory_path() / "nodewise_emitted_XXXXXX";
  if (mkdtemp(folder.data()) != nullptr) folder_ = folder;
}

EmittedCases::~EmittedCases() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

absl::Status EmittedCases::Add(Network network, std::vector<NDArray> inputs) {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, LowerFor(&network, &inputs));
  NODEWISE_ASSIGN_OR_RETURN(const EmittedC emitted,
                            EmitC(lowered.graph, AllOperators()));
  places_[WriteGraph(lowered.graph)].graph = lowered.graph;
  return absl::OkStatus();
}

absl::Status EmittedCases::Compile(const std::string& compiler) {
  std::vector<Place*> batch;
  for (auto& [text, place] : places_) {
    batch.push_back(&place);
    if (batch.size() < kNetworksAtOnce) continue;
    NODEWISE_RETURN_IF_ERROR(CompileBatch(batch, compiler));
    batch.clear();
  }
  if (batch.empty()) return absl::OkStatus();
  return CompileBatch(batch, compiler);
}

absl::Status EmittedCases::CompileBatch(const std::vector<Place*>& batch,
                                        const std::string& compiler) {
  std::vector<Graph*> graphs;
  for (Place* place : batch) {
    graphs.push_back(&place->graph);
    place->library = libraries_.size();
  }
  NODEWISE_ASSIGN_OR_RETURN(
      const std::string source,
      EmitTogether(absl::MakeSpan(graphs), AllOperators()));
  const std::string stem = fmt::format("{}/lib{}", folder_, libraries_.size());
  std::ofstream(stem + ".c") << source;
  const std::string command = fmt::format(
      "{0} -std=c99 -pedantic -Wall -Wextra -Werror -O1 -shared -fPIC "
      "'{1}.c' -o '{1}.so' -lm",
      compiler, stem);
  if (std::system(command.c_str()) != 0) {
    return absl::InternalError("the C does not compile");
  }
  NODEWISE_ASSIGN_OR_RETURN(Ref<Module> module, LoadModule(stem + ".so"));
  libraries_.push_back(LibraryOf(std::move(module)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NDArray>> EmittedCases::Run(
    Network network, std::vector<NDArray> inputs) const {
  NODEWISE_ASSIGN_OR_RETURN(const Lowered lowered, LowerFor(&network, &inputs));
  const auto place = places_.find(WriteGraph(lowered.graph));
  if (place == places_.end()) {
    return absl::UnimplementedError("inputs of other types than the first");
  }
  return RunLowered(place->second.graph, libraries_[place->second.library],
                    lowered.params, inputs);
}

}  // namespace nodewise
