#include "nodewise/passes/pass_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_split.h"
#include "nodewise/passes/known_part.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"
#include "nodewise/support/words.h"

namespace nodewise {
namespace {

// A network without outputs would lose everything.
absl::Status DropUnused(Network& network) {
  if (!network.outputs().empty()) network.RemoveUnused();
  return absl::OkStatus();
}

// A network without such operations stays as it is, in its version too.
absl::Status KeepKnownPart(Network& network) {
  if (OpaqueOperations(network).empty()) return absl::OkStatus();
  NODEWISE_ASSIGN_OR_RETURN(KnownPart part, KnownPartOf(network));
  network = std::move(part.network);
  return absl::OkStatus();
}

constexpr PassRow kRows[] = {
    {"known_part", "leaves out what depends on operators that are not known",
     [](QuantizationReport*) {
       return Pass{"known_part", &KeepKnownPart};
     }},
    {"merge_quantised",
     "merges floats between DequantizeLinear and QuantizeLinear into "
     "operations on integers",
     [](QuantizationReport* report) {
       return Pass{"merge_quantised", MergeQuantizationPass(report).run};
     }},
    {"remove_unused", "removes what no output depends on",
     [](QuantizationReport*) {
       return Pass{"remove_unused", &DropUnused};
     }},
    {"split_quantised",
     "splits operations on integers into DequantizeLinear, one on floats, and "
     "QuantizeLinear",
     [](QuantizationReport* report) {
       return Pass{"split_quantised", SplitQuantizationPass(report).run};
     }},
};

}  // namespace

absl::Span<const PassRow> PassRows() { return kRows; }

absl::StatusOr<std::vector<const PassRow*>> ParsePassList(
    std::string_view list) {
  std::vector<std::string> names;
  for (const PassRow& row : kRows) names.emplace_back(row.name);
  std::vector<const PassRow*> rows;
  const std::vector<std::string> wanted =
      absl::StrSplit(std::string(list), ',');
  for (const std::string& name : wanted) {
    const auto* const found = std::ranges::find(kRows, name, &PassRow::name);
    if (found == std::end(kRows)) {
      return InvalidArgument(
          "pass \"{}\": there is none of that name, expected some of {}{}",
          Printable(name), ListOf(names), DidYouMean(name, names));
    }
    rows.push_back(found);
  }
  return rows;
}

}  // namespace nodewise
