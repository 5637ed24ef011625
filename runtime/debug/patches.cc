#include "runtime/debug/patches.h"

#include <algorithm>
#include <utility>

#include "nodewise/support/check.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {

void Patches::Set(EntryId base, NDArray contents) {
  patches_.erase(
      std::remove_if(patches_.begin(), patches_.end(),
                     [&](const Patch& patch) { return patch.base == base; }),
      patches_.end());
  patches_.push_back({base, std::move(contents)});
}

bool Patches::Has(EntryId entry) const {
  const EntryId base{plan_.base_of[Index(entry)]};
  return std::any_of(patches_.begin(), patches_.end(),
                     [&](const Patch& patch) { return patch.base == base; });
}

bool Patches::Replace(NodeId node) const {
  if (patches_.empty() || graph_.OutputsOf(node) == 0) return false;
  for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
    const EntryId entry = graph_.EntryOf(node, o);
    const bool is_base = plan_.base_of[Index(entry)] == Index(entry);
    if (!is_base || !Has(entry)) return false;
  }
  return true;
}

absl::Status Patches::Write(const Patch& patch) const {
  // The entry that was patched may have another shape than its base.
  DLTensor to = run_.TensorOf(patch.base);
  to.ndim = patch.contents->ndim;
  to.shape = patch.contents->shape;
  to.dtype = patch.contents->dtype;
  return CopyTensor(*patch.contents, to);
}

absl::Status Patches::WriteEntry(EntryId base) const {
  const auto patch =
      std::find_if(patches_.begin(), patches_.end(),
                   [&](const Patch& each) { return each.base == base; });
  NODEWISE_CHECK(patch != patches_.end());
  return Write(*patch);
}

absl::Status Patches::WriteOutputs(NodeId node) const {
  for (const Patch& patch : patches_) {
    if (graph_.NodeOf(patch.base) != node) continue;
    NODEWISE_RETURN_IF_ERROR(Write(patch));
  }
  return absl::OkStatus();
}

std::vector<bool> Patches::Dependents(NodeId end) const {
  std::vector<bool> changed(graph_.entries.size(), false);
  for (const Patch& patch : patches_) changed[Index(patch.base)] = true;
  std::vector<bool> depends(graph_.nodes.size(), false);
  for (uint32_t n = 0; n < Index(end); ++n) {
    for (const EntryRef& ref : graph_.nodes[n].inputs) {
      const uint32_t entry = Index(graph_.EntryOf(ref));
      if (changed[plan_.base_of[entry]]) depends[n] = true;
    }
    for (uint32_t o = 0; depends[n] && o < graph_.OutputsOf(NodeId{n}); ++o) {
      changed[Index(graph_.EntryOf(NodeId{n}, o))] = true;
    }
  }
  return depends;
}

}  // namespace nodewise
