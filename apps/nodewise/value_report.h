#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/nodewise/command.h"
#include "nodewise/align/value_locate.h"

namespace nodewise {

// What a culprit is if nothing else is said of it.
constexpr std::string_view kBroken = "broken";

// What a result is about.
struct ReportWords {
  std::string model = "the model";
  std::string side;   // Empty, or which of two builds the nodes are of.
  std::string owner;  // Said of it behind a culprit's name.
  // What each culprit is: "broken", or what else is known.
  std::vector<std::string> kinds;
  // What each set of inputs is; nothing is said of them without.
  std::vector<std::string> sets;
  // How many culprits the text shows; the document has them all.
  size_t most_shown = SIZE_MAX;
};

// Returns in words what is wrong with a culprit that is broken.
std::string ReasonFor(const ValueCulprit& culprit, const Network& network);

// Shows whom a result names, and what is known of each node. The document has
// `culprits`, `verdicts`, and `side` if the words have one.
void ShowValueResult(const GraphIndex& index, const Network& network,
                     const ValueLocateResult& result, const ReportWords& words,
                     Outcome* outcome);

}  // namespace nodewise
