#include "nodewise/support/diagnostic.h"

#include <string>

#include "gtest/gtest.h"

namespace nodewise {
namespace {

Diagnostic DiagnosticWith(Severity severity) {
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.file = "graph.json";
  diagnostic.found = "a fault";
  return diagnostic;
}

DiagnosticList FullOfWarnings() {
  DiagnosticList list;
  for (size_t i = 0; i < DiagnosticList::kMostDiagnostics; ++i) {
    list.Add(DiagnosticWith(Severity::kWarning));
  }
  return list;
}

TEST(DiagnosticListTest, SaysOnceThatThereIsMoreThanItLists) {
  DiagnosticList list = FullOfWarnings();
  for (int i = 0; i < 3; ++i) list.Add(DiagnosticWith(Severity::kWarning));
  ASSERT_EQ(list.items().size(), DiagnosticList::kMostDiagnostics + 1);
  EXPECT_EQ(list.items().back().ToString(),
            "graph.json: more faults than are listed, expected at most 10000 "
            "(mend these first)");
  EXPECT_FALSE(list.HasErrors());
}

TEST(DiagnosticListTest, AnErrorThatIsNotListedIsAnErrorStill) {
  DiagnosticList list = FullOfWarnings();
  list.Add(DiagnosticWith(Severity::kWarning));
  list.Add(DiagnosticWith(Severity::kError));
  EXPECT_TRUE(list.HasErrors());
  EXPECT_FALSE(list.ToStatus().ok());
}

TEST(ShortenedTest, KeepsWhatIsShortAndCutsBetweenCharacters) {
  EXPECT_EQ(Shortened("add"), "add");
  EXPECT_EQ(Shortened(std::string(500, 'x')).size(), 500u);
  // The two bytes of the letter would be the 500th and the 501st.
  EXPECT_EQ(Shortened(std::string(499, 'x') + "é").size(), 499u);
}

}  // namespace
}  // namespace nodewise
