#include "contrib/lab/planter/spoiling.h"

#include <algorithm>
#include <utility>

#include "nodewise/support/status_macros.h"

namespace nodewise {

absl::Status Lacks(std::string what) {
  return absl::FailedPreconditionError(std::move(what));
}

Spoiling AfterTheCall(std::string what, NodeBody spoil) {
  Spoiling made;
  made.what = std::move(what);
  made.bind = [spoil = std::move(spoil)](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound.Bind(request));
    return WithOutputsSpoiled(std::move(function), request.num_outputs, spoil);
  };
  return made;
}

Spoiling BeforeTheCall(std::string what,
                       std::function<absl::Status(NodeCall* call)> replace) {
  Spoiling made;
  made.what = std::move(what);
  made.bind = [replace = std::move(replace)](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    // The kernel reads copies, which are made anew in each call: what it is
    // told about changes of the originals says nothing about them.
    KernelRequest blind = request;
    blind.changes = {};
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound.Bind(blind));
    return WithInputsReplaced(std::move(function), request.num_outputs,
                              replace);
  };
  return made;
}

Spoiling WithRegion(std::string what, const Region& region) {
  Spoiling made;
  made.what = std::move(what);
  made.bind = [changed = AttributesOf(region)](
                  Library& sound,
                  const KernelRequest& request) -> absl::StatusOr<PackedFunc> {
    std::vector<std::pair<std::string, std::string>> attrs(
        request.attrs.begin(), request.attrs.end());
    for (auto& [name, value] : attrs) {
      for (const auto& [changed_name, changed_value] : changed) {
        if (name == changed_name) value = changed_value;
      }
    }
    KernelRequest other = request;
    other.attrs = attrs;
    return sound.Bind(other);
  };
  return made;
}

}  // namespace nodewise
