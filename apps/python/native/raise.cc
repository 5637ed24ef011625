#include "apps/python/native/raise.h"

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

namespace nb = nanobind;

[[noreturn]] void RaiseFindings(const std::vector<std::string>& texts) {
  nb::list findings;
  for (const std::string& text : texts) {
    // Names from files may be any bytes.
    findings.append(nb::steal(PyUnicode_DecodeUTF8(
        text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  }
  const nb::object error =
      nb::module_::import_("nodewise._errors").attr("Error");
  const nb::object raised = error(findings);
  PyErr_SetObject(error.ptr(), raised.ptr());
  throw nb::python_error();
}

}  // namespace

void Raise(const absl::Status& status) {
  // A run that was cancelled has a signal waiting, whose handler raises.
  if (absl::IsCancelled(status) && PyErr_CheckSignals() != 0) {
    throw nb::python_error();
  }
  RaiseFindings({std::string(MessageOf(status))});
}

void Raise(const absl::Status& status, const DiagnosticList& diagnostics) {
  std::vector<std::string> texts;
  for (const Diagnostic& each : diagnostics.items()) {
    if (each.severity == Severity::kError) texts.push_back(each.ToString());
  }
  if (texts.empty()) Raise(status);
  RaiseFindings(texts);
}

}  // namespace nodewise
