#include "apps/nodewise/precision_options.h"

#include "apps/nodewise/model_options.h"

namespace nodewise {
void AddPrecisionOptions(OptionList* options, PrecisionChoice* choice) {
  options->AddText("--precision", "NAME",
                   "of an ONNX model: fp16, bf16 or int8, as far as its "
                   "operators take it",
                   &choice->precision);
  options->AddTexts("--calibrate", "FILE",
                    "sample inputs for --precision: a .npz or .params file "
                    "with all of them, an ONNX test set, or random:SEED; may "
                    "be given again",
                    &choice->calibrate);
  options->AddText("--calibration", "METHOD",
                   "how int8 takes ranges from them: minmax, percentile (99.9) "
                   "or percentile=N (minmax)",
                   &choice->calibration);
  options->AddText("--keep", "REGEX",
                   "operations in whose name this is found stay float32",
                   &choice->keep);
}

absl::Status CheckNoPrecisionChoice(const PrecisionChoice& choice,
                                    const std::string& target) {
  return CheckNoneGiven({{!choice.precision.empty(), "--precision"},
                         {!choice.calibrate.empty(), "--calibrate"},
                         {!choice.calibration.empty(), "--calibration"},
                         {!choice.keep.empty(), "--keep"}},
                        target);
}

}  // namespace nodewise
