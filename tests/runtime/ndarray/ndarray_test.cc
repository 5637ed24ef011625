#include "nodewise/ndarray/ndarray.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Six floats, 0 to 5, as (2, 3), with other strides.
struct Strided {
  explicit Strided(std::vector<int64_t> wanted) : strides(std::move(wanted)) {
    tensor.data = values;
    tensor.device = kCpu;
    tensor.ndim = 2;
    tensor.dtype = kFloat32;
    tensor.shape = shape;
    tensor.strides = strides.data();
  }
  float values[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[2] = {2, 3};
  std::vector<int64_t> strides;
  DLTensor tensor{};
};

// A tensor of another library that counts how often it is given back.
struct Foreign {
  Foreign() {
    managed.dl_tensor.data = &value;
    managed.dl_tensor.device = kCpu;
    managed.dl_tensor.dtype = kFloat32;
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
  }
  float value = 5;
  int64_t shape[1] = {1};
  DLManagedTensor managed{};
  int deleted = 0;
};

TEST(NDArrayTest, EmptyTensorsAreAlignedTo128Bytes) {
  for (const int64_t size : {0, 1, 63, 1000, 5000000}) {
    const auto tensor = NDArray::Empty({size}, kFloat32, kCpu);
    ASSERT_THAT(tensor, IsOk());
    const auto address = reinterpret_cast<uintptr_t>(tensor->data());
    EXPECT_EQ(address % kTensorAlignment, 0u) << size;
    EXPECT_EQ(tensor->bytes(), static_cast<size_t>(4 * size));
  }
}

TEST(NDArrayTest, TensorWithoutDimensionsHasOneElement) {
  const NDArray scalar = MakeTensor<double>({}, {2.5});
  EXPECT_THAT(scalar.shape(), IsEmpty());
  EXPECT_EQ(scalar.bytes(), 8u);
  EXPECT_THAT(ValuesOf<double>(*scalar.CopyToHost()), ElementsAre(2.5));
}

TEST(NDArrayTest, TensorWithoutElementsCopies) {
  const NDArray none = MakeTensor<float>({3, 0}, {});
  const auto copy = none.CopyToHost();
  ASSERT_THAT(copy, IsOk());
  EXPECT_THAT(copy->shape(), ElementsAre(3, 0));
  EXPECT_EQ(copy->bytes(), 0u);
}

TEST(NDArrayTest, WhatCannotBeATensorIsRefused) {
  const struct {
    std::vector<int64_t> shape;
    DLDataType dtype;
    DLDevice device;
    StatusCode code;
    const char* message;
  } rows[] = {
      {{-1}, kFloat32, kCpu, StatusCode::kInvalidArgument, "(-1,)"},
      {{1}, {kDLInt, 7, 1}, kCpu, StatusCode::kInvalidArgument, "int7"},
      {{1}, {kDLFloat, 32, 0}, kCpu, StatusCode::kInvalidArgument, "0 lanes"},
      {{int64_t{1} << 32, int64_t{1} << 32},
       kFloat32,
       kCpu,
       StatusCode::kInvalidArgument,
       "more elements than memory"},
      {{int64_t{1} << 61},
       kFloat32,
       kCpu,
       StatusCode::kInvalidArgument,
       "more bytes than memory"},
      {{1}, kFloat32, {kDLVPI, 3}, StatusCode::kUnavailable, "(3)"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(NDArray::Empty(row.shape, row.dtype, row.device),
                FailsWith(row.code, HasSubstr(row.message)));
  }
}

TEST(NDArrayTest, CopiesAreTheSameTensor) {
  const NDArray first = Floats({1, 2});
  const NDArray second = first;
  second.As<float>()[0] = 7;
  EXPECT_EQ(first.tensor(), second.tensor());
  EXPECT_THAT(ValuesOf(first), ElementsAre(7, 2));
}

TEST(NDArrayTest, DefaultIsNotATensor) {
  NDArray tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_EQ(tensor.LeakHandle(), nullptr);
  EXPECT_FALSE(NDArray::AdoptHandle(nullptr).defined());
  EXPECT_FALSE(NDArray::ShareHandle(nullptr).defined());
}

TEST(NDArrayTest, OwnerLivesAsLongAsTheLastBorrower) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = owner;
  float value = 1;
  DLTensor tensor{&value, kCpu, 0, kFloat32, nullptr, nullptr, 0};
  NDArray borrowed = NDArray::Borrow(tensor, std::move(owner));
  NDArray view = borrowed.View({1}, kFloat32).value();
  borrowed = NDArray();
  EXPECT_FALSE(watch.expired());
  view = NDArray();
  EXPECT_TRUE(watch.expired());
}

TEST(NDArrayTest, MappedTensorKeepsItsFileMapped) {
  const std::string path = testing::TempDir() + "/mapped_tensor";
  std::ofstream(path) << "xabcd";
  auto file = std::make_shared<MappedFile>(MappedFile::Open(path).value());
  const auto bytes = file->bytes().subspan(1);  // At an odd address.
  const std::weak_ptr<MappedFile> watch = file;
  NDArray tensor =
      NDArray::Map(bytes, {2, 2}, TypeOf<uint8_t>(), std::move(file));
  EXPECT_EQ(tensor.data(), bytes.data());
  EXPECT_THAT(ValuesOf<char>(tensor), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_FALSE(watch.expired());
  tensor = NDArray();
  EXPECT_TRUE(watch.expired());
}

TEST(NDArrayTest, BorrowCopiesShapeAndStrides) {
  NDArray borrowed;
  auto strided = std::make_unique<Strided>(std::vector<int64_t>{1, 2});
  borrowed = NDArray::Borrow(strided->tensor, nullptr);
  strided->shape[0] = 99;
  strided->strides[0] = 99;
  EXPECT_THAT(borrowed.shape(), ElementsAre(2, 3));
  EXPECT_EQ(borrowed->strides[0], 1);
}

TEST(NDArrayTest, DataBeginsAtTheByteOffset) {
  Strided strided({3, 1});
  strided.tensor.byte_offset = 8;
  EXPECT_EQ(DataOf(strided.tensor), strided.values + 2);
  EXPECT_EQ(*NDArray::Borrow(strided.tensor, nullptr).As<float>(), 2);
}

TEST(NDArrayTest, HandleOwnsOneCount) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = owner;
  DLTensor tensor{nullptr, kCpu, 0, kFloat32, nullptr, nullptr, 0};
  DLTensor* const handle =
      NDArray::Borrow(tensor, std::move(owner)).LeakHandle();
  NDArray shared = NDArray::ShareHandle(handle);
  shared = NDArray();
  EXPECT_FALSE(watch.expired());
  NDArray::AdoptHandle(handle) = NDArray();
  EXPECT_TRUE(watch.expired());
}

TEST(NDArrayTest, CountingIsThreadSafe) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = owner;
  DLTensor tensor{nullptr, kCpu, 0, kFloat32, nullptr, nullptr, 0};
  NDArray shared = NDArray::Borrow(tensor, std::move(owner));
  const auto copy = [&] {
    for (int i = 0; i < 10000; ++i) NDArray(shared).defined();
  };
  std::thread first(copy);
  std::thread second(copy);
  first.join();
  second.join();
  EXPECT_FALSE(watch.expired());
  shared = NDArray();
  EXPECT_TRUE(watch.expired());
}

TEST(ViewTest, ViewIsTheSameMemoryUnderAnotherType) {
  const NDArray tensor = MakeTensor<int32_t>({2, 2}, {1, 2, 3, 4});
  const auto view = tensor.View({4}, {kDLInt, 16, 2});
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->data(), tensor.data());
  EXPECT_THAT(ValuesOf<int32_t>(*view), ElementsAre(1, 2, 3, 4));
}

TEST(ViewTest, ViewMayBeSmallerButNotLarger) {
  const NDArray tensor = Floats({1, 2});
  EXPECT_THAT(tensor.View({1}, kFloat32), IsOk());
  EXPECT_THAT(tensor.View({3}, kFloat32),
              FailsWith(StatusCode::kInvalidArgument,
                        "a view as float32 (3,) needs 12 bytes, the tensor "
                        "has 8"));
  EXPECT_THAT(tensor.View({1}, {kDLInt, 5, 1}),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("int5")));
}

TEST(CompactTest, OnlyRowMajorStridesAreCompact) {
  const struct {
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
    bool compact;
  } rows[] = {
      {{2, 3}, {3, 1}, true},  {{2, 3}, {1, 2}, false}, {{2, 3}, {4, 1}, false},
      {{2, 3}, {0, 0}, false}, {{1, 3}, {99, 1}, true}, {{2, 1}, {1, -5}, true},
      {{}, {}, true},          {{3}, {2}, false},       {{3}, {-1}, false},
      {{1, 1}, {0, 0}, true},  {{0, 3}, {7, 9}, true},  {{3, 0}, {7, 9}, true},
  };
  for (const auto& row : rows) {
    DLTensor tensor{};
    tensor.ndim = static_cast<int>(row.shape.size());
    tensor.shape = const_cast<int64_t*>(row.shape.data());
    EXPECT_TRUE(IsCompact(tensor));
    tensor.strides = const_cast<int64_t*>(row.strides.data());
    EXPECT_EQ(IsCompact(tensor), row.compact) << ShapeToString(row.strides);
  }
}

TEST(CopyTest, StridesAreFollowedOnBothSides) {
  const Strided columns({1, 2});  // Element (r, c) is values[r + 2 * c].
  const auto compact = NDArray::Borrow(columns.tensor, nullptr).CopyToHost();
  ASSERT_THAT(compact, IsOk());
  EXPECT_THAT(ValuesOf(*compact), ElementsAre(0, 2, 4, 1, 3, 5));
  Strided back({1, 2});
  std::fill_n(back.values, 6, -1.0f);
  ASSERT_THAT(CopyTensor(**compact, back.tensor), IsOk());
  EXPECT_THAT(back.values, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(CopyTest, StrideOfZeroRepeatsAndNegativeStrideTurnsRound) {
  const Strided repeated({0, 1});
  EXPECT_THAT(ValuesOf(NDArray::Borrow(repeated.tensor, nullptr)),
              ElementsAre(0, 1, 2, 0, 1, 2));
  Strided turned({-3, -1});
  turned.tensor.byte_offset = 5 * sizeof(float);
  EXPECT_THAT(ValuesOf(NDArray::Borrow(turned.tensor, nullptr)),
              ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST(CopyTest, ElementsOfEveryWidthAreCopiedByStrides) {
  const NDArray vectors =
      MakeTensor<int32_t>({2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, {kDLInt, 32, 2});
  DLTensor turned = *vectors;
  int64_t strides[] = {1, 2};
  turned.strides = strides;
  EXPECT_THAT(ValuesOf<int32_t>(turned), ElementsAre(1, 2, 5, 6, 3, 4, 7, 8));
}

TEST(CopyTest, TensorCopiesOntoItself) {
  const NDArray tensor = Floats({1, 2});
  EXPECT_THAT(CopyTensor(*tensor, *tensor), IsOk());
  EXPECT_THAT(ValuesOf(tensor), ElementsAre(1, 2));
}

TEST(CopyTest, OtherShapeOrTypeIsRefusedThoughTheBytesFit) {
  const NDArray to = Floats({0, 0, 0, 0});
  const NDArray others[] = {MakeTensor<float>({2, 2}, {1, 2, 3, 4}),
                            MakeTensor<int32_t>({4}, {1, 2, 3, 4}),
                            MakeTensor<double>({2}, {1, 2})};
  for (const NDArray& from : others) {
    EXPECT_THAT(
        CopyTensor(*from, *to),
        FailsWith(StatusCode::kInvalidArgument,
                  "tensor is " + TypeToString(from.shape(), from.dtype()) +
                      ", expected float32 (4,)"));
  }
}

TEST(CopyTest, BytesMustBeExactlyTheTensors) {
  const NDArray tensor = Floats({1, 2});
  char bytes[9] = {};
  for (const size_t size : {0, 7, 9}) {
    EXPECT_THAT(CopyFromBytes(bytes, size, *tensor),
                FailsWith(StatusCode::kInvalidArgument,
                          HasSubstr("got " + std::to_string(size) + " bytes")));
    EXPECT_THAT(CopyToBytes(*tensor, bytes, size),
                FailsWith(StatusCode::kInvalidArgument,
                          HasSubstr("float32 (2,), expected 8")));
  }
}

TEST(DLPackTest, ForeignTensorIsGivenBackOnce) {
  Foreign foreign;
  auto tensor = NDArray::FromDLPack(&foreign.managed);
  ASSERT_THAT(tensor, IsOk());
  NDArray copy = *tensor;
  EXPECT_EQ(*copy.As<float>(), 5);
  tensor = NDArray();
  EXPECT_EQ(foreign.deleted, 0);
  copy = NDArray();
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPackTest, ForeignTensorThatIsRefusedStaysItsOwners) {
  const struct {
    void (*spoil)(Foreign*);
    const char* message;
  } rows[] = {
      {[](Foreign* f) { f->managed.dl_tensor.ndim = -1; }, "rank is -1"},
      {[](Foreign* f) { f->managed.dl_tensor.dtype.lanes = 0; }, "0 lanes"},
      {[](Foreign* f) { f->managed.dl_tensor.ndim = 1; }, "shape is null"},
      {[](Foreign* f) { f->managed.dl_tensor.data = nullptr; }, "data is null"},
      {[](Foreign* f) {
         f->shape[0] = -4;
         f->managed.dl_tensor.shape = f->shape;
         f->managed.dl_tensor.ndim = 1;
       },
       "(-4,)"},
  };
  for (const auto& row : rows) {
    Foreign foreign;
    row.spoil(&foreign);
    EXPECT_THAT(
        NDArray::FromDLPack(&foreign.managed),
        FailsWith(StatusCode::kInvalidArgument, HasSubstr(row.message)));
    EXPECT_EQ(foreign.deleted, 0) << row.message;
  }
}

TEST(CheckDLTensorTest, EmptyTensorNeedsNoData) {
  const NDArray array = Floats({});
  DLTensor tensor = *array;
  tensor.data = nullptr;
  EXPECT_THAT(CheckDLTensor(tensor), IsOk());
  tensor.ndim = 0;  // One element.
  EXPECT_THAT(CheckDLTensor(tensor),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("is null")));
}

TEST(CheckDLTensorTest, RanksUpTo64AreFine) {
  const std::vector<int64_t> ones(65, 1);
  const NDArray array = Floats({1});
  DLTensor tensor = *array;
  tensor.shape = const_cast<int64_t*>(ones.data());
  tensor.ndim = 64;
  EXPECT_THAT(CheckDLTensor(tensor), IsOk());
  tensor.ndim = 65;
  EXPECT_THAT(CheckDLTensor(tensor),
              FailsWith(StatusCode::kInvalidArgument,
                        "the tensor's rank is 65, expected 0 to 64"));
}

TEST(CheckDLTensorTest, StridesMayRunBackwards) {
  const NDArray array = Floats({1, 2, 3});
  int64_t backwards[] = {-1};
  DLTensor tensor = *array;
  tensor.strides = backwards;
  tensor.byte_offset = 8;
  EXPECT_THAT(CheckDLTensor(tensor), IsOk());
}

TEST(DLPackTest, NullIsRefusedAndMissingDeleterIsAllowed) {
  EXPECT_THAT(NDArray::FromDLPack(nullptr),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("null")));
  Foreign foreign;
  foreign.managed.deleter = nullptr;
  EXPECT_THAT(NDArray::FromDLPack(&foreign.managed), IsOk());
}

TEST(DLPackTest, CapsuleKeepsTheTensorAlive) {
  NDArray tensor = MakeTensor<float>({2, 1}, {3, 4});
  DLManagedTensor* const managed = tensor.ToDLPack();
  tensor = NDArray();
  const auto back = NDArray::FromDLPack(managed);  // Calls the deleter.
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(back->shape(), ElementsAre(2, 1));
  EXPECT_THAT(ValuesOf(*back), ElementsAre(3, 4));
}

TEST(TypeTextTest, TypeComesBeforeShape) {
  EXPECT_EQ(TypeToString({1, 64}, kFloat32), "float32 (1, 64)");
  EXPECT_EQ(TypeToString({}, kBool), "bool ()");
}

}  // namespace
}  // namespace nodewise
