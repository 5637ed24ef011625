#include "apps/nodewise/diagnose_options.h"

#include <filesystem>
#include <utility>

#include "apps/nodewise/build_parts.h"
#include "nodewise/diagnose/diagnose.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/report/inspection.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// A folder or a graph is a build of its own, and so is a library if the target
// is one, too: it holds everything.
bool IsStandaloneBuild(const std::string& build, const std::string& target) {
  const auto is_library = [](const std::filesystem::path& path) {
    std::error_code error;
    const std::string end = path.extension().string();
    return !std::filesystem::is_directory(path, error) && end != ".json" &&
           end != ".onnx";
  };
  return !is_library(build) || is_library(target);
}

// Everything but the files goes for all builds of a series.
LoadOptions OptionsOfBuild(const LoadOptions& load, const std::string& build) {
  LoadOptions options = load;
  if (!IsStandaloneBuild(build, load.target.target)) {
    options.target.library = build;
    return options;
  }
  // The files that were named are those of TARGET.
  options.target.target = build;
  options.target.library = options.target.params = "";
  return options;
}

}  // namespace

CommandOption SetsOption(std::optional<uint64_t>* sets) {
  // Each set costs a run of both sides.
  constexpr uint64_t kMostSets = 100;
  return {"--sets", "N",
          "how many sets of inputs both sides run with, where these are two "
          "models or a compiled network and its model: the given one, and "
          "others drawn like it (1 or 2)",
          NumberOption{sets, 1, kMostSets}};
}

absl::StatusOr<Reference> ReferenceNamed(const std::string& text,
                                         const LoadOptions& load,
                                         const ForeignOptions& foreign) {
  Reference reference;
  if (text.empty() || text == "interpreter") {
    NODEWISE_ASSIGN_OR_RETURN(reference.spec.model, SpecOf(load.model));
    return reference;
  }
  if (NamesProgram(text)) {
    // Options about graphs may be meant for TARGET, and mean nothing here.
    LoadOptions model;
    model.target.target = text;
    model.model = load.model;
    model.inputs = load.inputs;
    reference.kind = Reference::Kind::kProgram;
    NODEWISE_ASSIGN_OR_RETURN(reference.spec, ForeignSpec(model, foreign));
    return reference;
  }
  if (IsDump(text)) {
    // Nothing of a dump is opened before the search wants it.
    reference.kind = Reference::Kind::kDump;
    reference.spec.path = text;
    return reference;
  }
  // Files and stand-ins that were named are those of TARGET.
  LoadOptions options = load;
  options.target = TargetOptions();
  options.target.target = text;
  options.stand_ins.clear();
  reference.kind =
      IsModelOrText(text) ? Reference::Kind::kModel : Reference::Kind::kBuild;
  NODEWISE_ASSIGN_OR_RETURN(reference.spec, SpecOf(options));
  return reference;
}

absl::StatusOr<Reference> ParseBuildSeries(
    const std::vector<std::string>& builds, const LoadOptions& load) {
  Reference reference;
  reference.kind = Reference::Kind::kBuilds;
  for (const std::string& build : builds) {
    NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec,
                              SpecOf(OptionsOfBuild(load, build)));
    // Only described: the search opens the builds that it looks at.
    reference.builds.push_back(std::move(spec));
  }
  return reference;
}

absl::StatusOr<Report> DiagnoseDump(const std::string& dump,
                                    const std::string& model,
                                    const ModelSpec& spec) {
  Question question;
  // A target that is only a name and a dump: there is nothing to open.
  question.target.name = question.target.dump = dump;
  question.reference = ModelReference(model);
  question.reference.spec.model = spec;
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(const Answer answer, Diagnose(question));
  return ReportOf(answer);
}

}  // namespace nodewise
