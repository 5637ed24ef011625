#include "apps/nodewise/model_options.h"

#include <filesystem>

#include "fmt/format.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/support/file.h"

namespace nodewise {

void AddModelOptions(OptionList* options, ModelOptions* model) {
  options->AddTexts("--dim", "NAME=N",
                    "of an ONNX model: the size of a dimension by its name, "
                    "or by INPUT:SIDE, as in x:0=1, where it has none; may be "
                    "given again",
                    &model->dims);
  options->AddTexts("--freeze", "NAME=FILE",
                    "of an ONNX model: an input that is always this tensor; "
                    "may be given again",
                    &model->freeze);
  options->AddNumber("--seed", "N",
                     "of an ONNX model: what random operators draw from that "
                     "have no seed of their own (1)",
                     {&model->seed});
}

void AddReferenceOption(OptionList* options, LoweringOptions* lowering) {
  options->AddFlag("--reference",
                   "computes an ONNX model slowly but surely, by the "
                   "definitions of its operators, one node for each",
                   &lowering->reference);
  AddBackendOption(options, lowering);
}

void AddBackendOption(OptionList* options, LoweringOptions* lowering) {
  options->AddText("--backend", "NAME",
                   "what computes the nodes of a model, or of a folder that "
                   "convert made: onednn, with the reference for what that "
                   "has not, or reference",
                   &lowering->backend);
}

absl::StatusOr<Backend> BackendOf(const LoweringOptions& options) {
  if (options.backend.empty()) {
    return options.reference ? Backend::kReference : Backend::kFastest;
  }
  if (options.backend == "reference") return Backend::kReference;
  if (options.backend != "onednn") {
    return absl::InvalidArgumentError(
        fmt::format("--backend: found \"{}\", expected onednn or reference",
                    options.backend));
  }
  if (!options.reference) return Backend::kFastest;
  return absl::InvalidArgumentError(
      "--backend onednn: contradicts --reference");
}

void AddLoweringOptions(OptionList* options, LoweringOptions* lowering) {
  options->AddFlag("--no-fuse", "of an ONNX model: one node for each operation",
                   &lowering->no_fuse);
  options->AddFlag("--no-reuse",
                   "of an ONNX model: memory of its own for each tensor",
                   &lowering->no_reuse);
  options->AddFlag("--no-layouts",
                   "of an ONNX model: every tensor in the order of the model, "
                   "never with its channels last",
                   &lowering->no_layouts);
}

void SetFrozen(const ModelOptions& options, InputFiles* files) {
  for (const std::string& text : options.freeze) {
    files->SetFrozen(text.substr(0, text.find('=')));
  }
}

bool IsModel(const std::string& path) {
  return std::filesystem::path(path).extension() == ".onnx";
}

bool IsNetworkText(const std::string& path) {
  const auto file = MappedFile::Open(path);
  if (!file.ok()) return false;
  return LooksLikeNetworkText(file->text());
}

bool IsModelOrText(const std::string& path) {
  return IsModel(path) || IsNetworkText(path);
}

absl::Status CheckNoneGiven(
    std::initializer_list<std::pair<bool, const char*>> given,
    const std::string& target) {
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: is no .onnx file, expected one with {}", target, name));
  }
  return absl::OkStatus();
}

absl::Status CheckNoModelOptions(const ModelOptions& options,
                                 const std::string& target) {
  return CheckNoneGiven({{!options.dims.empty(), "--dim"},
                         {!options.freeze.empty(), "--freeze"},
                         {options.seed.has_value(), "--seed"},
                         {!options.opaque.empty(), "--opaque"}},
                        target);
}

absl::Status CheckNoLoweringOptions(const LoweringOptions& options,
                                    const std::string& target) {
  return CheckNoneGiven({{options.reference, "--reference"},
                         {options.no_fuse, "--no-fuse"},
                         {options.no_reuse, "--no-reuse"},
                         {options.no_layouts, "--no-layouts"}},
                        target);
}

absl::StatusOr<NameAndValue> SplitAtEquals(std::string_view option,
                                           const std::string& text,
                                           std::string_view expected) {
  const size_t equals = text.find('=');
  if (equals != 0 && equals != std::string::npos && equals + 1 != text.size()) {
    return NameAndValue{text.substr(0, equals), text.substr(equals + 1)};
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: found \"{}\", expected {}", option, text, expected));
}

}  // namespace nodewise
