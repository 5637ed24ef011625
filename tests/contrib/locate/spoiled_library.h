#pragma once

#include <functional>
#include <string>
#include <utility>

#include "nodewise/module/module.h"
#include "nodewise/support/status.h"

namespace nodewise {

// Has the functions of another library, and does something to the last output
// after each call of a function whose name has a word in it.
class SpoiledLibrary : public Library {
 public:
  using Spoil = std::function<void(const DLTensor& made)>;

  SpoiledLibrary(Ref<Library> sound, std::string word, Spoil spoil)
      : sound_(std::move(sound)),
        word_(std::move(word)),
        spoil_(std::move(spoil)) {}

  absl::StatusOr<PackedFunc> Find(std::string_view name) override {
    return sound_->Find(name);
  }
  absl::StatusOr<PackedFunc> Bind(const KernelRequest& request) override {
    NODEWISE_ASSIGN_OR_RETURN(PackedFunc function, sound_->Bind(request));
    if (request.function.find(word_) == std::string_view::npos) return function;
    const auto last = static_cast<int>(request.arguments.size()) - 1;
    return PackedFunc::FromBody(
        [function, last,
         spoil = spoil_](const PackedArgs& args) -> absl::StatusOr<Value> {
          NODEWISE_ASSIGN_OR_RETURN(Value result, function.CallPacked(args));
          NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(last));
          NODEWISE_ASSIGN_OR_RETURN(const DLTensor* const made, arg.AsTensor());
          spoil(*made);
          return result;
        });
  }

 private:
  const Ref<Library> sound_;
  const std::string word_;
  const Spoil spoil_;
};

// Multiplies the elements by a factor.
inline SpoiledLibrary::Spoil Times(float factor) {
  return [factor](const DLTensor& made) {
    int64_t count = 1;
    for (int i = 0; i < made.ndim; ++i) count *= made.shape[i];
    auto* const data = static_cast<float*>(made.data);
    for (int64_t i = 0; i < count; ++i) data[i] *= factor;
  };
}

}  // namespace nodewise
