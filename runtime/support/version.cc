#include "nodewise/support/version.h"

namespace nodewise {

std::string_view Version() { return NODEWISE_VERSION; }

}  // namespace nodewise
