#include "nodewise/support/ref.h"

namespace nodewise {

void DeleteObject(ObjectHeader* header) { delete RefCounted::OfHeader(header); }

}  // namespace nodewise
