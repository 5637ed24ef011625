#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Returns kFailedPrecondition: what `pass` computed belongs to an older version
// of the network.
absl::Status StaleTable(const Network& network, const char* pass,
                        uint64_t version);

// What a pass computed about a network (slots, kernels, layouts). It exists
// only after its pass, belongs to one version of the network, and cannot be
// read once the network has been edited.
template <typename Content>
class SideTable {
 public:
  SideTable(const Network& network, const char* pass, Content content)
      : network_(&network),
        pass_(pass),
        version_(network.version()),
        content_(std::move(content)) {}

  // The result is valid as long as the table. REQUIRES: the network still
  // exists.
  absl::StatusOr<const Content*> Get() const {
    if (network_->version() == version_) return &content_;
    return StaleTable(*network_, pass_, version_);
  }

 private:
  const Network* network_;
  const char* pass_;
  uint64_t version_;
  Content content_;
};

}  // namespace nodewise
