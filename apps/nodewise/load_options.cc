#include "apps/nodewise/load_options.h"

#include <utility>

#include "fmt/format.h"
#include "nodewise/foreign/known_programs.h"
#include "nodewise/report/model_report.h"
#include "nodewise/session/model_file.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

absl::Status CheckIsHere(const std::string& target) {
  if (!NamesProgram(target)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: is run by another program, expected an artefact or a model here "
      "(run, dump and locate take such a TARGET)",
      target));
}

absl::Status CheckMeant(const LoadOptions& options) {
  const std::string& target = options.target.target;
  if (IsModelOrText(target)) return CheckModelTarget(options.target);
  NODEWISE_RETURN_IF_ERROR(CheckNoModelOptions(options.model, target));
  NODEWISE_RETURN_IF_ERROR(CheckNoLoweringOptions(options.lowering, target));
  return CheckNoPrecisionChoice(options.precision, target);
}

// Other verbs show more of it.
void NotePrecision(const Session& session, Report* report) {
  if (session.precision == nullptr) return;
  report->notes.push_back(PrecisionLine(*session.precision));
}

}  // namespace

void AddStandInOption(OptionList* options,
                      std::vector<std::string>* expressions) {
  options->AddTexts("--stand-in", "REGEX",
                    "has the reference compute the nodes in whose name, key or "
                    "function it is found; may be repeated",
                    expressions);
}

void AddLoadOptions(OptionList* options, LoadOptions* load,
                    InputOptions* inputs) {
  AddTargetOptions(options, &load->target);
  AddDeviceOption(options, &load->target);
  AddInputOptions(options, inputs);
  AddReferenceOption(options, &load->lowering);
  AddLoweringOptions(options, &load->lowering);
  AddModelOptions(options, &load->model);
  AddOpaqueOption(options, &load->model);
  AddPrecisionOptions(options, &load->precision);
  AddStandInOption(options, &load->stand_ins);
}

absl::StatusOr<TargetSpec> SpecOf(const LoadOptions& options,
                                  const InputOptions& inputs) {
  NODEWISE_RETURN_IF_ERROR(CheckIsHere(options.target.target));
  NODEWISE_RETURN_IF_ERROR(CheckMeant(options));
  NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(options.target));
  NODEWISE_ASSIGN_OR_RETURN(spec.lowering, SpecOf(options.lowering));
  NODEWISE_ASSIGN_OR_RETURN(spec.model, SpecOf(options.model));
  NODEWISE_ASSIGN_OR_RETURN(spec.precision, SpecOf(options.precision));
  NODEWISE_ASSIGN_OR_RETURN(spec.inputs, SpecOf(inputs));
  spec.stand_ins = options.stand_ins;
  spec.passes = options.passes;
  spec.keeps_opaque = options.keeps_opaque;
  return spec;
}

absl::StatusOr<Session> Opened(absl::StatusOr<Session> session,
                               const DiagnosticList& faults, Report* report) {
  if (faults.HasErrors()) {
    report->AddErrors(faults);
    return Session();
  }
  NODEWISE_RETURN_IF_ERROR(session.status());
  for (const std::string& note : session->notes) report->notes.push_back(note);
  return session;
}

absl::StatusOr<Session> LoadTarget(const LoadOptions& options,
                                   const InputOptions& inputs, Report* report,
                                   OpenSizes open) {
  NODEWISE_ASSIGN_OR_RETURN(TargetSpec spec, SpecOf(options, inputs));
  spec.keeps_open_sizes = open == OpenSizes::kKept;
  DiagnosticList faults;
  auto opened = OpenTarget(spec, &faults);
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            Opened(std::move(opened), faults, report));
  NotePrecision(session, report);
  return session;
}

absl::StatusOr<Session> LoadWithoutInputs(const LoadOptions& options,
                                          const InputOptions& inputs,
                                          Report* report) {
  NODEWISE_ASSIGN_OR_RETURN(const TargetSpec spec, SpecOf(options, inputs));
  DiagnosticList faults;
  InputFiles files;
  auto opened = OpenWithoutInputs(spec, &files, &faults);
  NODEWISE_ASSIGN_OR_RETURN(Session session,
                            Opened(std::move(opened), faults, report));
  NotePrecision(session, report);
  return session;
}

}  // namespace nodewise
