#include "apps/nodewise/input_options.h"

#include <utility>

#include "apps/nodewise/model_options.h"
#include "fmt/format.h"
#include "nodewise/onnx/onnx_model.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::StatusOr<InputFile> ParseInput(const std::string& argument) {
  NODEWISE_ASSIGN_OR_RETURN(NameAndValue parts,
                            SplitAtEquals("--input", argument, "NAME=FILE"));
  return InputFile{std::move(parts.name), std::move(parts.value)};
}

// Names the options that give the unknown sides of an input their sizes.
std::string HowToSize(const std::string& name, const TensorType& type) {
  if (!type.has_rank()) return "";
  std::string options;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const Dim& side = (*type.shape)[i];
    if (side.is_known()) continue;
    options += fmt::format(" --dim {}=N", NameOfSide(name, i, side));
  }
  return ":" + options;
}

}  // namespace

void AddInputOptions(OptionList* options, InputOptions* inputs) {
  options->AddTexts("--input", "NAME=FILE",
                    "an input from a .npy, .npz, .params or .pb file; once for "
                    "each input",
                    &inputs->inputs);
  options->AddTexts("--inputs", "FILE",
                    "inputs by their names from a .npz or .params file; may be "
                    "given again",
                    &inputs->inputs_files);
  options->AddNumber("--random-inputs", "SEED",
                     "draws the inputs that are not given; one seed gives the "
                     "same values everywhere",
                     {&inputs->seed});
}

absl::StatusOr<InputSpec> SpecOf(const InputOptions& options) {
  InputSpec spec;
  spec.seed = options.seed;
  for (const std::string& argument : options.inputs) {
    NODEWISE_ASSIGN_OR_RETURN(InputFile file, ParseInput(argument));
    spec.files.push_back(std::move(file));
  }
  for (const std::string& file : options.inputs_files) {
    spec.files.push_back({"", file});
  }
  spec.hints.how_to_give = [](const std::string& name) {
    return fmt::format("--input {}=FILE, --inputs FILE or --random-inputs SEED",
                       name);
  };
  spec.hints.how_to_size = &HowToSize;
  return spec;
}

}  // namespace nodewise
