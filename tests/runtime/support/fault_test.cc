#include "nodewise/support/fault.h"

#include <string>

#include "gtest/gtest.h"

namespace nodewise {
namespace {

Fault FaultWith(Fault::Severity severity) {
  Fault fault;
  fault.severity = severity;
  fault.file = "graph.json";
  fault.found = "a fault";
  return fault;
}

FaultList FullOfWarnings() {
  FaultList list;
  for (size_t i = 0; i < FaultList::kMostFaults; ++i) {
    list.Add(FaultWith(Fault::Severity::kWarning));
  }
  return list;
}

TEST(FaultListTest, SaysOnceThatThereIsMoreThanItLists) {
  FaultList list = FullOfWarnings();
  for (int i = 0; i < 3; ++i) list.Add(FaultWith(Fault::Severity::kWarning));
  ASSERT_EQ(list.faults().size(), FaultList::kMostFaults + 1);
  EXPECT_EQ(list.faults().back().ToString(),
            "graph.json: more faults than are listed, expected at most 10000 "
            "(mend these first)");
  EXPECT_FALSE(list.HasErrors());
}

TEST(FaultListTest, AnErrorThatIsNotListedIsAnErrorStill) {
  FaultList list = FullOfWarnings();
  list.Add(FaultWith(Fault::Severity::kWarning));
  list.Add(FaultWith(Fault::Severity::kError));
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
