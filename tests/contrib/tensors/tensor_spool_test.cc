#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nodewise/tensors/tensor_store.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TensorSpoolTest : public testing::Test {
 protected:
  absl::Status Take(const std::string& node, const std::vector<float>& values,
                    TensorRole role = TensorRole::kOutput) {
    const TensorKey key{node, 0, role};
    TensorItem item{key};
    const NDArray tensor = Floats(values);
    item.tensor = tensor.tensor();
    return spool_->Consume(item);
  }
  absl::StatusOr<NDArray> Load(const std::string& node) const {
    const auto place = spool_->Find({node, 0});
    if (!place.ok()) return place.status();
    return spool_->Load(*place);
  }

  const std::unique_ptr<TensorSpool> spool_ = TensorSpool::Create().value();
};

TEST_F(TensorSpoolTest, TensorsAreAsTheyCameAndWhereOperatorsCanReadThem) {
  ASSERT_THAT(Take("a", {1, 2, 3}), IsOk());
  ASSERT_THAT(Take("none", {}), IsOk());
  ASSERT_THAT(Take("b", {4}), IsOk());
  for (const auto& [node, values] :
       {std::pair("a", std::vector<float>{1, 2, 3}),
        std::pair("none", std::vector<float>{}),
        std::pair("b", std::vector<float>{4})}) {
    const auto tensor = Load(node);
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(ValuesOf(*tensor), values);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 64, 0U);
  }
}

// Dumps are mapped, and a tensor may lie at any address there.
TEST_F(TensorSpoolTest, AnInputAtAnOddAddressIsLoadedWhereOperatorsCanReadIt) {
  std::vector<uint8_t> file(1 + sizeof(float));
  const float value = 5;
  std::memcpy(file.data() + 1, &value, sizeof value);
  const int64_t size = 1;
  DLTensor odd = *Floats({0}).tensor();
  odd.data = file.data() + 1;
  odd.shape = const_cast<int64_t*>(&size);
  odd.strides = nullptr;
  const TensorKey key{"x", 0};
  TensorItem item{key};
  item.tensor = &odd;
  item.lasting = NDArray::Borrow(odd, nullptr);
  item.is_network_input = true;
  ASSERT_THAT(spool_->Consume(item), IsOk());
  const auto loaded = Load("x");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded->data()) % alignof(float), 0U);
  EXPECT_THAT(ValuesOf(*loaded), ElementsAre(5));
}

TEST_F(TensorSpoolTest, WhatWasLoadedStaysWhenMoreComes) {
  ASSERT_THAT(Take("a", {1, 2}), IsOk());
  const auto a = Load("a");
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(Take("b", std::vector<float>(100'000, 7)), IsOk());
  const auto b = Load("b");
  ASSERT_THAT(b, IsOk());
  EXPECT_THAT(ValuesOf(*a), ElementsAre(1, 2));
  EXPECT_EQ(ValuesOf(*b).back(), 7);
}

TEST_F(TensorSpoolTest, WhatNodesReadIsLeftOut) {
  ASSERT_THAT(Take("a", {1}, TensorRole::kInput), IsOk());
  EXPECT_TRUE(spool_->kept().empty());
  EXPECT_THAT(Load("a"),
              FailsWith(absl::StatusCode::kNotFound, HasSubstr("a")));
}

TEST_F(TensorSpoolTest, ATensorThatComesTwiceIsRefused) {
  ASSERT_THAT(Take("a", {1}), IsOk());
  EXPECT_THAT(Take("a", {1}),
              FailsWith(absl::StatusCode::kDataLoss, HasSubstr("came twice")));
}

}  // namespace
}  // namespace nodewise
