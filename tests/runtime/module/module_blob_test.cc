#include "runtime/module/module_blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Builds a blob field by field.
class BlobWriter {
 public:
  BlobWriter& Number(uint64_t value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  BlobWriter& Text(const std::string& value) {
    Number(value.size());
    text_ += value;
    return *this;
  }
  // The fields so far with their length in front.
  std::string Blob() const {
    return BlobWriter().Number(text_.size()).text_ + text_;
  }

 private:
  std::string text_;
};

// From a block of its own size, so that ASan sees a read past the end. What is
// parsed borrows the block; here only the status is wanted.
absl::Status StatusOfParsing(const std::string& blob) {
  const auto block = std::make_unique<uint8_t[]>(blob.size());
  std::copy(blob.begin(), blob.end(), block.get());
  return ParseModuleBlob({block.get(), blob.size()}, "net.so").status();
}

absl::StatusOr<ModuleBlob> Parse(const std::string& blob) {
  return ParseModuleBlob(
      {reinterpret_cast<const uint8_t*>(blob.data()), blob.size()}, "net.so");
}

TEST(ModuleBlobTest, FactoryHasGraphParametersAndName) {
  const std::string bytes = FileText(BlobPath("factory"));
  const auto blob = Parse(bytes);
  ASSERT_THAT(blob, IsOk());
  ASSERT_EQ(blob->items.size(), 2u);
  EXPECT_EQ(blob->items[0].key, "GraphExecutorFactory");
  const auto& factory = std::get<GraphFactoryItem>(blob->items[0].content);
  EXPECT_EQ(factory.graph_json, AddGraphJson());
  EXPECT_EQ(factory.module_name, "default");
  ASSERT_EQ(factory.params.size(), 1u);
  EXPECT_EQ(factory.params[0].first, "p0");
  EXPECT_THAT(ValuesOf(factory.params[0].second.ToTensor()),
              ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(blob->children, ElementsAre(ElementsAre(1u), IsEmpty()));
}

TEST(ModuleBlobTest, ConstantsHaveTheSymbolsThatWantThem) {
  const std::string bytes = FileText(BlobPath("const_loader"));
  const auto blob = Parse(bytes);
  ASSERT_THAT(blob, IsOk());
  const auto& item = std::get<ConstantsItem>(blob->items[0].content);
  ASSERT_EQ(item.constants.size(), 1u);
  EXPECT_EQ(item.constants[0].first, "const_0");
  ASSERT_EQ(item.symbols.size(), 3u);
  EXPECT_EQ(item.symbols[0].first, "scale");
  EXPECT_THAT(item.symbols[0].second, ElementsAre("const_0"));
  EXPECT_THAT(item.symbols[1].second, IsEmpty());
}

TEST(ModuleBlobTest, DeviceCodeListsItsFunctions) {
  const std::string bytes = FileText(BlobPath("imports_06"));
  const auto blob = Parse(bytes);
  ASSERT_THAT(blob, IsOk());
  EXPECT_FALSE(blob->has_import_tree());
  ASSERT_EQ(blob->items.size(), 1u);
  EXPECT_EQ(blob->items[0].key, "cuda");
  const auto& item = std::get<DeviceCodeItem>(blob->items[0].content);
  EXPECT_EQ(item.format, "cl");
  EXPECT_EQ(item.code, "__kernel void k");
  ASSERT_EQ(item.functions.size(), 1u);
  EXPECT_EQ(item.functions[0].name, "the_kernel");
  EXPECT_EQ(item.functions[0].arg_types.size(), 1u);
  EXPECT_THAT(item.functions[0].launch_tags,
              ElementsAre("blockIdx.x", "threadIdx.x"));
}

TEST(ModuleBlobTest, WhatStandsBehindTheBlobIsIgnored) {
  const std::string bytes = FileText(BlobPath("factory")) + "more of the file";
  EXPECT_THAT(Parse(bytes), IsOk());
}

TEST(ModuleBlobTest, EveryTruncationIsDamage) {
  for (const char* name : {"factory", "const_loader", "opencl"}) {
    const std::string whole = FileText(BlobPath(name));
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THAT(StatusOfParsing(whole.substr(0, size)),
                  FailsWith(StatusCode::kDataLoss, StartsWith("net.so: byte ")))
          << name << " cut to " << size;
    }
  }
}

// Truncates the blob and adjusts its length field to what is left.
TEST(ModuleBlobTest, EveryTruncationOfTheStreamIsDamage) {
  for (const char* name : {"factory", "const_loader", "opencl"}) {
    const std::string whole = FileText(BlobPath(name));
    for (uint64_t size = 0; size + 8 < whole.size(); ++size) {
      std::string cut = whole.substr(0, size + 8);
      std::memcpy(cut.data(), &size, sizeof(size));
      EXPECT_THAT(StatusOfParsing(cut),
                  FailsWith(StatusCode::kDataLoss, StartsWith("net.so: byte ")))
          << name << " cut to " << size;
    }
  }
}

TEST(ModuleBlobTest, EveryFlippedByteIsReadSafely) {
  for (const char* name : {"factory", "const_loader", "opencl"}) {
    std::string bytes = FileText(BlobPath(name));
    for (char& byte : bytes) {
      for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
        byte = static_cast<char>(byte ^ flip);
        const absl::Status status = StatusOfParsing(bytes);
        byte = static_cast<char>(byte ^ flip);
        if (status.ok()) continue;
        EXPECT_TRUE(status.code() == StatusCode::kDataLoss ||
                    status.code() == StatusCode::kUnimplemented)
            << status;
        EXPECT_THAT(std::string(status.message()), StartsWith("net.so: "));
      }
    }
  }
}

TEST(ModuleBlobTest, WrongCountsAreNamed) {
  constexpr uint64_t kHuge = uint64_t{1} << 61;
  struct Case {
    BlobWriter blob;
    const char* message;
  };
  const Case cases[] = {
      {BlobWriter().Number(kHuge), "module count"},
      {BlobWriter().Number(1).Text("_import_tree").Number(kHuge),
       "import tree row"},
      {BlobWriter()
           .Number(1)
           .Text("GraphExecutorFactory")
           .Text("{}")
           .Number(kHuge),
       "parameter count"},
      {BlobWriter().Number(1).Text("const_loader").Number(kHuge),
       "constant name"},
      {BlobWriter().Number(1).Text("cuda").Text("ptx").Number(kHuge),
       "device function count"},
      {BlobWriter().Number(1).Number(kHuge), "module kind"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(StatusOfParsing(c.blob.Blob()),
                FailsWith(StatusCode::kDataLoss,
                          AllOf(HasSubstr(std::string(c.message)),
                                HasSubstr(" left"))));
  }
}

TEST(ModuleBlobTest, CountsThatDifferAreNamed) {
  EXPECT_THAT(StatusOfParsing(BlobWriter()
                                  .Number(1)
                                  .Text("const_loader")
                                  .Number(1)
                                  .Text("a")
                                  .Number(0)
                                  .Blob()),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("constant count is 0, expected 1")));
  EXPECT_THAT(StatusOfParsing(BlobWriter()
                                  .Number(1)
                                  .Text("GraphExecutorFactory")
                                  .Text("{}")
                                  .Number(0)
                                  .Number(1)
                                  .Text("p0")
                                  .Number(0)
                                  .Blob()),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("parameter count is 0, expected 1")));
}

// `_lib` and an import tree of those numbers.
std::string OneModule(const std::vector<uint64_t>& row_ptr,
                      const std::vector<uint64_t>& children) {
  BlobWriter blob;
  blob.Number(2).Text("_lib").Text("_import_tree");
  blob.Number(row_ptr.size());
  for (const uint64_t number : row_ptr) blob.Number(number);
  blob.Number(children.size());
  for (const uint64_t number : children) blob.Number(number);
  return blob.Blob();
}

TEST(ModuleBlobTest, ImportTreeMustFitTheModules) {
  EXPECT_THAT(StatusOfParsing(OneModule({0, 0}, {})), IsOk());
  struct Case {
    std::string blob;
    const char* message;
  };
  const Case cases[] = {
      {OneModule({0}, {}), "import tree has 1 rows, expected 2"},
      {OneModule({}, {}), "import tree has 0 rows, expected 2"},
      {OneModule({0, 1}, {}), "row 0 is [0, 1), but there are 0 children"},
      {OneModule({1, 0}, {0}), "row 0 is [1, 0)"},
      {OneModule({0, 1}, {1}), "module 0 imports module 1, but there are 1"},
      {OneModule({0, 1}, {uint64_t{1} << 32}), "imports module 4294967296"},
      {OneModule({0, 1}, {0}), "import each other in a circle"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(
        StatusOfParsing(c.blob),
        FailsWith(StatusCode::kDataLoss, HasSubstr(std::string(c.message))));
  }
}

// A blob with import trees without children where `rows` has a number, and
// with `_lib` where it has 0.
std::string WithTrees(const std::vector<uint64_t>& rows) {
  BlobWriter blob;
  blob.Number(rows.size());
  for (const uint64_t count : rows) {
    blob.Text(count == 0 ? "_lib" : "_import_tree");
    if (count == 0) continue;
    blob.Number(count);
    for (uint64_t i = 0; i < count; ++i) blob.Number(0);
    blob.Number(0);
  }
  return blob.Blob();
}

TEST(ModuleBlobTest, ImportTreeSpeaksOfAllModulesWhereverItStands) {
  EXPECT_THAT(StatusOfParsing(WithTrees({2, 0})), IsOk());
  EXPECT_THAT(StatusOfParsing(WithTrees({1, 0})),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("import tree has 1 rows, expected 2")));
  EXPECT_THAT(StatusOfParsing(WithTrees({0, 2, 0})),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("import tree has 2 rows, expected 3")));
}

TEST(ModuleBlobTest, SecondImportTreeIsDamage) {
  EXPECT_THAT(StatusOfParsing(WithTrees({0, 2, 2})),
              FailsWith(StatusCode::kDataLoss,
                        HasSubstr("there is an import tree already")));
}

TEST(ModuleBlobTest, UnknownKindIsQuotedInPart) {
  const std::string kind(1000, 'k');
  const absl::Status status =
      StatusOfParsing(BlobWriter().Number(1).Text(kind).Blob());
  EXPECT_THAT(status,
              FailsWith(StatusCode::kUnimplemented,
                        AllOf(HasSubstr("\"" + std::string(64, 'k') + "\""),
                              StartsWith("net.so: byte 16"))));
}

}  // namespace
}  // namespace nodewise
