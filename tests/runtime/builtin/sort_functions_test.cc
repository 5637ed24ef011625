// The functions that compiled code of sort, argsort and topk calls by name.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "nodewise/func/registry.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename... Args>
absl::Status CallSort(const char* name, const Args&... args) {
  return FindFunction(std::string("tvm.contrib.sort.") + name)
      .Call(args...)
      .status();
}

NDArray Ints(const std::vector<int32_t>& values) {
  return MakeTensor<int32_t>({static_cast<int64_t>(values.size())}, values);
}

TEST(SortTest, ValuesAreSortedEitherWay) {
  const NDArray x = Floats({3, 1, 2, 1});
  const NDArray y = Floats({0, 0, 0, 0});
  ASSERT_THAT(CallSort("sort", x, y, 0, 1), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(1, 1, 2, 3));
  ASSERT_THAT(CallSort("sort", x, y, -1, 0), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(3, 2, 1, 1));
}

TEST(SortTest, ValuesMayTakeThePlaceOfTheInput) {
  const NDArray x = MakeTensor<float>({2, 3}, {3, 2, 1, 6, 4, 5});
  ASSERT_THAT(CallSort("sort", x, x, 1, 1), IsOk());
  EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(SortTest, AxisInTheMiddleIsFollowed) {
  const NDArray x = MakeTensor<float>({2, 2}, {4, 1, 3, 2});
  const NDArray y = MakeTensor<float>({2, 2}, {0, 0, 0, 0});
  ASSERT_THAT(CallSort("sort", x, y, 0, 1), IsOk());
  EXPECT_THAT(ValuesOf(y), ElementsAre(3, 1, 4, 2));
}

TEST(SortTest, EqualElementsKeepTheirOrderAndNanComesLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const NDArray order = Ints({0, 0, 0, 0});
  ASSERT_THAT(CallSort("argsort", Floats({nan, 2, 1, 2}), order, 0, 1), IsOk());
  EXPECT_THAT(ValuesOf<int32_t>(order), ElementsAre(2, 1, 3, 0));
}

TEST(SortTest, OnlyTheCountedElementsOfARowAreSorted) {
  const NDArray x = MakeTensor<float>({2, 3}, {3, 2, 1, 3, 2, 1});
  const NDArray order = MakeTensor<int32_t>({2, 3}, {0, 0, 0, 0, 0, 0});
  ASSERT_THAT(CallSort("argsort_nms", x, Ints({2, 3}), order, 1, 1), IsOk());
  EXPECT_THAT(ValuesOf<int32_t>(order), ElementsAre(1, 0, 2, 2, 1, 0));
}

TEST(SortTest, TopKGivesWhatIsWanted) {
  const NDArray x = Floats({3, 1, 4, 2});
  const NDArray values = Floats({0, 0});
  const NDArray order = Ints({0, 0});
  ASSERT_THAT(CallSort("topk", x, values, order, 2, 0, "both", 0), IsOk());
  EXPECT_THAT(ValuesOf(values), ElementsAre(4, 3));
  EXPECT_THAT(ValuesOf<int32_t>(order), ElementsAre(2, 0));
  ASSERT_THAT(CallSort("topk", x, order, 2, 0, "indices", 1), IsOk());
  EXPECT_THAT(ValuesOf<int32_t>(order), ElementsAre(1, 3));
  EXPECT_THAT(
      CallSort("topk", x, values, order, 2, 0, "bot", 0),
      FailsWith(StatusCode::kInvalidArgument, HasSubstr("found \"bot\"")));
}

TEST(SortTest, TensorsThatDoNotFitAreRefused) {
  const NDArray x = MakeTensor<double>({4}, {4, 3, 2, 1});
  const auto refused = [](const char* part) {
    return FailsWith(StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_THAT(CallSort("sort", x, Floats({0, 0, 0, 0}), 0, 1),
              refused("the values are float32, expected float64"));
  EXPECT_THAT(CallSort("argsort", x, Ints({0, 0, 0}), 0, 1),
              refused("the indices have 3 elements, expected 4"));
  EXPECT_THAT(CallSort("argsort_nms", MakeTensor<float>({2, 1}, {1, 2}),
                       Ints({1}), Ints({0, 0}), 1, 1),
              refused("the counts have 1 elements, expected 2"));
  EXPECT_THAT(CallSort("sort", x, x, 1, 1), refused("axis 1 of a tensor"));
}

TEST(SortTest, StridedTensorsAreRefused) {
  const NDArray x = Floats({4, 3, 2, 1});
  DLTensor every_other = *x;
  int64_t shape[] = {2};
  int64_t strides[] = {2};
  every_other.shape = shape;
  every_other.strides = strides;
  const NDArray strided = NDArray::Borrow(every_other, nullptr);
  const NDArray y = Floats({0, 0});
  EXPECT_THAT(CallSort("sort", strided, y, 0, 1),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("the input is strided")));
  EXPECT_THAT(CallSort("sort", y, strided, 0, 1),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("the values are strided")));
}

}  // namespace
}  // namespace nodewise
