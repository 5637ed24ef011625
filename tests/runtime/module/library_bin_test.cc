#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "runtime/module/module_blob.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string Number(uint64_t value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
std::string Text(const std::string& text) { return Number(text.size()) + text; }
std::string Numbers(const std::vector<uint64_t>& values) {
  std::string text = Number(values.size());
  for (const uint64_t value : values) text += Number(value);
  return text;
}
std::string Bin(const std::vector<uint64_t>& rows,
                const std::vector<uint64_t>& children,
                const std::string& modules) {
  return Text(Numbers(rows) + Numbers(children) + modules);
}

// From a block of its own size, so that ASan sees a read past the end.
absl::Status StatusOfLibraryBin(const std::string& text) {
  const auto block = std::make_unique<uint8_t[]>(text.size());
  std::copy(text.begin(), text.end(), block.get());
  return ParseLibraryBin({block.get(), text.size()}, "vm.so").status();
}

TEST(LibraryBinTest, ModulesHaveKindsBytesAndImports) {
  const std::string text =
      Bin({0, 1, 1}, {1}, Text("cuda") + Text("code") + Text("_lib")) + "more";
  const auto bin = ParseLibraryBin(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, "vm.so");
  ASSERT_THAT(bin, IsOk());
  ASSERT_EQ(bin->modules.size(), 2u);
  EXPECT_EQ(bin->modules[0].kind, "cuda");
  EXPECT_THAT(bin->modules[0].data, ElementsAre('c', 'o', 'd', 'e'));
  EXPECT_EQ(text.substr(bin->modules[0].offset, 4), "code");
  EXPECT_THAT(bin->modules[0].imports, ElementsAre(1u));
  EXPECT_EQ(bin->modules[1].kind, "_lib");
  EXPECT_THAT(bin->modules[1].data, IsEmpty());
}

TEST(LibraryBinTest, EveryCutIsDataLossWithAByte) {
  const std::string text =
      Bin({0, 1, 1}, {1}, Text("a") + Text("b") + Text("_lib"));
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_THAT(StatusOfLibraryBin(text.substr(0, size)),
                FailsWith(StatusCode::kDataLoss, StartsWith("vm.so: byte ")))
        << size;
  }
}

TEST(LibraryBinTest, TreesThatCannotBeAreDataLoss) {
  const std::string own = Text("_lib");
  const std::pair<std::string, std::string> cases[] = {
      {Bin({0, 0}, {}, own + own), "has 2 rows, expected 3"},
      {Bin({0, 2, 2}, {1}, own + own), "row 0 is [0, 2), expected a part"},
      {Bin({1, 0, 0}, {}, own + own), "row 0 is [1, 0)"},
      {Bin({0, 1, 1}, {7}, own + own), "imports module 7, expected one of"},
      {Bin({0, 1, 2}, {1, 0}, own + own), "in a circle"},
      {Bin({0, 1}, {0}, own), "in a circle"},
      {Bin(std::vector<uint64_t>(2000), {}, own), "found 2000, expected at"},
      {Text(Number(uint64_t{1} << 60)), "import tree rows is"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(StatusOfLibraryBin(text),
                FailsWith(StatusCode::kDataLoss, HasSubstr(message)));
  }
}

}  // namespace
}  // namespace nodewise
