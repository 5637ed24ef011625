#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "tests/support/matchers.h"
#include "tests/support/network_ops.h"

// Shared by tests of the verifier: a network without faults, as text, to be
// broken in one place, and what is then found.
namespace nodewise {

inline constexpr char kGood[] = R"(network "net" {
  opset "" 21;
  input %0 "x": float32[2, 3];
  constant %1 "w" = float32[3] [1, 2, 3];
  #0 "add" = Add@7(%0, %1) -> %2 "a": float32[2, 3] barrier %3;
  #1 "relu" = Relu@14(%2) -> %4 "r": float32[2, 3] barrier %5 after %3;
  #2 "soft" = Softmax@13(%4) {axis: int 1} -> %6 "s": float32[2, 3] barrier %7;
  output %6;
}
)";

inline std::string Replaced(std::string text, const std::string& from,
                            const std::string& to) {
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text
                                    : text.replace(place, from.size(), to);
}

inline std::vector<std::string> FindingsIn(const NetworkData& data) {
  std::vector<std::string> findings;
  for (const Finding& finding : Verify(data)) {
    const bool is_error = finding.severity == Severity::kError;
    const std::string part(finding.part().substr(std::strlen("network-")));
    findings.push_back(part + (is_error ? ": " : " warning: ") +
                       finding.ToString());
  }
  return findings;
}

inline std::vector<std::string> FindingsIn(const std::string& text) {
  const auto data = ParseNetworkText(text, test_ops::Ops(), "net.txt");
  EXPECT_THAT(data, IsOk());
  return data.ok() ? FindingsIn(*data) : std::vector<std::string>();
}

// Returns the findings in the valid network with one part replaced, or
// appended.
inline std::vector<std::string> FindingsWith(const std::string& from,
                                             const std::string& to) {
  return FindingsIn(Replaced(kGood, from, to));
}
inline std::vector<std::string> FindingsWith(const std::string& more) {
  return FindingsWith("output %6;", "output %6; " + more);
}

}  // namespace nodewise
