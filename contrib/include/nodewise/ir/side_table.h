#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// kFailedPrecondition: what `pass` computed about a network is of an older
// version than the network is.
absl::Status StaleTable(const Network& network, const char* pass,
                        uint64_t version);

// What a pass computed about a network (slots, kernels, layouts). It exists
// after its pass only, belongs to one version of the network, and is an error
// to read once the network was edited.
template <typename Content>
class SideTable {
 public:
  SideTable(const Network& network, const char* pass, Content content)
      : network_(&network),
        pass_(pass),
        version_(network.version()),
        content_(std::move(content)) {}

  // Valid while the table is. REQUIRES: the network lives.
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
