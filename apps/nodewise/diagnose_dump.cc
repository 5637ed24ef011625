#include "apps/nodewise/diagnose_dump.h"

#include "nodewise/diagnose/diagnose.h"
#include "nodewise/interp/interpreter.h"
#include "nodewise/report/answer_report.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::StatusOr<Report> DiagnoseDump(const std::string& dump,
                                    const std::string& model,
                                    const ModelSpec& spec) {
  Question question;
  question.target.name = question.target.dump = dump;
  question.reference = ModelReference(model);
  question.reference.spec.model = spec;
  KeepFreedMemory();
  NODEWISE_ASSIGN_OR_RETURN(const Answer answer, Diagnose(question));
  return ReportOf(answer);
}

}  // namespace nodewise
