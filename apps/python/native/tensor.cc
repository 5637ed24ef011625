#include "apps/python/native/tensor.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/python/native/raise.h"
#include "fmt/format.h"
#include "nodewise/ndarray/dtype.h"

namespace nodewise {
namespace {

namespace nb = nanobind;
using Array = nb::ndarray<nb::ro, nb::device::cpu>;

// DLPack has booleans of a byte since its first version; ours are older.
DLDataType FromPython(nb::dlpack::dtype type) {
  if (type.code == kDTypeBool && type.bits == 8) return kBool;
  return {type.code, type.bits, type.lanes};
}

nb::dlpack::dtype ToPython(DLDataType type) {
  if (type == kBool || type == kFfiBool) return {kDTypeBool, 8, 1};
  return {type.code, type.bits, type.lanes};
}

// Borrows the array's memory. `type` is the elements' type where the array has
// only bytes of that size, since numpy has no name for it.
NDArray FromArray(const Array& array, const std::optional<std::string>& type) {
  DLTensor tensor{};
  tensor.data = const_cast<void*>(array.data_handle());
  tensor.byte_offset = array.byte_offset();
  tensor.device = kCpu;
  tensor.ndim = static_cast<int32_t>(array.ndim());
  tensor.dtype = FromPython(array.dtype());
  if (type.has_value()) {
    const DLDataType stated = ValueOf(ParseDType(*type));
    if (ElementBytes(stated) != array.itemsize()) {
      Raise(absl::InvalidArgumentError(
          fmt::format("tensor: has elements of {} bytes, expected {} for {}",
                      array.itemsize(), ElementBytes(stated), *type)));
    }
    tensor.dtype = stated;
  }
  tensor.shape = const_cast<int64_t*>(array.shape_ptr());
  tensor.strides = const_cast<int64_t*>(array.stride_ptr());
  Check(CheckDType(tensor.dtype));
  Check(CheckDLTensor(tensor));
  // The last of the owners may be a run, which has given up the lock of Python;
  // nanobind takes it again.
  return NDArray::Borrow(tensor, std::make_shared<Array>(array));
}

// Hands the memory to Python, as long as `self` lives. `is_raw` gives elements
// as unsigned integers of their size, regardless of their type.
nb::object Lend(nb::handle self, bool is_raw) {
  const auto& array = nb::cast<const NDArray&>(self);
  if (array.device().device_type != kDLCPU) {
    Raise(
        absl::UnimplementedError("tensor: lies on another device, expected "
                                 "one in host memory (copy it)"));
  }
  const absl::Span<const int64_t> sides = array.shape();
  const std::vector<size_t> shape(sides.begin(), sides.end());
  nb::dlpack::dtype type = ToPython(array.dtype());
  if (is_raw) {
    const size_t bits = ElementBytes(array.dtype()) * 8;
    type = {kDLUInt, static_cast<uint8_t>(bits), 1};
  }
  const int64_t* const strides = array->strides;
  if (array.is_read_only()) {
    return nb::cast(nb::ndarray<nb::array_api, nb::ro>(
        array.data(), shape.size(), shape.data(), self, strides, type, kDLCPU));
  }
  return nb::cast(nb::ndarray<nb::array_api>(
      array.data(), shape.size(), shape.data(), self, strides, type, kDLCPU));
}

}  // namespace

void BindTensor(nb::module_& module) {
  nb::class_<NDArray>(module, "Tensor")
      .def_static(
          "of",
          [](const Array& array, const std::optional<std::string>& type) {
            return FromArray(array, type);
          },
          nb::arg("array").noconvert(), nb::arg("type").none() = nb::none())
      .def_prop_ro("shape",
                   [](const NDArray& array) {
                     return nb::tuple(nb::cast(std::vector<int64_t>(
                         array.shape().begin(), array.shape().end())));
                   })
      .def_prop_ro("dtype",
                   [](const NDArray& array) { return ToString(array.dtype()); })
      .def_prop_ro("nbytes", [](const NDArray& array) { return array.bytes(); })
      .def_prop_ro("is_read_only", &NDArray::is_read_only)
      .def_prop_ro("address",
                   [](const NDArray& array) {
                     return reinterpret_cast<uintptr_t>(array.data());
                   })
      .def("copy",
           [](const NDArray& array) {
             auto copy = [&] {
               nb::gil_scoped_release release;
               return array.CopyToHost();
             }();
             return ValueOf(std::move(copy));
           })
      .def("lend",
           [](nb::handle self, bool is_raw) { return Lend(self, is_raw); });
}

}  // namespace nodewise
