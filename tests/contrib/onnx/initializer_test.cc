#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nodewise/tensors/tensor_proto.h"
#include "tests/contrib/onnx/model_builder.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"

namespace nodewise {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::HasSubstr;

// A model that hands out one initializer.
ModelBuilder Holding(const nodewise_onnx::Tensor& tensor) {
  ModelBuilder builder;
  *builder.graph().add_initializer() = tensor;
  builder.graph().mutable_initializer(0)->set_name("w");
  builder.Output("w");
  return builder;
}

absl::StatusOr<NDArray> Read(const nodewise_onnx::Tensor& tensor,
                             const std::string& folder = "") {
  auto network = Holding(tensor).Import({}, nullptr, folder);
  if (!network.ok()) return network.status();
  return network->value(network->outputs()[0]).data;
}

nodewise_onnx::Tensor Typed(int type, int64_t elements) {
  nodewise_onnx::Tensor tensor;
  tensor.set_data_type(type);
  tensor.add_dims(elements);
  return tensor;
}

TEST(OnnxInitializerTest, EveryTypeIsReadFromItsList) {
  for (const int type : {2, 3, 4, 5, 6, 9, 10, 16}) {
    nodewise_onnx::Tensor tensor = Typed(type, 2);
    tensor.add_int32_data(1);
    tensor.add_int32_data(0);
    const auto read = Read(tensor);
    ASSERT_THAT(read, IsOk()) << type;
    EXPECT_EQ(*read->As<uint8_t>(), 1) << type;
  }
  nodewise_onnx::Tensor doubles = Typed(11, 1);
  doubles.add_double_data(2.5);
  EXPECT_EQ(*Read(doubles)->As<double>(), 2.5);
  nodewise_onnx::Tensor words = Typed(12, 1);
  words.add_uint64_data(4'000'000'000);
  EXPECT_EQ(*Read(words)->As<uint32_t>(), 4'000'000'000);
}

TEST(OnnxInitializerTest, RawDataIsRead) {
  nodewise_onnx::Tensor tensor = Typed(kOnnxFloat, 2);
  const float values[] = {1, 2};
  tensor.set_raw_data(values, sizeof(values));
  EXPECT_EQ(ValuesOf(*Read(tensor)), (std::vector<float>{1, 2}));
}

TEST(OnnxInitializerTest, SizesThatDoNotFitAreDataLoss) {
  nodewise_onnx::Tensor raw = Typed(kOnnxFloat, 2);
  raw.set_raw_data("1234567");
  EXPECT_THAT(Read(raw), FailsWith(StatusCode::kDataLoss,
                                   HasSubstr("raw_data has 7 bytes, expected 8 "
                                             "for float32 (2,)")));
  nodewise_onnx::Tensor list = Typed(kOnnxFloat, 2);
  list.add_float_data(1);
  EXPECT_THAT(Read(list),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("float_data has 1 elements, expected 2")));
  nodewise_onnx::Tensor huge = Typed(kOnnxFloat, int64_t{1} << 62);
  EXPECT_THAT(Read(huge), FailsWith(StatusCode::kDataLoss, HasSubstr("")));
  nodewise_onnx::Tensor hidden = Typed(kOnnxFloat, int64_t{1} << 62);
  hidden.add_dims(0);
  EXPECT_THAT(Read(hidden), FailsWith(StatusCode::kDataLoss, HasSubstr("")));
  nodewise_onnx::Tensor negative = Typed(kOnnxFloat, -1);
  EXPECT_THAT(Read(negative), FailsWith(StatusCode::kDataLoss, HasSubstr("")));
}

TEST(OnnxInitializerTest, ElementsOutOfRangeAreDataLoss) {
  nodewise_onnx::Tensor small = Typed(2, 1);
  small.add_int32_data(256);
  EXPECT_THAT(Read(small), FailsWith(StatusCode::kDataLoss,
                                     HasSubstr("element 0 is 256, expected 0 "
                                               "to 255")));
  nodewise_onnx::Tensor flag = Typed(9, 1);
  flag.set_raw_data("\x02");
  EXPECT_THAT(Read(flag), FailsWith(StatusCode::kDataLoss,
                                    HasSubstr("element 0 is 2, expected 0 or "
                                              "1")));
}

TEST(OnnxInitializerTest, DataInTwoPlacesIsDataLoss) {
  nodewise_onnx::Tensor tensor = Typed(kOnnxFloat, 1);
  tensor.add_float_data(1);
  tensor.set_raw_data("1234");
  EXPECT_THAT(Read(tensor), FailsWith(StatusCode::kDataLoss,
                                      HasSubstr("float_data and raw_data")));
  nodewise_onnx::Tensor wrong = Typed(kOnnxFloat, 1);
  wrong.add_int64_data(1);
  EXPECT_THAT(Read(wrong), FailsWith(StatusCode::kDataLoss,
                                     HasSubstr("expected float_data")));
}

TEST(OnnxInitializerTest, ASparseOneIsRefusedByName) {
  ModelBuilder builder;
  builder.graph().add_sparse_initializer()->mutable_values()->set_name("w");
  builder.Output("w");
  EXPECT_THAT(
      builder.Import(),
      FailsWith(StatusCode::kDataLoss, HasSubstr("initializer w: is sparse")));
}

// A folder with eight floats in weights.bin.
class ExternalDataTest : public testing::Test {
 protected:
  ExternalDataTest()
      : root_(fs::path(testing::TempDir()) /
              ("nodewise_onnx_" + std::to_string(::getpid()))),
        folder_(root_ / "model") {
    fs::create_directories(folder_);
    Write(folder_ / "weights.bin");
    Write(root_ / "secret.bin");
  }
  ~ExternalDataTest() override { fs::remove_all(root_); }

  static void Write(const fs::path& path) {
    const float values[] = {0, 1, 2, 3, 4, 5, 6, 7};
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(values), sizeof(values));
  }
  static nodewise_onnx::Tensor At(const std::string& location,
                                  const std::string& offset,
                                  const std::string& length) {
    nodewise_onnx::Tensor tensor = Typed(kOnnxFloat, 2);
    tensor.set_data_location(1);
    for (const auto& [key, value] :
         {std::pair("location", location), std::pair("offset", offset),
          std::pair("length", length), std::pair("checksum", std::string())}) {
      if (value.empty()) continue;
      tensor.add_external_data()->set_key(key);
      tensor.mutable_external_data(tensor.external_data_size() - 1)
          ->set_value(value);
    }
    return tensor;
  }
  absl::StatusOr<NDArray> ReadAt(const std::string& location,
                                 const std::string& offset = "8",
                                 const std::string& length = "8") {
    return Read(At(location, offset, length), folder_);
  }

  fs::path root_;
  fs::path folder_;
};

TEST_F(ExternalDataTest, IsReadFromWhereItLies) {
  EXPECT_EQ(ValuesOf(*ReadAt("weights.bin")), (std::vector<float>{2, 3}));
  EXPECT_EQ(ValuesOf(*ReadAt("weights.bin", "24", "")),
            (std::vector<float>{6, 7}));
  // An offset that is not aligned for floats.
  EXPECT_EQ(ReadAt("weights.bin", "7")->shape()[0], 2);
}

TEST_F(ExternalDataTest, StaysInTheFolder) {
  for (const std::string& location :
       {std::string("../secret.bin"), (root_ / "secret.bin").string(),
        std::string("a/../../secret.bin"), std::string("")}) {
    EXPECT_THAT(
        ReadAt(location),
        FailsWith(StatusCode::kDataLoss,
                  HasSubstr("expected a file below the model's folder")))
        << location;
  }
}

TEST_F(ExternalDataTest, LinksOutOfTheFolderAreRefused) {
  fs::create_symlink("../secret.bin", folder_ / "link.bin");
  fs::create_directory_symlink("..", folder_ / "up");
  for (const char* location : {"link.bin", "up/secret.bin"}) {
    EXPECT_THAT(ReadAt(location), FailsWith(StatusCode::kDataLoss,
                                            HasSubstr("a link that leads out")))
        << location;
  }
  fs::create_symlink("weights.bin", folder_ / "inside.bin");
  EXPECT_THAT(ReadAt("inside.bin"), IsOk());
}

TEST_F(ExternalDataTest, MustBeThereAndFit) {
  EXPECT_THAT(ReadAt("none.bin"),
              FailsWith(StatusCode::kDataLoss, HasSubstr("none.bin")));
  for (const auto& [offset, length] :
       {std::pair("28", "8"), std::pair("33", "0"),
        std::pair("18446744073709551615", "8"), std::pair("0", "9"),
        std::pair("0", "18446744073709551615"), std::pair("-1", "8"),
        std::pair("zero", "8")}) {
    EXPECT_THAT(ReadAt("weights.bin", offset, length),
                FailsWith(StatusCode::kDataLoss, HasSubstr("expected")))
        << offset << " " << length;
  }
}

// An empty folder would mean the working directory.
TEST_F(ExternalDataTest, IsNotThereWhereTheFolderIsGone) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_THAT(Read(At("weights.bin", "8", "8"), folder_ / "gone"),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("expected the file beside the model")));
  fs::current_path(before);
}

TEST_F(ExternalDataTest, IsRefusedWhereThereIsNoFolder) {
  EXPECT_THAT(Read(At("weights.bin", "0", "8")),
              FailsWith(StatusCode::kDataLoss, HasSubstr("read from memory")));
}

}  // namespace
}  // namespace nodewise
