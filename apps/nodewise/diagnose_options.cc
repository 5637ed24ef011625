#include "apps/nodewise/diagnose_options.h"

#include <filesystem>
#include <utility>

#include "nodewise/report/inspection.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;

// A folder or a graph is a build of its own, and so is a library if the target
// is one, too: it holds everything.
bool IsBuildOfItsOwn(const std::string& build, const std::string& target) {
  std::error_code error;
  const auto is_library = [&error](const std::string& path) {
    const std::string end = fs::path(path).extension().string();
    return !fs::is_directory(path, error) && end != ".json" && end != ".onnx";
  };
  return !is_library(build) || is_library(target);
}

LoadOptions OptionsOfBuild(const LoadOptions& load, const std::string& build) {
  LoadOptions options = load;
  if (!IsBuildOfItsOwn(build, load.target.target)) {
    options.target.library = build;
    return options;
  }
  options.target = TargetOptions();
  options.target.target = build;
  options.target.devices = load.target.devices;
  options.target.function = load.target.function;
  return options;
}

}  // namespace

void AddSetsOption(OptionList* options, std::optional<uint64_t>* sets) {
  constexpr uint64_t kMostSets = 100;
  options->AddNumber("--sets", "N",
                     "how many sets of inputs both sides run with, where these "
                     "are two models or a compiled network and its model: the "
                     "given one, and others drawn like it (1 or 2)",
                     {sets, 1, kMostSets});
}

absl::StatusOr<Reference> ReferenceNamed(const std::string& text,
                                         const LoadOptions& load,
                                         const InputOptions& inputs,
                                         const ForeignOptions& foreign) {
  Reference reference;
  if (text.empty() || text == "interpreter") {
    NODEWISE_ASSIGN_OR_RETURN(reference.spec.model, SpecOf(load.model));
    return reference;
  }
  LoadOptions options = load;
  options.target = TargetOptions();
  options.target.target = text;
  options.stand_ins.clear();
  if (NamesProgram(text)) {
    LoadOptions model;
    model.target.target = text;
    model.model = load.model;
    reference.kind = Reference::Kind::kProgram;
    NODEWISE_ASSIGN_OR_RETURN(reference.spec,
                              ForeignSpec(model, foreign, inputs));
    return reference;
  }
  if (IsDump(text)) {
    reference.kind = Reference::Kind::kDump;
    reference.spec.path = text;
    return reference;
  }
  reference.kind =
      IsModelOrText(text) ? Reference::Kind::kModel : Reference::Kind::kBuild;
  NODEWISE_ASSIGN_OR_RETURN(reference.spec, SpecOf(options, inputs));
  return reference;
}

absl::StatusOr<Reference> SeriesNamed(const std::vector<std::string>& builds,
                                      const LoadOptions& load,
                                      const InputOptions& inputs) {
  Reference reference;
  reference.kind = Reference::Kind::kBuilds;
  for (const std::string& build : builds) {
    NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec,
                              SpecOf(OptionsOfBuild(load, build), inputs));
    reference.builds.push_back(std::move(spec));
  }
  return reference;
}

}  // namespace nodewise
