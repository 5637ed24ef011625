#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "nodewise/compare/compare.h"
#include "nodewise/locate/dump_difference.h"
#include "nodewise/report/report.h"

namespace nodewise {

struct ComparisonView {
  enum class Order : uint8_t {
    kWorstFirst,  // What nodes make before what they are given.
    kReference,   // The reference's.
  };

  size_t max_lines = 0;  // In each list; 0: all.
  Order order = Order::kWorstFirst;
};
// Fails with kInvalidArgument for another text than "error" and "order".
absl::StatusOr<ComparisonView::Order> ParseComparisonOrder(
    const std::string& text);

// Shows a comparison, and where it begins in the graph of two dumps, which may
// be null. Adds to the report's text and document; the document has all in the
// order of the reference.
void ShowComparison(const Comparison& comparison, const DumpDifference* where,
                    const ComparisonView& view, Report* report);

}  // namespace nodewise
