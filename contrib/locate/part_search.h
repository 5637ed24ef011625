#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/compare/compare.h"
#include "nodewise/locate/network_locate.h"

namespace nodewise {

// Looks for the first value that something makes otherwise than the reference,
// where it hands out nothing but outputs: by models that end earlier. A few of
// the values are tried at a time, evenly over what is left. What a right one is
// made of is left out, and so is what the first wrong one is not made of.
class PartSearch {
 public:
  // `inputs` are in the order of the network's. REQUIRES: `request` has
  // by_parts, and both outlive this.
  PartSearch(const NetworkLocateRequest& request,
             const std::vector<NDArray>& inputs, const Tolerance& tolerance)
      : request_(request), inputs_(inputs), tolerance_(tolerance) {}

  // Returns the values that are to be observed: what lies between those that
  // are right and the first one that is not, and what is read there. Fails as
  // running the candidate or the reference.
  absl::StatusOr<std::vector<std::string>> Run();

  // Returns how many models were run.
  size_t runs() const { return runs_; }
  // In words: up to where all is right, and from where on it is not.
  const std::string& what_was_found() const { return found_; }

 private:
  using Names = std::vector<std::string>;

  absl::Status Refer(const Names& values);
  absl::StatusOr<std::map<std::string, bool>> AreWrong(const Names& values);
  void Narrow(const Names& tried, const std::map<std::string, bool>& are_wrong);
  std::set<ValueId> BeforeAndAt(const std::string& value) const;
  // What the operation that makes the value reads.
  std::vector<ValueId> ReadFor(ValueId id) const;
  Names WithWhatIsRead() const;

  const NetworkLocateRequest& request_;
  const std::vector<NDArray>& inputs_;
  const Tolerance tolerance_;
  // The values that are tried, by name.
  std::map<std::string, NDArray> reference_;
  Names left_;  // In the order of the run; among them is the first wrong one.
  std::string right_, wrong_;  // The last of each; empty: none.
  size_t runs_ = 0;
  std::string found_;
};

}  // namespace nodewise
