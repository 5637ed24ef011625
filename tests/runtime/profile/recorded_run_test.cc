#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "nodewise/profile/profiler.h"
#include "tests/runtime/debug/more_kernels.h"
#include "tests/runtime/dump/dump_support.h"

namespace nodewise {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// TV-30: one run executes, times and dumps.
TEST(RecordedRunTest, OneRunGivesTheTableAndTheDump) {
  const auto executor = MakeSet(AddThenRelu());
  ASSERT_THAT(executor->StartRecording({.root = Folder()}), IsOk());
  const RecordedRuns recorded = RunRecorded(executor.get());
  EXPECT_THAT(recorded.status, IsOk());
  EXPECT_THAT(recorded.dump_status, IsOk());
  ASSERT_THAT(recorded.dumps, SizeIs(1));
  ASSERT_THAT(recorded.profile.runs, SizeIs(1));
  EXPECT_THAT(recorded.table, HasSubstr("\nadd0 "));
  EXPECT_THAT(recorded.table, HasSubstr("\nrelu0 "));
  const auto dump = OpenDump(recorded.dumps[0]);
  ASSERT_THAT(dump, IsOk());
  // The table's times are those that the dump has of this very run.
  for (const NodeRecord& record : dump->records) {
    if (record.kind != NodeRecord::Kind::kTime) continue;
    const NodeTime& time = recorded.profile.runs[0].nodes[Index(record.node)];
    EXPECT_EQ(record.time.start_ns, time.start_ns);
    EXPECT_EQ(record.time.end_ns, time.end_ns);
  }
}

TEST(RecordedRunTest, EveryRunHasADumpAndThereIsOneTable) {
  const auto executor = MakeSet(AddThenRelu());
  ASSERT_THAT(executor->StartRecording({.root = Folder()}), IsOk());
  const RecordedRuns recorded = RunRecorded(executor.get(), {.runs = 3});
  EXPECT_THAT(recorded.dumps, SizeIs(3));
  EXPECT_THAT(recorded.profile.runs, SizeIs(3));
}

TEST(RecordedRunTest, RunThatFailsHasADumpAndNoTable) {
  const auto executor =
      MakeSet(GraphBuilder().Input("x").Op("bad", "fail", {"x"}).Head("bad"));
  ASSERT_THAT(executor->StartRecording({.root = Folder()}), IsOk());
  const RecordedRuns recorded = RunRecorded(executor.get(), {.runs = 3});
  EXPECT_FALSE(recorded.status.ok());
  EXPECT_THAT(recorded.dumps, SizeIs(1));
  EXPECT_THAT(recorded.table, IsEmpty());
}

TEST(RecordedRunTest, ExecutorThatRecordsNothingHasTheTableAlone) {
  const auto executor = MakeSet(AddThenRelu());
  const RecordedRuns recorded = RunRecorded(executor.get());
  EXPECT_THAT(recorded.dumps, IsEmpty());
  EXPECT_THAT(recorded.table, HasSubstr("\nrelu0 "));
}

}  // namespace
}  // namespace nodewise
