#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nodewise/vm/vm_library.h"

namespace nodewise {

// Writes the bytes of a Relax VM executable in their format, valid or not:
//
//   VmBuilder vm;
//   vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
//   vm.Call("relu", {vm.R(0), vm.R(2)}).Return(2);
//
// Constants and functions of the table are added as they are named.
class VmBuilder {
 public:
  using Dims = std::vector<int64_t>;

  explicit VmBuilder(VmEra era = VmEra::kFfi) : era_(era) {}

  // Constants; each gives the word that means it as an argument.
  int64_t Floats(const std::vector<float>& values);
  int64_t Tensor(const Dims& shape, DLDataType dtype, const std::string& data);
  int64_t Shape(const Dims& dims);
  int64_t Text(const std::string& text);
  int64_t Type(DLDataType dtype);
  int64_t Number(int64_t value);
  int64_t Real(double value);
  // Other arguments: a register, an immediate, a function of the table.
  static int64_t R(int64_t number);
  static int64_t I(int64_t value);
  int64_t F(const std::string& name);
  static int64_t Void() { return R(kVmVoidRegister); }
  static int64_t Vm() { return R(kVmContextRegister); }
  // A word of any kind.
  static int64_t Word(int64_t kind, int64_t value);

  // Ends the function before it and begins another.
  VmBuilder& Function(const std::string& name,
                      const std::vector<std::string>& params = {});
  VmBuilder& Compiled(const std::string& name);
  VmBuilder& Call(const std::string& function, const std::vector<int64_t>& args,
                  int64_t result = kVmVoidRegister);
  VmBuilder& Return(int64_t number);
  VmBuilder& Goto(int64_t offset);
  VmBuilder& If(int64_t number, int64_t offset);
  VmBuilder& Raw(const std::vector<int64_t>& words);

  // What TVM writes at the front of a function for a float32 parameter.
  VmBuilder& Input(int64_t number, const Dims& shape,
                   DLDataType dtype = {2, 32, 1});
  VmBuilder& Storage(int64_t number, int64_t bytes);
  VmBuilder& TensorIn(int64_t storage, int64_t number, const Dims& shape,
                      int64_t offset = 0, DLDataType dtype = {2, 32, 1});
  // A storage and a tensor that fills it.
  VmBuilder& Alloc(int64_t storage, int64_t number, const Dims& shape);

  VmBuilder& MemoryScope(int64_t constant, const std::string& scope);
  // Override numbers of the last function.
  VmBuilder& Registers(int64_t count);
  VmBuilder& Args(int64_t count);
  VmBuilder& Range(int64_t first, int64_t end);
  VmBuilder& WithoutScopes();

  // The executable's bytes.
  std::string Bytes() const;
  // __tvm_ffi__library_bin with it as the root and `_lib` as its import.
  std::string LibraryBin() const;

 private:
  struct Entry {
    int32_t kind = 0;
    std::string name;
    int64_t first = 0;
    int64_t end = 0;
    int64_t num_args = -2;
    int64_t num_registers = 0;
    std::vector<std::string> params;
  };

  int64_t AddConstant(int32_t ffi_tag, int32_t classic_tag,
                      const std::string& payload);
  int64_t IndexOf(const std::string& function);
  void Close();

  VmEra era_;
  bool has_scopes_ = true;
  std::vector<Entry> table_;
  std::vector<std::string> constants_;
  std::vector<std::pair<int64_t, std::string>> scopes_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> words_;
  size_t open_ = SIZE_MAX;
};

// A library of these bytes whose code has these kernels. `bytes` must outlive
// it. Ends the test if they cannot be read.
std::unique_ptr<VmLibrary> VmLibraryOf(const std::string& bytes,
                                       std::vector<std::string> kernels,
                                       VmEra era = VmEra::kFfi);

// x of float32 (4,) through relu, then added to a constant.
VmBuilder ReluThenAdd();

}  // namespace nodewise
