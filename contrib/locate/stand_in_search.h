#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "contrib/locate/node_report.h"
#include "nodewise/locate/locate.h"

namespace nodewise {

// What a search that survives nodes which end runs is given of them: as in
// LocateRequest. Everything must outlive the search.
struct StandInRequest {
  absl::Span<const std::string> asked_for;  // LocateRequest::stand_ins.
  // LocateRequest::with_stand_ins; may be null.
  const std::function<absl::StatusOr<CandidateMakers>(
      const std::vector<std::string>& nodes)>& with_stand_ins;
};

// Has a search begin again whenever a node ends a run: then the reference
// stands in for all nodes that have done so. Each turn finds one more of them,
// so there are at most as many turns as nodes.
class StandInSearch {
 public:
  StandInSearch(StandInRequest request, CandidateMakers makers)
      : request_(request), makers_(std::move(makers)) {}

  // The makers of the runners of this turn.
  const CandidateMakers& makers() const { return makers_; }
  const NodeFailures& failures() const { return failures_; }
  // The last failure ends every run: the reference cannot stand in for it, and
  // why_cut() says why in words, which may be none.
  bool is_cut() const { return is_cut_; }
  const std::string& why_cut() const { return why_cut_; }
  StandIns stand_ins() const {
    return {request_.asked_for, failures_, is_cut_};
  }

  // Has the reference stand in for nodes from the beginning, which are known to
  // fail. Returns false if it cannot, and adds the reason to `why_not`.
  absl::StatusOr<bool> Replace(const NodeFailures& known, std::string* why_not);

  // A turn failed with `status`, after the candidate had come to the end of
  // `runs` runs. Returns OK if a node has ended a run and the search is to
  // begin again; else what the search fails with.
  absl::Status GoOnAfter(const absl::Status& status, size_t runs);

 private:
  absl::StatusOr<bool> StandIn(std::string* why_not);
  bool IsStandIn(const std::string& node) const;

  const StandInRequest request_;
  CandidateMakers makers_;
  NodeFailures failures_;
  bool is_cut_ = false;
  std::string why_cut_;
};

}  // namespace nodewise
