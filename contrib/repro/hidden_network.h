#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/ir/network.h"
#include "nodewise/lower/region.h"
#include "nodewise/op/op_def.h"

namespace nodewise {

// Gives the names in networks others that say what a thing is: "conv_1" for an
// operation, "c2" for a constant, "d1" for a side. No two are the same in all
// networks that go through one object, and what had one name has one again.
class NetworkHider {
 public:
  // Returns the network with other names, in bodies too; `inputs` are the names
  // that its inputs get. Domains that no operation needs are gone, and so is
  // where constants were folded from. Fails as making a network does.
  absl::StatusOr<Network> Hidden(const Network& network,
                                 const std::string& name,
                                 absl::Span<const std::string> inputs);
  // Hides what a node computes in the same way.
  absl::StatusOr<Region> Hidden(const Region& region, const std::string& name,
                                absl::Span<const std::string> inputs);

 private:
  std::string Numbered(std::string_view what);
  std::string NameOfSide(const std::string& name);
  Shape Hidden(Shape shape);
  TensorType Hidden(TensorType type);
  absl::StatusOr<AttrValue> Hidden(const AttrField& field, AttrValue value);
  absl::StatusOr<OpAttrs> Hidden(const OpAttrs& attrs);
  absl::StatusOr<Network> HiddenBody(const Network& body);
  void HideValues(absl::Span<const std::string> inputs, NetworkData* data);
  absl::Status HideOperations(NetworkData* data);

  std::map<std::string, int, std::less<>> counts_;
  std::map<std::string, std::string> sides_;
  // New names of operations by the old ones, for the last network that was not
  // a body.
  std::map<std::string, std::string> operations_;
};

// Returns the kind of an operator as a word in small letters: "conv".
std::string WordOfKind(std::string_view kind);

}  // namespace nodewise
