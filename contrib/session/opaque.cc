#include "nodewise/session/opaque.h"

#include <utility>

#include "nodewise/foreign/opaque_runner.h"
#include "nodewise/ops/opaque.h"
#include "nodewise/ops/ops.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status UseOpaqueProgram(const ModelSpec& spec) {
  if (spec.opaque_program == nullptr) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(
      auto runner, MakeOpaqueRunner(*spec.opaque_program, AllOperators()));
  SetOpaqueRunner(std::move(runner));
  return absl::OkStatus();
}

absl::StatusOr<OpaqueReport> TakeOpaque(const ModelSpec& spec,
                                        Network* network) {
  OpaqueReport report;
  report.operators = OpaqueOperators(*network);
  report.text = TextOf(report.operators);
  if (spec.opaque_program != nullptr) {
    report.program = spec.opaque_program->name;
  }
  NODEWISE_RETURN_IF_ERROR(UseOpaqueProgram(spec));
  if (report.operators.empty() || !report.program.empty()) return report;
  NODEWISE_ASSIGN_OR_RETURN(KnownPart part, KnownPartOf(*network));
  *network = std::move(part.network);
  report.missing = std::move(part.missing);
  report.ends = std::move(part.ends);
  report.open = std::move(part.open);
  return report;
}

}  // namespace nodewise
