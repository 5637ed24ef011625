#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "nodewise/locate/layer_comparator.h"
#include "nodewise/support/check.h"

namespace nodewise {

// Prints a line to stdout with the file and the line of the call in front:
// "[main.cc:42] text". Where stdout takes nothing the program ends with 2.
void LogLine(std::string_view text, CodePlace place = CodePlace::Here());

// Prints what Glow's debugger prints of each layer, and writes the tensors of
// broken ones where that is wanted.
class LayerLog : public LayerObserver {
 public:
  // Files go to `folder`, which is made; empty: none are written. `threshold`
  // is for the text alone; none where bounds judge.
  LayerLog(std::string folder, std::optional<double> threshold)
      : folder_(std::move(folder)), threshold_(threshold) {}

  absl::Status Begins(const Layer& layer) override;
  absl::Status IsBroken(const BrokenLayer& broken) override;
  absl::Status Ends(const LayerResult& result) override;

 private:
  absl::Status Dump(const BrokenLayer& broken);
  std::string FileNameOf(const std::string& layer);
  absl::Status WriteOne(const std::string& prefix, const std::string& role,
                        const std::string& layer, const NDArray& tensor) const;

  const std::string folder_;
  const std::optional<double> threshold_;
  size_t indent_ = 0;  // As wide as the place in front of the last line.
  std::set<std::string> file_names_;
};

}  // namespace nodewise
