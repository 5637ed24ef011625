#include "contrib/locate/stand_in_search.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nodewise/runner/node_failure.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/support/words.h"

namespace nodewise {

// Makes the makers in which the reference stands in for all nodes that have
// failed.
absl::StatusOr<bool> StandInSearch::StandIn(std::string* why_not) {
  if (!request_.with_stand_ins) return false;
  std::vector<std::string> nodes;
  for (const NodeFailure& failure : failures_) nodes.push_back(failure.node);
  const auto make = [&]() -> absl::StatusOr<CandidateMakers> {
    NODEWISE_ASSIGN_OR_RETURN(CandidateMakers made,
                              request_.with_stand_ins(nodes));
    // Nodes are bound when a runner is made.
    NODEWISE_RETURN_IF_ERROR(made.candidate().status());
    return made;
  };
  auto made = make();
  if (absl::IsUnimplemented(made.status())) {
    *why_not = std::string(MessageOf(made.status()));
    return false;
  }
  NODEWISE_RETURN_IF_ERROR(made.status());
  makers_ = *std::move(made);
  return true;
}

bool StandInSearch::IsStandIn(const std::string& node) const {
  return std::find(request_.asked_for.begin(), request_.asked_for.end(),
                   node) != request_.asked_for.end() ||
         std::any_of(
             failures_.begin(), failures_.end(),
             [&](const NodeFailure& failure) { return failure.node == node; });
}

absl::StatusOr<bool> StandInSearch::Replace(const NodeFailures& known,
                                            std::string* why_not) {
  failures_ = known;
  NODEWISE_ASSIGN_OR_RETURN(const bool are_replaced, StandIn(why_not));
  if (!are_replaced) failures_.clear();
  return are_replaced;
}

absl::Status StandInSearch::GoOnAfter(const absl::Status& status, size_t runs) {
  auto failure = FailureOf(status);
  if (!failure.has_value()) return status;
  if (IsStandIn(failure->node)) return WithWhatItMeans(status, *failure);
  // A side effect was asked for, again and again.
  if (runs > 0 && failure->kind != NodeFailure::Kind::kSideEffect) {
    failure->what += fmt::format(" (not before, in {})", CountOf(runs, "run"));
  }
  failures_.push_back(*std::move(failure));
  NODEWISE_ASSIGN_OR_RETURN(const bool goes_on, StandIn(&why_cut_));
  is_cut_ = !goes_on;
  return absl::OkStatus();
}

}  // namespace nodewise
