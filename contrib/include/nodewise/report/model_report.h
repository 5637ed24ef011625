#pragma once

#include <string>
#include <vector>

#include "nodewise/ir/network.h"
#include "nodewise/precision/sensitivity.h"
#include "nodewise/report/report.h"
#include "nodewise/session/model_changes.h"

namespace nodewise {

// Shows what is left of an error with the first operations of a ranking kept:
// a table with these titles, and `curve` in the document.
void ShowCurve(const Sensitivity& found, const std::vector<std::string>& titles,
               std::string (*text_of)(double error), Report* report);

// What has been done to a model before it runs, and what is opaque in it.

// Returns the opaque operators of a network as text, "" if there are none, and
// adds them to the document.
std::string DescribeOpaque(const Network& network, JsonWriter* json);

// Shows the opaque operators, what runs them, and what is not computed; nothing
// if there are none.
void ShowOpaque(const OpaqueReport& opaque, Report* report);
// Adds an error for each output that is missing.
void AddMissingOutputs(const OpaqueReport& opaque, Report* report);

// Shows what passes did. The document has `passes`.
void ShowPasses(const PassesReport& passes, Report* report);

// Shows what lowering the precision did; and in one line, where other things
// are to be shown. The document has `precision`.
void ShowPrecision(const PrecisionResult& result, Report* report);
std::string PrecisionLine(const PrecisionResult& result);

}  // namespace nodewise
