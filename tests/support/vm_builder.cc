#include "tests/support/vm_builder.h"

#include <algorithm>
#include <cstring>

#include "nodewise/ndarray/dtype.h"
#include "nodewise/support/check.h"

namespace nodewise {
namespace {

template <typename T>
std::string Raw(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

std::string Counted(const std::string& text) {
  return Raw<uint64_t>(text.size()) + text;
}

std::string Numbers(const std::vector<int64_t>& numbers) {
  std::string text = Raw<uint64_t>(numbers.size());
  for (const int64_t number : numbers) text += Raw(number);
  return text;
}

}  // namespace

int64_t VmBuilder::Word(int64_t kind, int64_t value) {
  const uint64_t low = static_cast<uint64_t>(value) << 8 >> 8;
  return static_cast<int64_t>(static_cast<uint64_t>(kind) << 56 | low);
}

int64_t VmBuilder::R(int64_t number) { return Word(0, number); }
int64_t VmBuilder::I(int64_t value) { return Word(1, value); }
int64_t VmBuilder::F(const std::string& name) { return Word(3, IndexOf(name)); }

int64_t VmBuilder::AddConstant(int32_t ffi_tag, int32_t classic_tag,
                               const std::string& payload) {
  const int32_t tag = era_ == VmEra::kFfi ? ffi_tag : classic_tag;
  const std::string bytes = nodewise::Raw(tag) + payload;
  auto place = std::find(constants_.begin(), constants_.end(), bytes);
  // Equal tensors remain two constants; TVM merges others.
  if (place == constants_.end() || ffi_tag == 70) {
    constants_.push_back(bytes);
    place = constants_.end() - 1;
  }
  return Word(2, place - constants_.begin());
}

int64_t VmBuilder::Tensor(const Dims& shape, DLDataType dtype,
                          const std::string& data) {
  std::string text =
      nodewise::Raw<uint64_t>(0xDD5E40F096B4A13F) + nodewise::Raw<uint64_t>(0) +
      nodewise::Raw<int32_t>(1) + nodewise::Raw<int32_t>(0) +
      nodewise::Raw(static_cast<int32_t>(shape.size())) + nodewise::Raw(dtype);
  for (const int64_t dim : shape) text += nodewise::Raw(dim);
  return AddConstant(70, 0, text + Counted(data));
}

int64_t VmBuilder::Floats(const std::vector<float>& values) {
  std::string data(values.size() * sizeof(float), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return Tensor({static_cast<int64_t>(values.size())}, kFloat32, data);
}

int64_t VmBuilder::Shape(const Dims& dims) {
  return AddConstant(69, 2, Numbers(dims));
}
int64_t VmBuilder::Text(const std::string& text) {
  return AddConstant(65, 3, Counted(text));
}
int64_t VmBuilder::Type(DLDataType dtype) {
  return AddConstant(5, 1, nodewise::Raw(dtype));
}
int64_t VmBuilder::Number(int64_t value) {
  return AddConstant(1, 4, nodewise::Raw(value));
}
int64_t VmBuilder::Real(double value) {
  return AddConstant(3, 5, nodewise::Raw(value));
}

int64_t VmBuilder::IndexOf(const std::string& function) {
  for (size_t i = 0; i < table_.size(); ++i) {
    if (table_[i].name == function) return static_cast<int64_t>(i);
  }
  Entry entry;
  entry.name = function;
  table_.push_back(entry);
  return static_cast<int64_t>(table_.size() - 1);
}

void VmBuilder::Close() {
  if (open_ == SIZE_MAX) return;
  table_[open_].end = static_cast<int64_t>(offsets_.size());
}

VmBuilder& VmBuilder::Function(const std::string& name,
                               const std::vector<std::string>& params) {
  open_ = static_cast<size_t>(IndexOf(name));
  Entry& entry = table_[open_];
  entry.kind = 1;
  entry.first = static_cast<int64_t>(offsets_.size());
  entry.end = entry.first;
  entry.num_args = static_cast<int64_t>(params.size());
  entry.num_registers = 64;
  entry.params = params;
  return *this;
}

VmBuilder& VmBuilder::Compiled(const std::string& name) {
  Entry& entry = table_[static_cast<size_t>(IndexOf(name))];
  entry.kind = 2;
  entry.num_args = 0;
  return *this;
}

VmBuilder& VmBuilder::Raw(const std::vector<int64_t>& words) {
  offsets_.push_back(static_cast<int64_t>(words_.size()));
  words_.insert(words_.end(), words.begin(), words.end());
  Close();
  return *this;
}

VmBuilder& VmBuilder::Call(const std::string& function,
                           const std::vector<int64_t>& args, int64_t result) {
  std::vector<int64_t> words = {1, result, IndexOf(function),
                                static_cast<int64_t>(args.size())};
  words.insert(words.end(), args.begin(), args.end());
  return Raw(words);
}

VmBuilder& VmBuilder::Return(int64_t number) { return Raw({2, number}); }
VmBuilder& VmBuilder::Goto(int64_t offset) { return Raw({3, offset}); }
VmBuilder& VmBuilder::If(int64_t number, int64_t offset) {
  return Raw({4, number, offset});
}

VmBuilder& VmBuilder::Input(int64_t number, const Dims& shape,
                            DLDataType dtype) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t where = Text("param");
  Call("vm.builtin.check_tensor_info",
       {R(number), I(rank), Type(dtype), where});
  std::vector<int64_t> args = {R(number), Void(), I(rank)};
  for (const int64_t dim : shape) {
    args.push_back(I(0));
    args.push_back(I(dim));
  }
  args.push_back(where);
  return Call("vm.builtin.match_shape", args);
}

VmBuilder& VmBuilder::Storage(int64_t number, int64_t bytes) {
  return Call("vm.builtin.alloc_storage",
              {Vm(), Shape({bytes}), I(0), Type({1, 8, 1}), Text("global")},
              number);
}

VmBuilder& VmBuilder::TensorIn(int64_t storage, int64_t number,
                               const Dims& shape, int64_t offset,
                               DLDataType dtype) {
  return Call("vm.builtin.alloc_tensor",
              {R(storage), I(offset), Shape(shape), Type(dtype)}, number);
}

VmBuilder& VmBuilder::Alloc(int64_t storage, int64_t number,
                            const Dims& shape) {
  int64_t bytes = 4;
  for (const int64_t dim : shape) bytes *= dim;
  return Storage(storage, bytes).TensorIn(storage, number, shape);
}

VmBuilder& VmBuilder::MemoryScope(int64_t constant, const std::string& scope) {
  scopes_.emplace_back(constant, scope);
  return *this;
}
VmBuilder& VmBuilder::Registers(int64_t count) {
  table_[open_].num_registers = count;
  return *this;
}
VmBuilder& VmBuilder::Args(int64_t count) {
  table_[open_].num_args = count;
  return *this;
}
VmBuilder& VmBuilder::Range(int64_t first, int64_t end) {
  table_[open_].first = first;
  table_[open_].end = end;
  return *this;
}
VmBuilder& VmBuilder::WithoutScopes() {
  has_scopes_ = false;
  return *this;
}

std::string VmBuilder::Bytes() const {
  const bool scopes = has_scopes_ && era_ == VmEra::kFfi;
  std::string text =
      nodewise::Raw<uint64_t>(0xD225DE2F4214151D + (scopes ? 1 : 0)) +
      Counted("0.14") + nodewise::Raw<uint64_t>(table_.size());
  for (const Entry& entry : table_) {
    text += nodewise::Raw(entry.kind) + Counted(entry.name) +
            nodewise::Raw(entry.first) + nodewise::Raw(entry.end) +
            nodewise::Raw(entry.num_args) + nodewise::Raw(entry.num_registers) +
            nodewise::Raw<uint64_t>(entry.params.size());
    for (const std::string& name : entry.params) text += Counted(name);
  }
  if (scopes) {
    text += nodewise::Raw<uint64_t>(scopes_.size());
    for (const auto& [constant, scope] : scopes_) {
      text += nodewise::Raw(constant) + Counted(scope);
    }
  }
  text += nodewise::Raw<uint64_t>(constants_.size());
  for (const std::string& constant : constants_) text += constant;
  return text + Numbers(offsets_) + Numbers(words_);
}

std::string VmBuilder::LibraryBin() const {
  const std::string body = Numbers({0, 1, 1}) + Numbers({1}) +
                           Counted("relax.VMExecutable") + Counted(Bytes()) +
                           Counted("_lib");
  return Counted(body);
}

std::unique_ptr<VmLibrary> VmLibraryOf(const std::string& bytes,
                                       std::vector<std::string> kernels,
                                       VmEra era) {
  auto library = std::make_unique<VmLibrary>();
  library->path = "vm.so";
  auto executable = ParseVmExecutable(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "vm.so",
      0, era);
  NODEWISE_CHECK(executable.ok());
  library->executable = *std::move(executable);
  library->kernels = std::move(kernels);
  std::sort(library->kernels.begin(), library->kernels.end());
  return library;
}

VmBuilder ReluThenAdd() {
  VmBuilder vm;
  vm.Function("main", {"x"}).Input(0, {4}).Alloc(1, 2, {4});
  vm.Call("relu", {VmBuilder::R(0), VmBuilder::R(2)}).Alloc(3, 4, {4});
  const int64_t bias = vm.Floats({10, 20, 30, 40});
  vm.Call("add", {VmBuilder::R(2), bias, VmBuilder::R(4)}).Return(4);
  return vm;
}

}  // namespace nodewise
