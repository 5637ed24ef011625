#include "nodewise/runner/stand_in.h"

#include <utility>

#include "contrib/runner/node_marks.h"
#include "fmt/format.h"
#include "nodewise/lower/lowered_library.h"
#include "nodewise/lower/region.h"
#include "nodewise/runner/reference_kernels.h"
#include "nodewise/support/status_macros.h"

namespace nodewise {
namespace {

class StandInLibrary : public Library {
 public:
  StandInLibrary(Ref<Library> library, const OpSet& ops, NodeChoice replaces)
      : library_(std::move(library)),
        ops_(ops),
        reference_(
            MakeRef<LoweredLibrary>(ops, std::vector{ReferenceKernels()})),
        replaces_(std::move(replaces)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return library_->Find(name);
  }

  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    const std::string name = NameOfNode(request);
    if (name.empty() || !replaces_(name)) return library_->Bind(request);
    auto function = reference_->Bind(request);
    if (function.ok()) return function;
    return absl::UnimplementedError(
        fmt::format("node {}: the reference cannot stand in for it: {}", name,
                    MessageOf(function.status())));
  }

 private:
  std::string NameOfNode(const KernelRequest& request) const {
    const std::string_view marked = MarkedNode(request);
    if (!marked.empty()) return std::string(marked);
    const auto region = RegionOf(request, ops_);
    return region.ok() ? region->network.name() : "";
  }

  const Ref<Library> library_;
  const OpSet ops_;
  const Ref<Library> reference_;
  const NodeChoice replaces_;
};

}  // namespace

Ref<Library> WithStandIns(Ref<Library> library, const OpSet& ops,
                          NodeChoice replaces) {
  return MakeRef<StandInLibrary>(std::move(library), ops, std::move(replaces));
}

absl::StatusOr<std::shared_ptr<const GraphTarget>> WithStandIns(
    const GraphTarget& target, const OpSet& ops, NodeChoice replaces) {
  const Artefact& artefact = target.artefact();
  return target.WithArtefact(
      {WithNodeMarks(target.index()),
       WithStandIns(artefact.library, ops, std::move(replaces)),
       artefact.params});
}

}  // namespace nodewise
