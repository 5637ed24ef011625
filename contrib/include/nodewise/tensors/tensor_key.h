#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace nodewise {

// What a tensor was to its node.
enum class TensorRole {
  // The node made it. The inputs and parameters of a network count as nodes
  // that make what they were given.
  kOutput,
  // The node read it: these are the bytes that lay there when it began. They
  // differ from what was made where something has written over them.
  kInput,
};

// What a tensor that travels is called: from a dump, a file or a run, to a
// comparison, a file or a report. A plain value.
struct TensorKey {
  // The key of the node (GraphIndex::KeyOf()): its name, or `name#index`
  // if another node has that name. For tensors of a network, the value's name;
  // for those of a file, the whole name that they have there.
  std::string node;
  // Which of the node's outputs, or for kInput which of its inputs.
  uint32_t slot = 0;
  TensorRole role = TensorRole::kOutput;
  // Where the tensor is from (TensorSource::name()), for messages. It says
  // nothing about which tensor it is and is not compared.
  std::string source = {};

  // Returns the name in files and messages: "conv1" for output 0, "conv1:1" for
  // output 1, "conv1:input:0" for what it read first. A file keeps no more than
  // this name, so it alone decides which keys are equal: a file's tensor
  // "conv1:1" has the key of output 1 of conv1.
  std::string Name() const;

  friend bool operator==(const TensorKey& a, const TensorKey& b) {
    return a.slot == b.slot && a.role == b.role ? a.node == b.node
                                                : a.Name() == b.Name();
  }
};

}  // namespace nodewise

// Equal keys have equal hashes, in std's and Abseil's containers.
template <>
struct std::hash<nodewise::TensorKey> {
  size_t operator()(const nodewise::TensorKey& key) const {
    return std::hash<std::string>()(key.Name());
  }
};
