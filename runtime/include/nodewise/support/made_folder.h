#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nodewise {

// A folder whose files belong together: unless Keep() is called, what has come
// into it since is removed again, and the folder, too, if it was made here.
// What lay there before stays. Move-only.
class MadeFolder {
 public:
  // Makes the folder if there is none; its parent must exist. Fails with what
  // the system says if it cannot be made or listed.
  static absl::StatusOr<MadeFolder> Make(const std::string& path);

  MadeFolder(MadeFolder&& other) noexcept;
  MadeFolder& operator=(MadeFolder&&) = delete;
  ~MadeFolder();

  void Keep() { path_.clear(); }

 private:
  MadeFolder() = default;

  std::string path_;  // Empty: nothing is to be removed.
  bool is_new_ = false;
  std::vector<std::string> before_;  // The names in it, in order.
};

}  // namespace nodewise
