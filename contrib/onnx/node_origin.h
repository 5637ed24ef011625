#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

#include "contrib/onnx/parse_model.h"
#include "nodewise/ir/network.h"

namespace nodewise {

// Reads what nodes of a model say of where they are from. Notes that many nodes
// have alike are kept once.
class OriginReader {
 public:
  // Returns null if the node says nothing. What would take too much memory is
  // left out. REQUIRES: nodes that say something outlive this.
  std::shared_ptr<const Origin> Read(const proto::Node& node);

 private:
  void Keep(const std::string& key, const std::string& value, Origin* origin);

  // A node of a function is read for each of its calls.
  std::unordered_map<const proto::Node*, std::shared_ptr<const Origin>> read_;
  std::unordered_map<std::string, std::shared_ptr<const std::string>> values_;
  size_t bytes_left_ = size_t{64} << 20;
};

// Writes an operation's notes as the importer reads them.
void WriteOrigin(const Operation& operation, proto::Node* to);

}  // namespace nodewise
