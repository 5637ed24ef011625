// The native half of the Python package: networks that stay loaded.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/native/functions.h"
#include "apps/python/native/interrupt.h"
#include "apps/python/native/loaded_network.h"
#include "apps/python/native/raise.h"
#include "apps/python/native/tensor.h"
#include "apps/python/native/tensor_files.h"

namespace nodewise {
namespace {

namespace nb = nanobind;
using Named = std::vector<std::pair<std::string, NDArray>>;

std::vector<NamedTensor> TensorsOf(const Named& named) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(named.size());
  for (const auto& [name, tensor] : named) tensors.push_back({name, tensor});
  return tensors;
}

// A loaded network as Python has it: one call at a time, whichever thread makes
// it, and none after close().
class Network {
 public:
  explicit Network(std::unique_ptr<LoadedNetwork> loaded)
      : name_(loaded->name()), loaded_(std::move(loaded)) {}

  const std::string& name() const { return name_; }

  void Close() {
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    loaded_ = nullptr;
  }

  // Calls `run` on the network without Python's lock, and raises what it fails
  // with.
  template <typename Run>
  auto Do(Run&& run) {
    auto result = Locked(std::forward<Run>(run));
    if constexpr (std::is_same_v<decltype(result), absl::Status>) {
      Check(result);
    } else {
      return ValueOf(std::move(result));
    }
  }

 private:
  template <typename Run>
  auto Locked(Run&& run) -> decltype(run(std::declval<LoadedNetwork&>())) {
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    if (loaded_ == nullptr) {
      return absl::FailedPreconditionError(
          name_ + ": is closed, expected one that is open (load it again)");
    }
    const InterruptibleRun interruptible;
    return run(*loaded_);
  }

  const std::string name_;
  std::mutex mutex_;
  std::unique_ptr<LoadedNetwork> loaded_;
};

TargetSpec SpecOf(const std::string& path, const Named& inputs,
                  const Named& frozen, const nb::dict& options) {
  const auto text = [&](const char* name) {
    return options.contains(name) ? nb::cast<std::string>(options[name]) : "";
  };
  const auto is_set = [&](const char* name) {
    return options.contains(name) && nb::cast<bool>(options[name]);
  };
  TargetSpec spec;
  spec.path = path;
  spec.library = text("lib");
  spec.params = text("params");
  spec.function = text("function");
  spec.inputs.tensors = TensorsOf(inputs);
  spec.model.freeze = TensorsOf(frozen);
  if (options.contains("dim")) {
    spec.model.dims =
        nb::cast<std::vector<std::pair<std::string, int64_t>>>(options["dim"]);
  }
  if (options.contains("seed")) {
    spec.model.seed = nb::cast<uint64_t>(options["seed"]);
  }
  if (text("backend") == "reference") {
    spec.lowering.backend = Backend::kReference;
  } else if (text("backend") == "onednn") {
    spec.lowering.backend = Backend::kFastest;
  }
  spec.lowering.fuses = !is_set("no_fuse");
  spec.lowering.reuses_storage = !is_set("no_reuse");
  return spec;
}

std::unique_ptr<Network> Open(const std::string& path, const Named& inputs,
                              const Named& frozen, const nb::dict& options) {
  TargetSpec spec = SpecOf(path, inputs, frozen, options);
  WatchInterrupts();
  DiagnosticList diagnostics;
  auto opened = [&] {
    nb::gil_scoped_release release;
    const InterruptibleRun interruptible;
    return LoadedNetwork::Open(
        std::move(spec), &InterruptibleRun::is_interrupted(), &diagnostics);
  }();
  if (!opened.ok()) Raise(opened.status(), diagnostics);
  return std::make_unique<Network>(*std::move(opened));
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> InputsOf(
    LoadedNetwork& network) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const LoadedNetwork::Input& input : network.Inputs()) {
    if (!input.is_needed) continue;
    rows.emplace_back(input.name, ToString(input.type));
  }
  return rows;
}

void BindNetwork(nb::module_& module) {
  using Loaded = LoadedNetwork;
  nb::class_<Network>(module, "Network")
      .def_prop_ro("name", &Network::name)
      .def("close", &Network::Close)
      .def("notes",
           [](Network& self) {
             return self.Do([](Loaded& net) {
               return absl::StatusOr<std::vector<std::string>>(net.notes());
             });
           })
      .def("inputs", [](Network& self) { return self.Do(InputsOf); })
      .def("outputs",
           [](Network& self) {
             return self.Do([](Loaded& net) {
               return absl::StatusOr<std::vector<std::string>>(net.Outputs());
             });
           })
      .def("nodes",
           [](Network& self) {
             return self.Do([](Loaded& net) {
               return absl::StatusOr<std::vector<std::string>>(net.Nodes());
             });
           })
      .def("set",
           [](Network& self, const Named& inputs) {
             const std::vector<NamedTensor> tensors = TensorsOf(inputs);
             self.Do([&](Loaded& net) { return net.Set(tensors); });
           })
      .def("bind",
           [](Network& self, const std::string& name, const NDArray& tensor) {
             self.Do([&](Loaded& net) { return net.Bind({name, tensor}); });
           })
      .def("input_memory",
           [](Network& self, const std::string& name) {
             return self.Do([&](Loaded& net) { return net.InputMemory(name); });
           })
      .def("run",
           [](Network& self, bool is_timed) {
             return self.Do([&](Loaded& net) { return net.Run(is_timed); });
           })
      .def("time_runs",
           [](Network& self, uint32_t runs) {
             return self.Do([&](Loaded& net) { return net.TimeRuns(runs); });
           })
      .def("times",
           [](Network& self) {
             return self.Do([](Loaded& net) { return net.Times(); });
           })
      .def("read",
           [](Network& self, const std::string& entry) {
             return self.Do([&](Loaded& net) { return net.Read(entry); });
           })
      .def("patch",
           [](Network& self, const std::string& entry, const NDArray& tensor) {
             self.Do([&](Loaded& net) { return net.Patch(entry, tensor); });
           })
      .def("clear_patches",
           [](Network& self) {
             self.Do([](Loaded& net) { return net.ClearPatches(); });
           })
      .def("restart",
           [](Network& self) {
             self.Do([](Loaded& net) { return net.Restart(); });
           })
      .def("step",
           [](Network& self) {
             self.Do([](Loaded& net) { return net.Step(); });
           })
      .def("run_until",
           [](Network& self, const std::string& node) {
             self.Do([&](Loaded& net) { return net.RunUntil(node); });
           })
      .def("resume",
           [](Network& self) {
             self.Do([](Loaded& net) { return net.Continue(); });
           })
      .def("recompute",
           [](Network& self) {
             return self.Do([](Loaded& net) { return net.Recompute(); });
           })
      .def("position",
           [](Network& self) {
             return self.Do([](Loaded& net) { return net.Position(); });
           })
      .def("record",
           [](Network& self, const std::string& folder) {
             self.Do([&](Loaded& net) { return net.Record(folder); });
           })
      .def("dump_folder", [](Network& self) {
        return self.Do([](Loaded& net) {
          return absl::StatusOr<std::string>(net.DumpFolder());
        });
      });
}

}  // namespace
}  // namespace nodewise

NB_MODULE(_native, module) {
  // Objects may outlive the interpreter's modules at its end.
  nanobind::set_leak_warnings(false);
  nodewise::BindTensor(module);
  nodewise::BindTensorFiles(module);
  nodewise::BindNetwork(module);
  nodewise::BindFunctions(module);
  module.def("open", &nodewise::Open);
}
