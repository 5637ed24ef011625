#include "apps/python/native/tensor_files.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/python/native/raise.h"
#include "fmt/format.h"
#include "nodewise/support/status_macros.h"
#include "nodewise/tensors/tensor_sink.h"
#include "nodewise/tensors/tensor_source.h"

namespace nodewise {
namespace {

namespace nb = nanobind;

// The names of a source's tensors, and each tensor when it is asked for. Any
// thread may call.
class TensorFile : private TensorSink {
 public:
  static absl::StatusOr<std::unique_ptr<TensorFile>> Open(
      const std::string& path) {
    NODEWISE_ASSIGN_OR_RETURN(auto source, OpenTensorSource(path));
    std::unique_ptr<TensorFile> file(new TensorFile(std::move(source)));
    NODEWISE_RETURN_IF_ERROR(file->source_->Visit(*file));
    return file;
  }

  const std::string& name() const { return source_->name(); }
  const std::vector<std::string>& names() const { return names_; }

  absl::StatusOr<NDArray> Find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(name);
    if (found != known_.end()) {
      const Known& known = found->second;
      return known.lasting.defined() ? known.lasting : source_->Find(known.key);
    }
    return absl::NotFoundError(fmt::format("{}: has no tensor \"{}\"{}",
                                           source_->name(), name,
                                           DidYouMean(name, names_)));
  }

 private:
  struct Known {
    TensorKey key;
    // The tensor itself, where that takes no copy: in a mapped file.
    NDArray lasting;
  };

  explicit TensorFile(std::unique_ptr<TensorSource> source)
      : source_(std::move(source)) {}

  // An item without contents is not a tensor to be had.
  absl::Status Take(const TensorItem& item) override {
    if (item.tensor == nullptr) return absl::OkStatus();
    std::string name = item.key.Name();
    const bool is_new = !known_.contains(name);
    // If several have one name, the last counts.
    known_[name] = {item.key, item.lasting};
    if (is_new) names_.push_back(std::move(name));
    return absl::OkStatus();
  }

  std::mutex mutex_;
  const std::unique_ptr<TensorSource> source_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Known> known_;
};

std::unique_ptr<TensorFile> OpenTensors(const std::string& path) {
  auto file = [&] {
    nb::gil_scoped_release release;
    return TensorFile::Open(path);
  }();
  return ValueOf(std::move(file));
}

NDArray FindTensor(TensorFile& file, const std::string& name) {
  auto found = [&] {
    nb::gil_scoped_release release;
    return file.Find(name);
  }();
  return ValueOf(std::move(found));
}

}  // namespace

void BindTensorFiles(nb::module_& module) {
  nb::class_<TensorFile>(module, "TensorFile")
      .def_prop_ro("name", &TensorFile::name)
      .def("names", &TensorFile::names)
      .def("find", &FindTensor);
  module.def("open_tensors", &OpenTensors);
}

}  // namespace nodewise
