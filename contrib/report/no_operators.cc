// Replaces the reports on models in builds without ONNX and its operators:
// there is no network that could have opaque operations, or be lowered.

#include "nodewise/report/model_report.h"

namespace nodewise {

std::string DescribeOpaque(const Network&, JsonWriter*) { return ""; }
void ShowOpaque(const OpaqueReport&, Report*) {}
void AddMissingOutputs(const OpaqueReport&, Report*) {}
void ShowPasses(const PassesReport&, Report*) {}
void ShowPrecision(const PrecisionResult&, Report*) {}
std::string PrecisionLine(const PrecisionResult&) { return ""; }

}  // namespace nodewise
