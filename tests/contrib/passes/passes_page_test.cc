// The example of docs/passes.md, line by line
// (tests/style/network_page_test.py), and that it does what the page says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/contrib/passes/quantized_networks.h"

namespace nodewise {
namespace {

// Merges, and returns what was left alone and why.
std::string MergeAndExplain(Network& net) {
  const QuantizationReport report = MergeQuantization(net);
  std::string reasons;
  for (const auto& [operation, reason] : report.left_alone) {
    reasons += operation + ": " + reason + "\n";
  }
  return reasons;
}

TEST(PassesPageTest, ReportSaysWhatWasLeftAloneAndWhy) {
  ProductSetup setup;
  Network net = setup.Make();
  EXPECT_EQ(MergeAndExplain(net), "");
  EXPECT_EQ(KindsOf(net), std::vector<std::string>{"QLinearConv"});
  setup.y.scale = Floats({1, 2});
  net = setup.Make();
  EXPECT_EQ(MergeAndExplain(net),
            "product: y_scale is by axis 1, expected one number\n");
}

}  // namespace
}  // namespace nodewise
