#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nodewise/ir/network.h"
#include "tests/measure/case.h"
#include "tests/measure/subject.h"

namespace nodewise {

// Levels of graph optimisations at which onnxruntime is examined.
inline constexpr std::string_view kOrtLevels[] = {"disabled", "all"};

// A model that onnxruntime runs, to be accused of nothing but what it is known
// to do wrong.
struct ForeignSubject {
  std::string name;
  std::string model_file;
  std::string level;
  std::shared_ptr<const Network> network;
};

// Makes the subject that is called "light:NAME/SEED+ort-LEVEL". Fails with
// kInvalidArgument for anything else, and as the import does.
absl::StatusOr<ForeignSubject> MakeForeignSubject(
    std::string_view name, const SubjectFolders& folders);

// Draws inputs with this seed, has onnxruntime compute the model, and the
// reference every operation of it again.
absl::Status RunForeign(const ForeignSubject& subject, uint64_t seed,
                        const SubjectFolders& folders, Result* result);

}  // namespace nodewise
