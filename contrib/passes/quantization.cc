#include "nodewise/passes/quantization.h"

#include <algorithm>

#include "contrib/passes/merge_pair.h"
#include "contrib/passes/merge_product.h"
#include "contrib/passes/rewrite_list.h"
#include "contrib/passes/split_quantized.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"

namespace nodewise {
namespace {

// The products come first: the pairs that they leave have no other use.
constexpr Rewrite kMerges[] = {
    {&IsQuantizedProduct, &MergeProduct},
    {&QuantizesDequantized, &RemovePair},
    {&DequantizesQuantized, &MergeFakeQuantize},
};

constexpr Rewrite kSplits[] = {
    {&IsMergedProduct, &SplitProduct},
    {&IsFakeQuantize, &SplitFakeQuantize},
};

Pass PassOf(const char* name, QuantizationReport (*run)(Network& network),
            QuantizationReport* report) {
  return {name, [run, report](Network& network) {
            QuantizationReport made = run(network);
            if (report != nullptr) *report = std::move(made);
            return absl::OkStatus();
          }};
}

}  // namespace

std::string_view ToString(Agreement agreement) {
  switch (agreement) {
    case Agreement::kExact:
      return "bit for bit";
    case Agreement::kOneStep:
      return "within one step";
    case Agreement::kNotKnown:
      break;
  }
  return "how near is not known";
}

size_t QuantizationReport::CountOf(std::string_view kind) const {
  return static_cast<size_t>(
      std::count_if(changes.begin(), changes.end(),
                    [&](const Change& change) { return change.kind == kind; }));
}

std::string QuantizationReport::ToString() const {
  std::string text;
  for (const Change& change : changes) {
    text +=
        fmt::format("operation {}: {}{} ({})\n", Shortened(change.operation),
                    change.kind.empty() ? "removed" : verb,
                    change.kind.empty() ? "" : " into " + change.kind,
                    nodewise::ToString(change.agreement));
  }
  for (const LeftAlone& each : left_alone) {
    text += fmt::format("operation {}: not {}: {}\n", Shortened(each.operation),
                        verb, each.reason);
  }
  return text + fmt::format("{} {}, {} not\n", changes.size(), verb,
                            left_alone.size());
}

QuantizationReport MergeQuantization(Network& network) {
  return RunRewrites(kMerges, "merged", network);
}

QuantizationReport SplitQuantization(Network& network) {
  return RunRewrites(kSplits, "split", network);
}

Pass MergeQuantizationPass(QuantizationReport* report) {
  return PassOf("merge quantization", &MergeQuantization, report);
}

Pass SplitQuantizationPass(QuantizationReport* report) {
  return PassOf("split quantization", &SplitQuantization, report);
}

}  // namespace nodewise
