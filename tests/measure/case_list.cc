#include "tests/measure/case_list.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "nodewise/ndarray/hash.h"
#include "nodewise/support/status.h"
#include "nodewise/zoo/zoo_networks.h"
#include "tests/measure/fault_source.h"
#include "tests/measure/fixture_case.h"
#include "tests/measure/foreign_case.h"
#include "tests/measure/method.h"

namespace nodewise {
namespace {

constexpr std::string_view kPrecisions[] = {"", "+fp16", "+bf16", "+int8"};
constexpr std::string_view kLight = "light:";
// The name of a model's file is NAME_SEED.onnx.
constexpr std::string_view kModelEnd = "_1.onnx";

bool IsWanted(const std::vector<std::string>& wanted, std::string_view name) {
  return wanted.empty() ||
         std::find(wanted.begin(), wanted.end(), name) != wanted.end();
}

uint64_t HashOf(const std::string& text) {
  return HashBytes(text.data(), text.size());
}

// A model there is for all seeds or for none.
std::vector<std::string> LightNetworks(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(kModelEnd)) continue;
    names.push_back(std::string(kLight) +
                    file.substr(0, file.size() - kModelEnd.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool HasSeed(const std::string& folder, std::string_view network,
             uint64_t seed) {
  network.remove_prefix(kLight.size());
  return std::filesystem::exists(
      fmt::format("{}/{}_{}.onnx", folder, network, seed));
}

// Sorts the cases of one round by chance, but those of one key together.
template <typename KeyOf>
void Mix(std::vector<Case>* cases, KeyOf key_of) {
  std::vector<std::pair<uint64_t, Case>> mixed;
  for (Case& one : *cases) {
    const uint64_t key = HashOf(key_of(one));
    mixed.emplace_back(key, std::move(one));
  }
  std::sort(mixed.begin(), mixed.end());
  cases->clear();
  for (auto& [key, one] : mixed) cases->push_back(std::move(one));
}

// The first method does most of what the others do. They see only the first
// draw of each clean network, or all draws if the first method is not wanted.
// Some run a network as often as it has nodes, which takes too long for models.
bool IsAskedAbout(const Case& clean, const Method& method,
                  const Selection& selection) {
  const std::string_view first = Methods()[0].name;
  if (!IsWanted(selection.methods, first)) return true;
  if (clean.what == Case::What::kFixture || method.name == first) return true;
  const bool is_quick =
      method.is_required || !clean.subject.starts_with(kLight);
  return clean.seed == 1 && is_quick;
}

// What is asked for is tried with each method.
void AddForMethods(const Selection& selection, const std::vector<Case>& cases,
                   std::vector<Case>* all) {
  for (const Case& one : cases) {
    for (const Method& method : Methods()) {
      if (!IsWanted(selection.methods, method.name)) continue;
      const bool is_asked =
          one.what == Case::What::kFault
              ? method.sees((*FindFaultSource(one.kind))->sign)
              : IsAskedAbout(one, method, selection);
      if (!is_asked) continue;
      all->push_back(one);
      all->back().method = method.name;
    }
  }
}

// The networks that faults of this seed are planted into: each round has other
// weights, and makes the networks in another way. There is C for float32 alone.
std::vector<std::string> NetworksOfRound(const Selection& selection,
                                         uint64_t seed) {
  constexpr std::string_view kForms[] = {"", "+unfused", "+fp16", "+bf16",
                                         "+int8"};
  const std::string_view form = kForms[(seed - 1) % std::size(kForms)];
  std::vector<std::string> networks;
  for (const ZooNetwork& row : ZooNetworks()) {
    if (!IsWanted(selection.networks, row.name)) continue;
    networks.push_back(fmt::format("{}/{}{}", row.name, seed, form));
    if (!row.has_c) continue;
    networks.push_back(fmt::format("{}/{}{}+c", row.name, seed,
                                   seed % 2 == 0 ? "+unfused" : ""));
  }
  return networks;
}

// Every kind in every network: a round for each seed.
void AddFaults(const Selection& selection, std::vector<Case>* all) {
  std::vector<Case> cases;
  for (uint64_t seed = selection.seed; cases.size() < selection.faults;
       ++seed) {
    std::vector<Case> round;
    for (const std::string& network : NetworksOfRound(selection, seed)) {
      for (const FaultSource& source : FaultSources()) {
        if (!IsWanted(selection.kinds, source.name)) continue;
        round.push_back(
            {Case::What::kFault, network, std::string(source.name), seed});
      }
    }
    if (round.empty()) break;
    Mix(&round, [](const Case& one) { return one.ToString(); });
    cases.insert(cases.end(), round.begin(), round.end());
  }
  if (cases.size() > selection.faults) cases.resize(selection.faults);
  AddForMethods(selection, cases, all);
}

// The ways in which a network is made.
std::vector<std::string> CleanForms(const std::string& network, uint64_t seed,
                                    bool has_c) {
  std::vector<std::string> forms;
  for (const std::string_view precision : kPrecisions) {
    for (const std::string_view fusion : {"", "+unfused"}) {
      forms.push_back(
          fmt::format("{}/{}{}{}", network, seed, precision, fusion));
    }
  }
  if (has_c) forms.push_back(fmt::format("{}/{}+c", network, seed));
  return forms;
}

// Draws of inputs for each network, for each way to make it: a round for each
// seed of the weights. One method sees what the others may.
void AddClean(const Selection& selection, std::vector<Case>* all) {
  const auto light = LightNetworks(selection.models);
  std::vector<Case> cases;
  for (uint64_t seed = selection.seed; cases.size() < selection.clean_runs;
       ++seed) {
    std::vector<std::string> forms;
    const auto add = [&](const std::string& network, bool has_c) {
      if (!IsWanted(selection.networks, network)) return;
      const auto made = CleanForms(network, seed, has_c);
      forms.insert(forms.end(), made.begin(), made.end());
    };
    for (const ZooNetwork& row : ZooNetworks()) {
      add(std::string(row.name), row.has_c);
    }
    for (const std::string& network : light) {
      if (HasSeed(selection.models, network, seed)) add(network, false);
    }
    if (forms.empty()) break;
    std::vector<Case> round;
    for (const std::string& form : forms) {
      for (uint64_t draw = 1; draw <= selection.draws; ++draw) {
        round.push_back({Case::What::kClean, form, "-", draw});
      }
    }
    Mix(&round, [](const Case& one) { return one.subject; });
    cases.insert(cases.end(), round.begin(), round.end());
  }
  if (cases.size() > selection.clean_runs) cases.resize(selection.clean_runs);
  AddForMethods(selection, cases, all);
}

// Every model at every level, with as many draws of inputs as clean networks
// have: a round for each seed of the weights.
void AddForeign(const Selection& selection, std::vector<Case>* all) {
  if (!selection.has_onnxruntime) return;
  const auto light = LightNetworks(selection.models);
  std::vector<Case> cases;
  for (uint64_t seed = selection.seed; cases.size() < selection.foreign_runs;
       ++seed) {
    std::vector<Case> round;
    for (const std::string& network : light) {
      if (!IsWanted(selection.networks, network)) continue;
      if (!HasSeed(selection.models, network, seed)) continue;
      for (const std::string_view level : kOrtLevels) {
        for (uint64_t draw = 1; draw <= selection.draws; ++draw) {
          round.push_back({Case::What::kForeign,
                           fmt::format("{}/{}+ort-{}", network, seed, level),
                           "-", draw, "auto"});
        }
      }
    }
    if (round.empty()) break;
    Mix(&round, [](const Case& one) { return one.subject; });
    cases.insert(cases.end(), round.begin(), round.end());
  }
  if (cases.size() > selection.foreign_runs) {
    cases.resize(selection.foreign_runs);
  }
  all->insert(all->end(), cases.begin(), cases.end());
}

void AddFixtures(std::vector<Case>* all) {
  for (const std::string& name : FixtureNames()) {
    all->push_back({Case::What::kFixture, name});
  }
}

absl::Status CheckNames(const Selection& selection) {
  for (const std::string& kind : selection.kinds) {
    NODEWISE_RETURN_IF_ERROR(FindFaultSource(kind).status());
  }
  for (const std::string& method : selection.methods) {
    NODEWISE_RETURN_IF_ERROR(FindMethod(method).status());
  }
  for (const std::string& network : selection.networks) {
    if (network.starts_with(kLight)) continue;
    NODEWISE_RETURN_IF_ERROR(FindZooNetwork(network).status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Case>> ListCases(const Selection& selection) {
  NODEWISE_RETURN_IF_ERROR(CheckNames(selection));
  const auto wants = [&](Case::What what) {
    const auto& list = selection.what;
    return list.empty() ||
           std::find(list.begin(), list.end(), what) != list.end();
  };
  std::vector<Case> cases;
  if (wants(Case::What::kFixture)) AddFixtures(&cases);
  if (wants(Case::What::kFault)) AddFaults(selection, &cases);
  if (wants(Case::What::kForeign)) AddForeign(selection, &cases);
  if (wants(Case::What::kClean)) AddClean(selection, &cases);
  return cases;
}

}  // namespace nodewise
