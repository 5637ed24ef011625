// What the spaces of operators reach. It goes through the rows of all
// operators, so that it fails for a new one whose space is too small.

#include "nodewise/autotest/operator_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nodewise/autotest/case_verdict.h"
#include "nodewise/op/tensor_loops.h"
#include "nodewise/ops/ops.h"

namespace nodewise {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kDraws = 400;  // For each row.

std::string NameOf(const OperatorDef& def) {
  return fmt::format("{} {}", def.name, def.since);
}

std::vector<const OperatorDef*> RowsWithSpaces() {
  std::vector<const OperatorDef*> rows;
  for (const OperatorDef* row : AllOperators().rows()) {
    if (HasSpace(*row)) rows.push_back(row);
  }
  return rows;
}

struct ValueText {
  std::string operator()(const NDArray& x) const {
    return fmt::format("{}", fmt::join(ToDoubles(x), ", "));
  }
  std::string operator()(const Subgraph&) const { return "a body"; }
  template <typename T>
  std::string operator()(const std::vector<T>& x) const {
    return fmt::format("[{}]", fmt::join(x, ", "));
  }
  template <typename T>
  std::string operator()(const T& x) const {
    return fmt::format("{}", x);
  }
};

// What the draws of one row have had.
struct Reach {
  int legal = 0;
  std::string why_not;  // The last reason why a draw is not legal.
  std::map<std::string, std::set<std::string>> values;  // By attribute.
  std::map<std::string, int> given;                     // By attribute.
  std::map<size_t, int> inputs;                         // Given, by number.
  std::map<size_t, int> outputs;                        // Wanted, by number.
  std::set<size_t> counts;                              // Numbers of inputs.
};

Reach ReachOf(const OperatorDef& def) {
  Reach reach;
  for (uint64_t i = 0; i < kDraws; ++i) {
    Choices choices(RandomSource(i, def.name));
    const auto drawn = DrawCase(def, &choices);
    if (!drawn.ok()) {
      reach.why_not = std::string(drawn.status().message());
      continue;
    }
    ++reach.legal;
    const Configuration& made = drawn->configuration;
    for (const NamedAttr& attr : made.attributes) {
      ++reach.given[attr.name];
      reach.values[attr.name].insert(std::visit(ValueText(), attr.value));
    }
    reach.counts.insert(made.inputs.size());
    for (size_t k = 0; k < made.inputs.size(); ++k) {
      reach.inputs[k] += made.inputs[k].is_given ? 1 : 0;
    }
    for (size_t k = 0; k < made.outputs.size(); ++k) {
      reach.outputs[k] += made.outputs[k] ? 1 : 0;
    }
  }
  return reach;
}

const std::map<std::string, Reach>& AllReaches() {
  static const auto* const kReaches = [] {
    auto* reaches = new std::map<std::string, Reach>;
    for (const OperatorDef* row : RowsWithSpaces()) {
      reaches->emplace(NameOf(*row), ReachOf(*row));
    }
    return reaches;
  }();
  return *kReaches;
}

// Attributes of which less is to be expected, and why.
struct Exception {
  std::string_view row;
  std::string_view attribute;
  bool is_always_given = false;  // Else it has one legal value at most.
};
constexpr Exception kExceptions[] = {
    {"BatchNormalization 1", "is_test"},    // 0 is training, which is refused.
    {"GRU 1", "layout"},                    // Came with opset 14.
    {"LSTM 1", "layout"},                   // So it did here.
    {"RNN 1", "layout"},                    // And here.
    {"Scatter 9", "reduction"},             // ScatterElements got it.
    {"TfIdfVectorizer 9", "pool_strings"},  // Strings are refused.
    // Since they are, it is the only pool.
    {"TfIdfVectorizer 9", "pool_int64s", true},
    // So are strings elsewhere, and numbers are always given instead.
    {"LabelEncoder 2", "keys_strings"},
    {"LabelEncoder 2", "values_strings"},
    {"LabelEncoder 4", "keys_strings"},
    {"LabelEncoder 4", "values_strings"},
    {"LinearClassifier 1", "classlabels_strings"},
    {"OneHotEncoder 1", "cats_strings"},
    {"SVMClassifier 1", "classlabels_strings"},
    {"TreeEnsembleClassifier 1", "classlabels_strings"},
    {"TreeEnsembleClassifier 3", "classlabels_strings"},
    {"OneHotEncoder 1", "cats_int64s", true},
    {"SVMClassifier 1", "classlabels_ints", true},
    {"SVMClassifier 1", "coefficients", true},
    {"SVMClassifier 1", "rho", true},
    {"SVMRegressor 1", "coefficients", true},
    {"SVMRegressor 1", "rho", true},
    {"TreeEnsemble 5", "nodes_hitrates"},   // Has no effect.
    {"TreeEnsemble 5", "post_transform"},   // Only 0, none, is known.
    {"TreeEnsemble 5", "n_targets", true},  // Nothing else tells the shape.
    // Trees need nodes and votes.
    {"TreeEnsembleClassifier 1", "nodes_falsenodeids", true},
    {"TreeEnsembleClassifier 1", "nodes_featureids", true},
    {"TreeEnsembleClassifier 1", "nodes_modes", true},
    {"TreeEnsembleClassifier 1", "nodes_nodeids", true},
    {"TreeEnsembleClassifier 1", "nodes_treeids", true},
    {"TreeEnsembleClassifier 1", "nodes_truenodeids", true},
    {"TreeEnsembleClassifier 1", "class_ids", true},
    {"TreeEnsembleClassifier 1", "class_nodeids", true},
    {"TreeEnsembleClassifier 1", "class_treeids", true},
    {"TreeEnsembleClassifier 1", "class_weights", true},
    {"TreeEnsembleClassifier 1", "nodes_values", true},
    {"TreeEnsembleClassifier 1", "classlabels_int64s", true},
    {"TreeEnsembleClassifier 3", "nodes_falsenodeids", true},
    {"TreeEnsembleClassifier 3", "nodes_featureids", true},
    {"TreeEnsembleClassifier 3", "nodes_modes", true},
    {"TreeEnsembleClassifier 3", "nodes_nodeids", true},
    {"TreeEnsembleClassifier 3", "nodes_treeids", true},
    {"TreeEnsembleClassifier 3", "nodes_truenodeids", true},
    {"TreeEnsembleClassifier 3", "class_ids", true},
    {"TreeEnsembleClassifier 3", "class_nodeids", true},
    {"TreeEnsembleClassifier 3", "class_treeids", true},
    {"TreeEnsembleClassifier 3", "classlabels_int64s", true},
    {"TreeEnsembleRegressor 1", "nodes_falsenodeids", true},
    {"TreeEnsembleRegressor 1", "nodes_featureids", true},
    {"TreeEnsembleRegressor 1", "nodes_modes", true},
    {"TreeEnsembleRegressor 1", "nodes_nodeids", true},
    {"TreeEnsembleRegressor 1", "nodes_treeids", true},
    {"TreeEnsembleRegressor 1", "nodes_truenodeids", true},
    {"TreeEnsembleRegressor 1", "target_ids", true},
    {"TreeEnsembleRegressor 1", "target_nodeids", true},
    {"TreeEnsembleRegressor 1", "target_treeids", true},
    {"TreeEnsembleRegressor 1", "target_weights", true},
    {"TreeEnsembleRegressor 1", "nodes_values", true},
    {"TreeEnsembleRegressor 1", "n_targets", true},
    {"TreeEnsembleRegressor 3", "nodes_falsenodeids", true},
    {"TreeEnsembleRegressor 3", "nodes_featureids", true},
    {"TreeEnsembleRegressor 3", "nodes_modes", true},
    {"TreeEnsembleRegressor 3", "nodes_nodeids", true},
    {"TreeEnsembleRegressor 3", "nodes_treeids", true},
    {"TreeEnsembleRegressor 3", "nodes_truenodeids", true},
    {"TreeEnsembleRegressor 3", "target_ids", true},
    {"TreeEnsembleRegressor 3", "target_nodeids", true},
    {"TreeEnsembleRegressor 3", "target_treeids", true},
    {"TreeEnsembleRegressor 3", "n_targets", true},
};

const Exception* FindException(std::string_view row,
                               std::string_view attribute) {
  for (const Exception& exception : kExceptions) {
    if (exception.row == row && exception.attribute == attribute) {
      return &exception;
    }
  }
  return nullptr;
}

// OF-08
TEST(OperatorSpaceTest, AThirdOfAllDrawsOfEachRowIsLegal) {
  std::vector<std::string> bad;
  for (const auto& [name, reach] : AllReaches()) {
    if (3 * reach.legal >= static_cast<int>(kDraws)) continue;
    bad.push_back(fmt::format("{}: {}; {}", name, reach.legal, reach.why_not));
  }
  EXPECT_THAT(bad, IsEmpty());
}

// OF-08
TEST(OperatorSpaceTest, EachAttributeHasSeveralValuesAndIsLeftOut) {
  std::vector<std::string> bad;
  for (const OperatorDef* row : RowsWithSpaces()) {
    const std::string name = NameOf(*row);
    const Reach& reach = AllReaches().at(name);
    for (const AttrField& field : row->fields) {
      const Exception* const exception = FindException(name, field.name);
      if (exception != nullptr && !exception->is_always_given) continue;
      const std::string key(field.name);
      const auto given = reach.given.find(key);
      const int count = given == reach.given.end() ? 0 : given->second;
      const auto values = reach.values.find(key);
      if (count == 0 || values->second.size() < 2) {
        bad.push_back(fmt::format("{}: {} has {} values", name, key, count));
      } else if (exception == nullptr && !field.is_required &&
                 count == reach.legal) {
        bad.push_back(fmt::format("{}: {} is never left out", name, key));
      }
    }
  }
  EXPECT_THAT(bad, IsEmpty());
}

// OF-08
TEST(OperatorSpaceTest, EachOptionalInputIsGivenAndLeftOut) {
  std::vector<std::string> bad;
  for (const OperatorDef* row : RowsWithSpaces()) {
    const Reach& reach = AllReaches().at(NameOf(*row));
    for (size_t i = 0; i < row->inputs.size(); ++i) {
      const Param& param = row->inputs[i];
      const auto found = reach.inputs.find(i);
      const int given = found == reach.inputs.end() ? 0 : found->second;
      const bool is_good = param.kind == Param::Kind::kRequired
                               ? given == reach.legal
                           : param.kind == Param::Kind::kOptional
                               ? given > 0 && given < reach.legal
                               : reach.counts.size() > 1;
      if (is_good) continue;
      bad.push_back(fmt::format("{}: {} is given {} times of {}", NameOf(*row),
                                param.name, given, reach.legal));
    }
  }
  EXPECT_THAT(bad, IsEmpty());
}

TEST(OperatorSpaceTest, EachOptionalOutputIsWantedAndNotWanted) {
  std::vector<std::string> bad;
  for (const OperatorDef* row : RowsWithSpaces()) {
    // Training alone makes the others.
    if (row->name == "BatchNormalization" && row->since < 14) continue;
    const Reach& reach = AllReaches().at(NameOf(*row));
    for (size_t i = 0; i < row->outputs.size(); ++i) {
      if (row->outputs[i].kind != Param::Kind::kOptional) continue;
      const auto found = reach.outputs.find(i);
      const int wanted = found == reach.outputs.end() ? 0 : found->second;
      if (wanted > 0 && wanted < reach.legal) continue;
      bad.push_back(fmt::format("{}: {} is wanted {} times of {}", NameOf(*row),
                                row->outputs[i].name, wanted, reach.legal));
    }
  }
  EXPECT_THAT(bad, IsEmpty());
}

TEST(OperatorSpaceTest, EachVersionOfARowIsDrawn) {
  std::vector<std::string> bad;
  for (const OperatorDef* row : RowsWithSpaces()) {
    std::set<int> opsets;
    for (uint64_t i = 0; i < kDraws; ++i) {
      Choices choices(RandomSource(i, row->name));
      opsets.insert(ConfigurationDraw(*row, &choices).opset());
    }
    const int end = row->domain.empty() ? std::min(row->until, kNewestOpset + 1)
                                        : row->since + 1;
    if (static_cast<int>(opsets.size()) != end - row->since) {
      bad.push_back(NameOf(*row));
    }
  }
  EXPECT_THAT(bad, IsEmpty());
}

// OFc-06
TEST(OperatorSpaceTest, TypesComeInGroups) {
  const OperatorDef& def = *AllOperators().Find("", "Identity", kNewestOpset);
  std::set<std::string> floats;
  std::set<std::string> integers;
  std::set<std::string> numbers;
  std::set<std::string> all;
  for (uint64_t i = 0; i < kDraws; ++i) {
    Choices choices(RandomSource(i, def.name));
    ConfigurationDraw draw(def, &choices);
    floats.insert(ToString(draw.Float()));
    integers.insert(ToString(draw.Integer()));
    numbers.insert(ToString(draw.Number()));
    all.insert(ToString(draw.Any()));
  }
  EXPECT_THAT(floats, ElementsAre("bfloat16", "float16", "float32", "float64"));
  EXPECT_THAT(integers, ElementsAre("int16", "int32", "int64", "int8", "uint16",
                                    "uint32", "uint64", "uint8"));
  std::set<std::string> both = floats;
  both.insert(integers.begin(), integers.end());
  EXPECT_EQ(numbers, both);
  both.insert("bool");
  EXPECT_EQ(all, both);
}

TEST(OperatorSpaceTest, TheReferenceTakesTheValuesThatAreDrawn) {
  constexpr uint64_t kFew = 12;
  std::vector<std::string> bad;
  for (const OperatorDef* row : RowsWithSpaces()) {
    uint64_t refused = 0;
    std::string why;
    for (uint64_t i = 0; i < kFew; ++i) {
      Choices choices(RandomSource(i, row->name));
      const auto drawn = DrawCase(*row, &choices);
      if (!drawn.ok()) continue;
      const auto set = DrawSet(*drawn, &choices);
      ASSERT_TRUE(set.ok()) << NameOf(*row) << ": " << set.status();
      const auto outputs = CaseReference(*drawn->network).Run(set->inputs);
      if (outputs.ok()) continue;
      ++refused;
      why = std::string(outputs.status().message());
    }
    // Dropout 6 is refused where it is trained.
    const uint64_t most = row->name == "Dropout" ? kFew / 2 : 0;
    if (refused <= most) continue;
    bad.push_back(fmt::format("{}: {}; {}", NameOf(*row), refused, why));
  }
  EXPECT_THAT(bad, IsEmpty());
}

TEST(OperatorSpaceTest, OneSeedGivesTheSameCaseAgain) {
  for (const OperatorDef* row : RowsWithSpaces()) {
    for (const uint64_t seed : {3, 4}) {
      Choices first(RandomSource(seed, row->name));
      Choices second(RandomSource(seed, row->name));
      const auto a = DrawCase(*row, &first);
      const auto b = DrawCase(*row, &second);
      EXPECT_EQ(ValuesOf(first.made()), ValuesOf(second.made()));
      ASSERT_EQ(a.ok(), b.ok());
      if (!a.ok()) continue;
      EXPECT_EQ(ToString(a->configuration), ToString(b->configuration));
    }
  }
}

// All choices zero are where shrinking ends: they must be a case.
TEST(OperatorSpaceTest, TheSimplestCaseIsLegal) {
  std::vector<std::string> bad;
  for (const OperatorDef* row : RowsWithSpaces()) {
    Choices choices(std::vector<uint64_t>{});
    const auto drawn = DrawCase(*row, &choices);
    if (drawn.ok()) continue;
    bad.push_back(fmt::format("{}: {}", NameOf(*row),
                              std::string(drawn.status().message())));
  }
  EXPECT_THAT(bad, IsEmpty());
}

}  // namespace
}  // namespace nodewise
