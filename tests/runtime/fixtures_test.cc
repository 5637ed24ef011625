// Artefacts of real TVM give the outputs that TVM's own runtime gave, bit for
// bit, from the triple and, where there is one, from the factory.

#include "tests/support/fixtures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "nodewise/artefact/artefact.h"
#include "tests/support/matchers.h"

namespace nodewise {
namespace {

struct Case {
  std::string folder;
  bool from_factory;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* part : {"tvm-0.8", "tvm-0.14"}) {
    for (const std::string& folder : FixtureFolders(part)) {
      cases.push_back({folder, false});
      cases.push_back({folder, true});
    }
  }
  for (const char* part : {"tvm-0.25", "tvm-0.26", "tvm-0.27"}) {
    for (const std::string& folder : FixtureFolders(part)) {
      cases.push_back({folder, false});
    }
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return FixtureName(info.param.folder) +
         (info.param.from_factory ? "_factory" : "_triple");
}

class FixtureTest : public testing::TestWithParam<Case> {
 protected:
  static ArtefactFiles Files(const Case& c) {
    if (c.from_factory) return {"", c.folder + "/factory.so", "", c.folder};
    return {c.folder + "/graph.json", c.folder + "/lib.so",
            c.folder + "/params.params", c.folder};
  }
};

// TV-21.
TEST_P(FixtureTest, OutputsAreThoseOfTvmBitForBit) {
  const std::string& folder = GetParam().folder;
  auto executor = CreateExecutor(Files(GetParam()), {});
  ASSERT_THAT(executor, IsOk());
  const auto inputs = OpenParams(folder + "/inputs.params");
  ASSERT_THAT(inputs, IsOk());
  for (const NamedTensor& input : inputs->tensors) {
    ASSERT_THAT((*executor)->SetInput(input.name, *input.tensor), IsOk());
  }
  // Twice: what a run leaves behind must not matter to the next.
  ASSERT_THAT((*executor)->Run(), IsOk());
  ASSERT_THAT((*executor)->Run(), IsOk());
  const auto expected = OpenParams(folder + "/outputs.params");
  ASSERT_THAT(expected, IsOk());
  ASSERT_EQ(expected->tensors.size(), (*executor)->NumOutputs());
  for (size_t i = 0; i < (*executor)->NumOutputs(); ++i) {
    const NDArray* wanted = expected->Find("output_" + std::to_string(i));
    ASSERT_NE(wanted, nullptr);
    const auto actual = (*executor)->GetOutput(i);
    ASSERT_THAT(actual, IsOk());
    ASSERT_EQ(wanted->bytes(), actual->bytes());
    EXPECT_EQ(std::memcmp(wanted->data(), actual->data(), wanted->bytes()), 0)
        << "output " << i;
  }
}

TEST_P(FixtureTest, VerifyFindsNothing) {
  const auto diagnostics = VerifyArtefact(Files(GetParam()));
  ASSERT_THAT(diagnostics, IsOk());
  for (const Diagnostic& diagnostic : diagnostics->items()) {
    ADD_FAILURE() << diagnostic.ToString();
  }
}

INSTANTIATE_TEST_SUITE_P(Tvm, FixtureTest, testing::ValuesIn(AllCases()),
                         &CaseName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FixtureTest);

TEST(FixturesTest, AreThere) {
  if (FixturesFolder().empty()) {
    GTEST_SKIP() << "no ../shared/fixtures: artefacts of real TVM not tested";
  }
  EXPECT_GE(AllCases().size(), 35u);
}

}  // namespace
}  // namespace nodewise
