#include "nodewise/tensors/tensor_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::Each;

constexpr size_t kCount = 4096;
constexpr size_t kBytes = kCount * sizeof(float);

NDArray Filled(float value) {
  return Floats(std::vector<float>(kCount, value));
}

TEST(TensorStoreTest, WhatDoesNotFitIsReadFromTheDisk) {
  const auto store = TensorStore::Create(2 * kBytes);
  std::vector<std::shared_ptr<StoredTensor>> stored;
  for (int i = 0; i < 5; ++i) {
    stored.push_back(store->Put(Filled(static_cast<float>(i))));
  }
  EXPECT_EQ(store->bytes_in_memory(), 2 * kBytes);
  EXPECT_EQ(store->bytes_on_disk(), 3 * kBytes);
  for (int i = 0; i < 5; ++i) {
    const auto tensor = stored[static_cast<size_t>(i)]->Load();
    ASSERT_THAT(tensor, IsOk());
    EXPECT_THAT(ValuesOf(*tensor), Each(static_cast<float>(i)));
  }
}

TEST(TensorStoreTest, RoomOfWhatIsGoneIsUsedAgain) {
  const auto store = TensorStore::Create(0);
  const auto first = store->Put(Filled(1));
  for (int i = 0; i < 10; ++i) {
    const auto next = store->Put(Filled(2));
    EXPECT_THAT(ValuesOf(first->Load().value()), Each(1));
    EXPECT_THAT(ValuesOf(next->Load().value()), Each(2));
  }
  EXPECT_EQ(store->bytes_on_disk(), 2 * kBytes);
}

TEST(TensorStoreTest, WhatWasLoadedOutlastsTheTensorAndTheStore) {
  auto store = TensorStore::Create(0);
  auto first = store->Put(Filled(1));
  const NDArray loaded = first->Load().value();
  first.reset();
  const auto next = store->Put(Filled(2));
  EXPECT_THAT(ValuesOf(loaded), Each(1));
  store.reset();
  EXPECT_THAT(ValuesOf(next->Load().value()), Each(2));
}

TEST(TensorStoreTest, WhatWasUsedLastStaysInMemory) {
  const auto store = TensorStore::Create(2 * kBytes);
  const auto first = store->Put(Filled(1));
  const auto second = store->Put(Filled(2));
  const void* const place = first->Load().value().data();
  const auto third = store->Put(Filled(3));
  EXPECT_EQ(first->Load().value().data(), place);
  EXPECT_THAT(ValuesOf(second->Load().value()), Each(2));
}

}  // namespace
}  // namespace nodewise
