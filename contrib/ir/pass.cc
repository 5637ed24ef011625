#include "nodewise/ir/pass.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <system_error>
#include <unordered_set>

#include "absl/strings/ascii.h"
#include "contrib/ir/places.h"
#include "fmt/format.h"
#include "nodewise/ir/network.h"
#include "nodewise/ir/network_text.h"
#include "nodewise/ir/verifier.h"
#include "nodewise/support/diagnostic.h"
#include "nodewise/support/exceptions.h"
#include "nodewise/support/file.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

// Larger constants tell a reader nothing.
constexpr size_t kMostElementsWritten = 1024;

// Names of passes are anything that a program has made up.
std::string FileNameOf(std::string_view pass) {
  std::string name(Shortened(pass));
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-') {
      c = '_';
    }
  }
  return name;
}

absl::Status WriteNetwork(const std::string& path, const Network& network) {
  NODEWISE_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  NODEWISE_RETURN_IF_ERROR(
      file.Write(NetworkToText(network.data(), {kMostElementsWritten})));
  return file.Commit();
}

// Writes both networks, and returns what an error says about it.
// That the files cannot be written is said in the error of the pass, which
// must not be lost over it.
std::string WriteBoth(const std::string& folder, const Pass& pass,
                      const Network& before, const Network& after) {
  if (folder.empty()) return "";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string start =
      (std::filesystem::path(folder) / FileNameOf(pass.name)).string();
  for (const auto& [path, network] :
       {std::pair(start + ".before.txt", &before),
        std::pair(start + ".after.txt", &after)}) {
    const absl::Status status = WriteNetwork(path, *network);
    if (!status.ok()) {
      return fmt::format(" (could not be written: {})", MessageOf(status));
    }
  }
  return fmt::format(" (see {}.before.txt and {}.after.txt)", start, start);
}

// An exception of a pass ends here: the network must be taken back.
absl::Status Call(const std::function<absl::Status(Network&)>& run,
                  Network& network) {
  try {
    return run(network);
  } catch (const std::bad_alloc&) {
    return StatusOfHandled("");
  } catch (const std::exception& error) {
    return Internal("threw {}", error.what());
  } catch (...) {
    return Internal("threw something that is not a std::exception");
  }
}

absl::Status RunPass(const Pass& pass, const PassOptions& options,
                     const Network& before, std::vector<Finding>* found,
                     Network& network) {
  if (pass.run == nullptr) {
    return Invalid("pass {}: has no function, expected one", pass.name);
  }
  const char* what = "failed";
  absl::Status status = Call(pass.run, network);
  if (status.ok()) {
    *found = Verify(network.data());
    status = ToStatus(*found);
    what = "left a network that is not valid";
  }
  if (status.ok()) return status;
  const std::string written = WriteBoth(options.folder, pass, before, network);
  network = before;
  return absl::Status(status.code(),
                      fmt::format("pass {}: {}: {}{}", pass.name, what,
                                  MessageOf(status), written));
}

// Adds a finding for each input that is no longer one: a caller who feeds the
// network does not know that.
void AddLostInputs(const Network& before, const Network& after,
                   std::vector<Finding>* findings) {
  for (const ValueId id : before.inputs()) {
    if (after.Has(id) && after.value(id).kind == NetworkValue::Kind::kInput) {
      continue;
    }
    findings->push_back(
        MakeFinding(network_kinds::kLostInput,
                    OperationPlace{PlaceOf(after.data()), "", ""},
                    fmt::format("has no input {} any more",
                                Shortened(before.value(id).name))));
  }
}

// Adds a finding for each output that an operation made before, and none makes
// now, and one if there are fewer or more than before.
void AddLostOutputs(const Network& before, const Network& after,
                    std::vector<Finding>* findings) {
  const std::string network = PlaceOf(after.data());
  const auto add = [&](std::string place, std::string found) {
    findings->push_back(MakeFinding(network_kinds::kLostOutput,
                                    OperationPlace{std::move(place), "", ""},
                                    std::move(found)));
  };
  const auto old = before.outputs();
  const auto now = after.outputs();
  if (old.size() != now.size()) {
    add(network,
        fmt::format("has {} outputs, and had {}", now.size(), old.size()));
    return;
  }
  for (size_t i = 0; i < old.size(); ++i) {
    if (before.MakerOf(old[i]) == nullptr || after.MakerOf(now[i]) != nullptr) {
      continue;
    }
    add(fmt::format("{}: output {}", network, i),
        fmt::format("is {}, and was made by an operation",
                    TitleOf(after.data(), now[i])));
  }
}

using Texts = std::unordered_set<std::string>;

Texts TextsOf(absl::Span<const Finding> findings) {
  Texts texts;
  for (const Finding& finding : findings) texts.insert(finding.ToString());
  return texts;
}

// Returns the operations of the kind that read an output of `id`.
// An output of the network counts as another reader: a rewrite of the chain
// would take it away.
std::vector<OperationId> NextOf(const Network& network, OperationId id,
                                std::string_view kind, bool only_user) {
  std::vector<OperationId> next;
  for (const ValueId output : network.operation(id).outputs) {
    if (output == kNoValue) continue;
    const std::vector<Use>& uses = network.value(output).uses;
    const bool is_shared = network.IsOutput(output) ||
                           std::ranges::any_of(uses, [&](const Use& use) {
                             return use.user != uses[0].user;
                           });
    if (only_user && is_shared) continue;
    for (const Use& use : uses) {
      const bool is_new = std::ranges::find(next, use.user) == next.end();
      if (is_new && network.operation(use.user).kind() == kind) {
        next.push_back(use.user);
      }
    }
  }
  std::ranges::sort(next);
  return next;
}

}  // namespace

absl::Status StaleTable(const Network& network, const char* pass,
                        uint64_t version) {
  return FailedPrecondition(
      "{}: was edited since pass {} (version {}), expected the network as it "
      "was then, of version {} (run the pass again)",
      PlaceOf(network.data()), pass, network.version(), version);
}

// Findings are compared by their text with those from before the pass. A pass
// that works in steps may leave something behind that a later one removes, so
// that only what is new after a pass is put down to it.
absl::StatusOr<std::vector<PassFinding>> RunPasses(
    absl::Span<const Pass> passes, const PassOptions& options,
    Network& network) {
  std::vector<PassFinding> left;
  if (passes.empty()) return left;
  Texts known = TextsOf(Verify(network.data()));
  for (const Pass& pass : passes) {
    const Network before = network;
    std::vector<Finding> found;
    NODEWISE_RETURN_IF_ERROR(RunPass(pass, options, before, &found, network));
    Texts texts = TextsOf(found);
    AddLostInputs(before, network, &found);
    AddLostOutputs(before, network, &found);
    for (Finding& finding : found) {
      if (known.count(finding.ToString()) > 0) continue;
      left.push_back({pass.name, std::move(finding)});
    }
    known = std::move(texts);
  }
  return left;
}

// Chains grow by one operation in each round; one that ends has no place among
// the longer ones.
std::vector<std::vector<OperationId>> FindChains(
    const Network& network, absl::Span<const std::string_view> kinds,
    const ChainOptions& options) {
  std::vector<std::vector<OperationId>> chains;
  if (kinds.empty()) return chains;
  for (const OperationId id : network.order()) {
    if (network.operation(id).kind() == kinds[0]) chains.push_back({id});
  }
  for (size_t i = 1; i < kinds.size(); ++i) {
    std::vector<std::vector<OperationId>> longer;
    for (const auto& chain : chains) {
      for (const OperationId next :
           NextOf(network, chain.back(), kinds[i], options.only_user)) {
        longer.push_back(chain);
        longer.back().push_back(next);
      }
    }
    chains = std::move(longer);
  }
  return chains;
}

}  // namespace nodewise
