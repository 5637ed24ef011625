// Says which node of a compiled network is wrong, beside the model that it was
// made from. usage: diagnose ARTEFACT MODEL
#include "nodewise/diagnose/diagnose.h"

#include <cstdio>
#include <string>

#include "nodewise/report/answer_report.h"

int main(int, char** words) {
  nodewise::TargetSpec spec;
  spec.path = words[1];
  spec.inputs.seed = 1;
  nodewise::DiagnosticList faults;
  const auto target = nodewise::OpenTarget(spec, &faults);
  if (!target.ok()) {
    std::fprintf(stderr, "%s\n", target.status().ToString().c_str());
    return 2;
  }
  nodewise::Question question{*target};
  question.reference = nodewise::ModelReference(words[2]);
  const auto answer = nodewise::Diagnose(question);
  if (!answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
    return 2;
  }
  for (const nodewise::NamedCulprit& culprit : answer->culprits) {
    std::fprintf(stderr, "%s\n", culprit.finding.ToString().c_str());
  }
  std::puts(
      nodewise::DocumentOf(nodewise::ReportOf(*answer), {"locate"}).c_str());
  return answer->is_wrong() ? 1 : 0;
}
