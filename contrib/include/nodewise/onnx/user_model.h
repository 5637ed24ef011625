#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nodewise/support/file.h"
#include "nodewise/tensors/tensor_type.h"

namespace nodewise {

// An ONNX model as its file has it, for a runtime that is to show what it makes
// inside. A model that is written anew has other constants, names and nodes,
// and a runtime may do something else with it; here the file stays what it is,
// byte for byte, but for what is asked for.
class UserModel {
 public:
  // A value, and what is known of its type.
  struct Value {
    std::string name;
    TensorType type;
  };

  // Fails as MappedFile::Open(), and with kDataLoss if it is not a model. In
  // builds without USE_ONNX with kUnimplemented.
  static absl::StatusOr<UserModel> Open(const std::string& path);

  // Whether it is an output, or a node of the model's own graph makes it. What
  // is inside a function, a branch or a loop cannot be seen from outside.
  bool Makes(const std::string& value) const { return made_.contains(value); }
  // The files beside it that its constants are in, below its folder.
  const std::set<std::string>& external_files() const { return external_; }
  const std::string& path() const { return path_; }

  // Returns a model with more outputs: all that the file has, and behind it
  // these, as far as it does not have them as outputs. Values that are given
  // become inputs, for all that reads them; what makes them makes a value of
  // another name, and where they are outputs they are so no more. Then the
  // nodes that make them, inputs and outputs are written anew, and nothing
  // else. REQUIRES: the model makes all of them.
  absl::StatusOr<std::string> With(absl::Span<const Value> outputs,
                                   absl::Span<const Value> given) const;
  // Returns a model that has these outputs alone, and no node that they do not
  // need. Fails as With(). REQUIRES: the model makes all of them.
  absl::StatusOr<std::string> EndingAt(absl::Span<const Value> outputs,
                                       absl::Span<const Value> given) const;

 private:
  UserModel() = default;
  std::string FreeName(const std::string& name) const;

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::set<std::string> made_, outputs_, external_;
};

}  // namespace nodewise
