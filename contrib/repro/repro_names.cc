#include "contrib/repro/repro_names.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "fmt/format.h"
#include "nodewise/repro/repro_case.h"

namespace nodewise {
namespace {

// Names of files may have 255 bytes, and something is put around these.
constexpr size_t kLongestName = 60;

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 && (std::isalnum(byte) != 0 || c == '_');
}

template <typename Params>
std::string ParamName(const Params& params, size_t slot) {
  if (params.empty()) return "";
  const size_t last = params.size() - 1;
  if (slot >= last && params[last].kind == Param::Kind::kVariadic) {
    return fmt::format("{}_{}", params[last].name, slot - last);
  }
  return slot < params.size() ? std::string(params[slot].name) : "";
}

class RoleFinder {
 public:
  explicit RoleFinder(const Region& region)
      : network_(region.network), source_(SourceOperations(region)) {}

  // A Transpose that only says in which order a tensor lies is looked through.
  std::string RoleOfInput(ValueId id) const {
    for (const OperationId user : network_.order()) {
      const Operation& operation = network_.operation(user);
      for (size_t slot = 0; slot < operation.inputs.size(); ++slot) {
        if (operation.inputs[slot] != id) continue;
        if (IsSource(user) || operation.outputs.empty()) {
          return ParamName(operation.def().inputs, slot);
        }
        return RoleOfInput(operation.outputs[0]);
      }
    }
    return "";
  }

  std::string RoleOfOutput(ValueId id) const {
    const NetworkValue& value = network_.value(id);
    if (value.kind != NetworkValue::Kind::kOutput) return "";
    const Operation& operation = network_.operation(value.producer);
    if (IsSource(value.producer) || operation.inputs.empty() ||
        operation.inputs[0] == kNoValue) {
      return ParamName(operation.def().outputs, value.slot);
    }
    return RoleOfOutput(operation.inputs[0]);
  }

 private:
  bool IsSource(OperationId id) const {
    return std::find(source_.begin(), source_.end(), id) != source_.end();
  }

  const Network& network_;
  const std::vector<OperationId> source_;
};

// Operators may come from anywhere, so their names do, too.
void MakeRolesPlain(std::string_view otherwise,
                    std::vector<std::string>* roles) {
  std::map<std::string, int> uses;
  for (std::string& role : *roles) {
    role = role.empty() ? std::string(otherwise) : PlainName(role);
    std::string unique = role;
    while (++uses[unique] > 1) {
      unique = fmt::format("{}_{}", role, uses[role]);
    }
    role = unique;
  }
}

}  // namespace

std::string PlainName(std::string_view name) {
  std::string plain;
  bool has_word = false;
  for (const char c : name.substr(0, kLongestName)) {
    plain += IsPlain(c) ? c : '_';
    has_word = has_word || plain.back() != '_';
  }
  return has_word ? plain : "node";
}

NodeRoles RolesOf(const Region* region, size_t num_inputs, size_t num_outputs) {
  NodeRoles roles;
  roles.inputs.resize(num_inputs);
  roles.outputs.resize(num_outputs);
  if (region != nullptr) {
    const RoleFinder finder(*region);
    const Network& network = region->network;
    for (size_t i = 0; i < std::min(num_inputs, network.inputs().size()); ++i) {
      roles.inputs[i] = finder.RoleOfInput(network.inputs()[i]);
    }
    for (size_t i = 0; i < std::min(num_outputs, network.outputs().size());
         ++i) {
      roles.outputs[i] = finder.RoleOfOutput(network.outputs()[i]);
    }
  }
  MakeRolesPlain("In", &roles.inputs);
  MakeRolesPlain("Out", &roles.outputs);
  return roles;
}

}  // namespace nodewise
