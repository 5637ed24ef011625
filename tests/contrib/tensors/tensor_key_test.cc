#include <gtest/gtest.h>

#include "nodewise/tensors/tensor_sink.h"

namespace nodewise {
namespace {

using Hash = std::hash<TensorKey>;

TEST(TensorKeyTest, NameSaysNodeSlotAndRole) {
  EXPECT_EQ((TensorKey{"conv1"}).Name(), "conv1");
  EXPECT_EQ((TensorKey{"conv1", 2}).Name(), "conv1:2");
  EXPECT_EQ((TensorKey{"conv1#7", 0, TensorRole::kInput}).Name(),
            "conv1#7:input:0");
}

TEST(TensorKeyTest, EqualNamesMakeEqualKeys) {
  const TensorKey from_file{"conv1:1"};
  const TensorKey from_run{"conv1", 1};
  EXPECT_EQ(from_file, from_run);
  EXPECT_EQ(Hash()(from_file), Hash()(from_run));
  EXPECT_NE(from_file, (TensorKey{"conv1", 2}));
  EXPECT_NE((TensorKey{"conv1"}), (TensorKey{"conv1", 0, TensorRole::kInput}));
}

TEST(TensorKeyTest, SourceIsNotCompared) {
  const TensorKey a{"x", 0, TensorRole::kOutput, "a.npz"};
  const TensorKey b{"x", 0, TensorRole::kOutput, "b.npz"};
  EXPECT_EQ(a, b);
  EXPECT_EQ(Hash()(a), Hash()(b));
}

}  // namespace
}  // namespace nodewise
