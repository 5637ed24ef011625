#include "nodewise/support/ref.h"

namespace nodewise {

// Not inline: its address tells our objects from those of others, and must be
// one in the whole process.
void DeleteObject(ObjectHeader* header) {
  delete RefCounted::FromHeader(header);
}

}  // namespace nodewise
