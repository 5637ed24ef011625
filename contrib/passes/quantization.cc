// The two passes over quantised networks, as lists of rewrites, and their
// report.

#include "nodewise/passes/quantization.h"

#include <algorithm>

#include "absl/types/span.h"
#include "contrib/passes/network_rewriter.h"
#include "contrib/passes/quantization_rewrites.h"
#include "fmt/format.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/status.h"

namespace nodewise {

namespace {

struct Rewrite {
  bool (*fits)(const Network& network, OperationId id);
  RewriteResult (*run)(OperationId id, NetworkRewriter& rewriter);
};

void RunOne(const Rewrite& rewrite, NetworkRewriter& rewriter,
            QuantizationReport* report) {
  const Network& network = rewriter.network();
  // A copy, since edits change the order, and remove what is still to come.
  const auto order = network.order();
  for (const OperationId id : std::vector(order.begin(), order.end())) {
    if (!network.Has(id) || !rewrite.fits(network, id)) continue;
    const std::string name = network.operation(id).name;
    auto change = rewrite.run(id, rewriter);
    if (change.ok()) {
      report->changes.push_back(*std::move(change));
      continue;
    }
    rewriter.RollBack();
    report->left_alone.push_back(
        {name, std::string(MessageOf(change.status()))});
  }
}

// A network without outputs is left alone: all of it would count as unused.
QuantizationReport RunRewrites(absl::Span<const Rewrite> rewrites,
                               std::string_view verb, Network& network) {
  QuantizationReport report;
  report.verb = verb;
  if (network.outputs().empty()) return report;
  const uint64_t version = network.version();
  NetworkRewriter rewriter(network);
  for (const Rewrite& rewrite : rewrites) RunOne(rewrite, rewriter, &report);
  if (network.version() != version) network.RemoveUnused();
  return report;
}

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
  return static_cast<size_t>(std::ranges::count_if(
      changes, [&](const Change& change) { return change.kind == kind; }));
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
