#include "nodewise/device/workspace_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>

namespace nodewise {
namespace {

using ::testing::HasSubstr;

constexpr size_t kPage = 4096;

TEST(WorkspacePoolTest, ZeroBytesGiveOnePage) {
  WorkspacePool pool;
  const uint64_t before = WorkspacePool::TotalBytes();
  void* data = pool.AllocWorkspace(0);
  ASSERT_NE(data, nullptr);
  std::memset(data, 1, kPage);
  EXPECT_EQ(WorkspacePool::TotalBytes() - before, kPage);
}

TEST(WorkspacePoolTest, SizesAreRoundedUpToPages) {
  WorkspacePool pool;
  const uint64_t before = WorkspacePool::TotalBytes();
  ASSERT_NE(pool.AllocWorkspace(kPage), nullptr);
  ASSERT_NE(pool.AllocWorkspace(kPage + 1), nullptr);
  EXPECT_EQ(WorkspacePool::TotalBytes() - before, 3 * kPage);
}

TEST(WorkspacePoolTest, MemoryIsAligned) {
  WorkspacePool pool;
  for (const size_t bytes : {0, 1, 5000, 100000, 10000000}) {
    const auto data = reinterpret_cast<uintptr_t>(pool.AllocWorkspace(bytes));
    EXPECT_EQ(data % 128, 0) << bytes;
  }
}

TEST(WorkspacePoolTest, BlocksInUseDoNotOverlap) {
  WorkspacePool pool;
  void* first = pool.AllocWorkspace(kPage);
  void* second = pool.AllocWorkspace(kPage);
  std::memset(first, 1, kPage);
  std::memset(second, 2, kPage);
  EXPECT_EQ(static_cast<char*>(first)[kPage - 1], 1);
  EXPECT_EQ(static_cast<char*>(second)[0], 2);
}

TEST(WorkspacePoolTest, SizesThatCannotBeGiveNull) {
  WorkspacePool pool;
  for (const size_t bytes : {std::numeric_limits<size_t>::max(),
                             std::numeric_limits<size_t>::max() - kPage,
                             std::numeric_limits<size_t>::max() / 2}) {
    EXPECT_EQ(pool.AllocWorkspace(bytes), nullptr) << bytes;
  }
  EXPECT_EQ(pool.allocations(), 0);
  EXPECT_NE(pool.AllocWorkspace(1), nullptr);
}

TEST(WorkspacePoolTest, StackOfBlocksIsReusedInTheSameOrder) {
  WorkspacePool pool;
  void* outer = pool.AllocWorkspace(3 * kPage);
  void* inner = pool.AllocWorkspace(kPage);
  ASSERT_TRUE(pool.FreeWorkspace(inner).ok());
  ASSERT_TRUE(pool.FreeWorkspace(outer).ok());
  EXPECT_EQ(pool.AllocWorkspace(3 * kPage), outer);
  EXPECT_EQ(pool.AllocWorkspace(kPage), inner);
}

TEST(WorkspacePoolTest, SmallestFreeBlockThatFitsIsTaken) {
  WorkspacePool pool;
  void* large = pool.AllocWorkspace(8 * kPage);
  void* middle = pool.AllocWorkspace(4 * kPage);
  void* small = pool.AllocWorkspace(kPage);
  for (void* data : {small, middle, large}) {
    ASSERT_TRUE(pool.FreeWorkspace(data).ok());
  }
  EXPECT_EQ(pool.AllocWorkspace(2 * kPage), middle);
  EXPECT_EQ(pool.AllocWorkspace(2 * kPage), large);
  EXPECT_EQ(pool.AllocWorkspace(kPage), small);
}

TEST(WorkspacePoolTest, FreeingMayBeInAnyOrder) {
  WorkspacePool pool;
  void* a = pool.AllocWorkspace(kPage);
  void* b = pool.AllocWorkspace(2 * kPage);
  void* c = pool.AllocWorkspace(3 * kPage);
  for (void* data : {a, c, b}) EXPECT_TRUE(pool.FreeWorkspace(data).ok());
  EXPECT_EQ(pool.AllocWorkspace(kPage), a);
  EXPECT_EQ(pool.AllocWorkspace(2 * kPage), b);
  EXPECT_EQ(pool.AllocWorkspace(3 * kPage), c);
}

TEST(WorkspacePoolTest, GrowingSizesDoNotPileUp) {
  WorkspacePool pool;
  const uint64_t before = WorkspacePool::TotalBytes();
  for (size_t pages = 1; pages <= 50; ++pages) {
    void* data = pool.AllocWorkspace(pages * kPage);
    ASSERT_TRUE(pool.FreeWorkspace(data).ok());
  }
  EXPECT_EQ(WorkspacePool::TotalBytes() - before, 50 * kPage);
}

TEST(WorkspacePoolTest, FreeingWhatIsNotInUseIsRefused) {
  WorkspacePool pool;
  void* kept = pool.AllocWorkspace(1);
  void* freed = pool.AllocWorkspace(1);
  ASSERT_TRUE(pool.FreeWorkspace(freed).ok());
  int unknown = 0;
  for (void* data :
       {static_cast<void*>(&unknown), freed, static_cast<void*>(nullptr)}) {
    const absl::Status status = pool.FreeWorkspace(data);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr("not allocated by this thread"));
  }
  EXPECT_TRUE(pool.FreeWorkspace(kept).ok());
}

TEST(WorkspacePoolTest, MemoryOfAnotherThreadIsRefused) {
  void* data = WorkspacePool::ThisThread().AllocWorkspace(1);
  std::thread([data] {
    EXPECT_FALSE(WorkspacePool::ThisThread().FreeWorkspace(data).ok());
  }).join();
  EXPECT_TRUE(WorkspacePool::ThisThread().FreeWorkspace(data).ok());
}

TEST(WorkspacePoolTest, ThreadThatEndsGivesItsMemoryBack) {
  const uint64_t before = WorkspacePool::TotalBytes();
  std::thread([before] {
    WorkspacePool& pool = WorkspacePool::ThisThread();
    ASSERT_NE(pool.AllocWorkspace(5 * kPage), nullptr);  // Never freed.
    ASSERT_TRUE(pool.FreeWorkspace(pool.AllocWorkspace(kPage)).ok());
    EXPECT_EQ(WorkspacePool::TotalBytes() - before, 6 * kPage);
  }).join();
  EXPECT_EQ(WorkspacePool::TotalBytes(), before);
}

TEST(WorkspacePoolTest, AllocationsAreCountedReusedOrNot) {
  WorkspacePool pool;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.FreeWorkspace(pool.AllocWorkspace(1)).ok());
  }
  EXPECT_EQ(pool.allocations(), 3);
}

}  // namespace
}  // namespace nodewise
