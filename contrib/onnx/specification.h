#pragma once

#include "contrib/onnx/onnx_types.h"

namespace nodewise {

struct ImportState;

// Adds an error for everything in the model that is against ONNX's
// specification although it can be imported: attributes that an operator does
// not have in its opset, fields that are missing or there twice, numbers of
// inputs. A part that has an error already gets no second one.
void CheckSpecification(const proto::Model& model, ImportState* state);

// Whether ONNX defines all operators of the model, or the model does.
bool HasOnlyDefinedOperators(const proto::Model& model);

}  // namespace nodewise
