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
  const EntryId base = index_.BaseOf(entry);
  return std::any_of(patches_.begin(), patches_.end(),
                     [&](const Patch& patch) { return patch.base == base; });
}

bool Patches::Replace(NodeId node) const {
  if (patches_.empty() || graph_.OutputsOf(node) == 0) return false;
  for (uint32_t o = 0; o < graph_.OutputsOf(node); ++o) {
    const EntryId entry = graph_.EntryOf(node, o);
    if (!index_.IsBase(entry) || !Has(entry)) return false;
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
    if (index_.NodeOf(patch.base) != node) continue;
    NODEWISE_RETURN_IF_ERROR(Write(patch));
  }
  return absl::OkStatus();
}

ByNode<bool> Patches::Dependents(NodeId end) const {
  ByEntry<bool> changed(graph_);
  for (const Patch& patch : patches_) changed[patch.base] = true;
  ByNode<bool> depends(graph_);
  for (uint32_t n = 0; n < Index(end); ++n) {
    const NodeId node{n};
    for (const EntryRef& ref : graph_.node(node).inputs) {
      if (changed[index_.BaseOf(graph_.EntryOf(ref))]) depends[node] = true;
    }
    for (uint32_t o = 0; depends[node] && o < graph_.OutputsOf(node); ++o) {
      changed[graph_.EntryOf(node, o)] = true;
    }
  }
  return depends;
}

}  // namespace nodewise
