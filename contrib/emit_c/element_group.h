#pragma once

#include <map>
#include <vector>

#include "absl/status/status.h"
#include "contrib/emit_c/rows.h"

namespace nodewise::emit_c {

// Operations that follow each other, and whose elements are computed one by
// one, all in one loop.
class ElementGroup {
 public:
  bool empty() const { return steps_.empty(); }
  // REQUIRE: !empty().
  const Sizes& sizes() const { return sizes_; }

  bool Makes(ValueId id) const { return variables_.contains(id); }
  bool Has(OperationId id) const;
  // The outputs, in order.
  const std::vector<ValueId>& made() const { return made_; }

  // Changes nothing if it fails.
  absl::Status Add(const Operation& operation, const Row& row,
                   const std::map<ValueId, CTensor>& tensors);
  // Stores what has a tensor with a name.
  void Write(CodeWriter* code, const std::map<ValueId, CTensor>& tensors) const;

 private:
  struct Load {
    ValueId value;
    View view;
    std::string variable;
  };
  struct Step {
    OperationId operation;
    std::string_view name;
    ValueId output;
    std::string expression;
  };

  bool IsRead(const std::string& variable) const;
  std::string Variable() const;
  // Returns the variable with the element that an input has at a place.
  std::string LoadOf(ValueId id, const View& view);

  Sizes sizes_;
  std::vector<Load> loads_;
  std::vector<Step> steps_;
  std::map<ValueId, std::string> variables_;  // By output.
  std::vector<ValueId> made_;
};

}  // namespace nodewise::emit_c
