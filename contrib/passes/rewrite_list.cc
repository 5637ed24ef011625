#include "contrib/passes/rewrite_list.h"

#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

void RunOne(const Rewrite& rewrite, NetworkRewriter& rewriter,
            QuantizationReport* report) {
  const Network& network = rewriter.network();
  const auto order = network.order();
  for (const OperationId id : std::vector(order.begin(), order.end())) {
    if (!network.Has(id) || !rewrite.fits(network, id)) continue;
    const std::string name = network.operation(id).name;
    auto change = rewrite.run(id, rewriter);
    if (change.ok()) {
      report->changes.push_back(*std::move(change));
      continue;
    }
    rewriter.TakeBack();
    report->left_alone.push_back(
        {name, std::string(MessageOf(change.status()))});
  }
}

}  // namespace

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

}  // namespace nodewise
