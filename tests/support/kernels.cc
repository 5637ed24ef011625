#include "tests/support/kernels.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/ndarray/short_float.h"
#include "nodewise/support/check.h"
#include "nodewise/support/status.h"

namespace nodewise {
namespace {

using Tensors = std::vector<const DLTensor*>;
using Kernel = std::function<absl::Status(const Tensors&)>;

// Calls `visit` with a value of the C type that the elements have in memory.
template <typename Visit>
void WithStorageType(DLDataType dtype, Visit visit) {
  const bool is_signed = dtype.code == kDLInt;
  switch (ElementBytes(dtype)) {
    case 1:
      return is_signed ? visit(int8_t{}) : visit(uint8_t{});
    case 2:
      return is_signed ? visit(int16_t{}) : visit(uint16_t{});
    case 4:
      if (dtype.code == kDLFloat) return visit(float{});
      return is_signed ? visit(int32_t{}) : visit(uint32_t{});
    case 8:
      if (dtype.code == kDLFloat) return visit(double{});
      return is_signed ? visit(int64_t{}) : visit(uint64_t{});
    default:
      NODEWISE_CHECK(!"a type that the test kernels know");
  }
}

bool IsHalf(DLDataType dtype) {
  return dtype.code == kDLFloat && dtype.bits == 16;
}

int64_t Count(const DLTensor& tensor) {
  return NumElements(ShapeOf(tensor)).value();
}

absl::StatusOr<Tensors> TensorsOf(PackedArgs args) {
  Tensors tensors;
  for (int i = 0; i < args.size(); ++i) {
    NODEWISE_ASSIGN_OR_RETURN(const ArgView arg, args.At(i));
    NODEWISE_ASSIGN_OR_RETURN(const DLTensor* tensor, arg.AsTensor());
    tensors.push_back(tensor);
  }
  return tensors;
}

PackedFunc FromKernel(Kernel kernel) {
  return PackedFunc::FromBody(
      [kernel = std::move(kernel)](PackedArgs args) -> absl::StatusOr<Value> {
        NODEWISE_ASSIGN_OR_RETURN(const Tensors tensors, TensorsOf(args));
        NODEWISE_RETURN_IF_ERROR(kernel(tensors));
        return Value();
      });
}

BuiltInKernel Named(std::string name, Kernel kernel) {
  return {std::move(name),
          [kernel](const KernelRequest&) { return FromKernel(kernel); }};
}

// Stores f(element of every input) in each element of the last tensor.
template <typename F>
Kernel Map(F f) {
  return [f](const Tensors& tensors) {
    const DLTensor& out = *tensors.back();
    for (int64_t i = 0; i < Count(out); ++i) {
      StoreElement(out, i, f(tensors, i));
    }
    return absl::OkStatus();
  };
}

absl::Status Split(const Tensors& tensors) {
  int64_t next = 0;
  for (size_t t = 1; t < tensors.size(); ++t) {
    for (int64_t i = 0; i < Count(*tensors[t]); ++i) {
      StoreElement(*tensors[t], i, LoadElement(*tensors[0], next++));
    }
  }
  return absl::OkStatus();
}

double DimensionOf(const Tensors& tensors, int64_t i) {
  return i < tensors[0]->ndim ? static_cast<double>(tensors[0]->shape[i]) : 0;
}

absl::StatusOr<PackedFunc> MakeFill(const KernelRequest& request) {
  for (const auto& [key, text] : request.attrs) {
    if (key != "value") continue;
    const double value = std::stod(text);
    return FromKernel(Map([value](const Tensors&, int64_t) { return value; }));
  }
  return absl::InvalidArgumentError("fill: no attribute value");
}

BuiltInKernel Counter() {
  const auto calls = std::make_shared<double>(0);
  return Named("count", [calls](const Tensors& tensors) {
    StoreElement(*tensors.back(), 0, ++*calls);
    return absl::OkStatus();
  });
}

}  // namespace

double LoadElement(const DLTensor& tensor, int64_t index) {
  double value = 0;
  WithStorageType(tensor.dtype, [&](auto element) {
    using T = decltype(element);
    std::memcpy(&element, static_cast<const T*>(DataOf(tensor)) + index,
                sizeof(T));
    value = static_cast<double>(element);
  });
  if (IsHalf(tensor.dtype)) return HalfToFloat(static_cast<uint16_t>(value));
  if (tensor.dtype.code == kDLBfloat) {
    return BfloatToFloat(static_cast<uint16_t>(value));
  }
  return value;
}

void StoreElement(const DLTensor& tensor, int64_t index, double value) {
  if (IsHalf(tensor.dtype)) value = DoubleToHalf(value);
  if (tensor.dtype.code == kDLBfloat) {
    value = FloatToBfloat(static_cast<float>(value));
  }
  WithStorageType(tensor.dtype, [&](auto element) {
    using T = decltype(element);
    element = static_cast<T>(value);
    std::memcpy(static_cast<T*>(DataOf(tensor)) + index, &element, sizeof(T));
  });
}

Ref<Library> TestKernels() {
  const auto load = [](const Tensors& tensors, size_t which, int64_t i) {
    return LoadElement(*tensors[which], i);
  };
  return BuiltInLibrary({
      Named("copy",
            Map([load](const Tensors& t, int64_t i) { return load(t, 0, i); })),
      Named("relu", Map([load](const Tensors& t, int64_t i) {
              return std::max(load(t, 0, i), 0.0);
            })),
      Named("add", Map([load](const Tensors& t, int64_t i) {
              return load(t, 0, i) + load(t, 1, i);
            })),
      Named("inc", Map([load](const Tensors& t, int64_t i) {
              return load(t, 0, i) + 1;
            })),
      Named("shape", Map(DimensionOf)),
      Named("split", Split),
      Counter(),
      {"fill", MakeFill},
      Named("fail",
            [](const Tensors&) {
              return absl::InternalError("this kernel always fails");
            }),
      Named("throw",
            [](const Tensors&) -> absl::Status {
              throw std::runtime_error("this kernel throws");
            }),
      {"refuse",
       [](const KernelRequest&) -> absl::StatusOr<PackedFunc> {
         return absl::UnimplementedError("no kernel for that");
       }},
  });
}

}  // namespace nodewise
