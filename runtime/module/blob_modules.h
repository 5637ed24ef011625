#pragma once

#include "nodewise/module/module.h"
#include "runtime/module/module_blob.h"
#include "runtime/module/symbols.h"

namespace nodewise {

// Makes the module that an item of a library's blob stands for. It borrows the
// library's memory and keeps the library loaded.
Ref<Module> MakeBlobModule(const BlobItem& item, const Ref<Symbols>& symbols);

}  // namespace nodewise
