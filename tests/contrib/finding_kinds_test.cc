#include <gtest/gtest.h>

#include <set>

#include "nodewise/diagnose/answer.h"
#include "nodewise/graph/finding.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/memcheck/plan_sanitizer.h"
#include "nodewise/process/isolation.h"
#include "nodewise/sweep/sweep.h"

namespace nodewise {
namespace {

TEST(FindingKindsTest, NamesAreUniqueAmongAllParts) {
  std::set<std::string_view> names;
  const auto add = [&](absl::Span<const FindingKind> kinds) {
    for (const FindingKind& kind : kinds) {
      EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
      EXPECT_FALSE(kind.help.empty()) << kind.name;
    }
  };
  add(finding_kinds::kAll);
  add(memory_kinds::kAll);
  add(isolation_kinds::kAll);
  add(sweep_kinds::kAll);
  add(network_kinds::kAll);
  add(float_kinds::kAll);
  add(verdict_kinds::kAll);
}

}  // namespace
}  // namespace nodewise
