// Handles as bindings such as TVM's Rust crate use them: they read the header
// in memory, count by themselves, and make objects of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "nodewise/func/c_api.h"
#include "nodewise/func/containers.h"
#include "nodewise/func/registry.h"
#include "tests/support/c_calls.h"
#include "tests/support/matchers.h"
#include "tests/support/tensors.h"
#include "tests/support/test_libraries.h"

namespace nodewise {
namespace {

using ::testing::HasSubstr;

// What a binding knows of an object.
struct Head {
  uint32_t type_index;
  int32_t count;
  void (*deleter)(Head* self);
};
struct Text {
  Head head;
  const char* data;
  uint64_t size;
};
struct Container {
  Head head;
  DLTensor tensor;
};

std::string KeyOf(const Head& head) {
  char* key = nullptr;
  EXPECT_EQ(TVMObjectTypeIndex2Key(head.type_index, &key), 0);
  std::string text = key;
  free(key);
  return text;
}

unsigned IndexOf(const char* key) {
  unsigned index = 0;
  EXPECT_EQ(TVMObjectTypeKey2Index(key, &index), 0);
  return index;
}

Head* HeadOf(void* handle) { return static_cast<Head*>(handle); }

TEST(ObjectMemoryTest, HandlesBeginWithTheirTypeCountAndDeleter) {
  const std::vector<std::pair<Ref<Object>, std::string>> objects = {
      {MakeRef<StringObject>("text"), "runtime.String"},
      {ArrayObject::Make({}), "Array"},
      {MapObject::Make({}), "Map"},
      {MakeRef<ShapeObject>(absl::Span<const int64_t>()), "runtime.ShapeTuple"},
      {MakeRef<AdtObject>(0, std::vector<Value>()), "runtime.ADT"},
      {FindFunction("runtime.NumThreads").object(), "runtime.PackedFunc"},
      {LoadTestLibrary("factory"), "runtime.Module"}};
  for (const auto& [object, key] : objects) {
    SCOPED_TRACE(key);
    const CValue value{.value = Value(object).View().value(), .code = 8};
    const Head* const head = HeadOf(value.value.v_handle);
    EXPECT_EQ(KeyOf(*head), key);
    EXPECT_GE(head->count, 1);
    EXPECT_NE(head->deleter, nullptr);
    unsigned index = 0;
    EXPECT_EQ(TVMObjectGetTypeIndex(value.value.v_handle, &index), 0);
    EXPECT_EQ(index, head->type_index);
  }
}

TEST(ObjectMemoryTest, FixedTypesHaveTvmsNumbersAndOthersNoneOfTvms) {
  EXPECT_EQ(IndexOf("runtime.Module"), 1u);
  EXPECT_EQ(IndexOf("runtime.NDArray"), 2u);
  EXPECT_EQ(IndexOf("runtime.String"), 3u);
  EXPECT_EQ(IndexOf("Array"), 4u);
  EXPECT_EQ(IndexOf("Map"), 5u);
  EXPECT_EQ(IndexOf("runtime.ShapeTuple"), 6u);
  EXPECT_EQ(IndexOf("runtime.PackedFunc"), 7u);
  EXPECT_GE(IndexOf("runtime.ADT"), 1000u);
  EXPECT_GE(IndexOf("runtime.profiling.Report"), 1000u);
}

// What `delete` does shows under the sanitizer, too.
TEST(ObjectMemoryTest, HolderThatCountsByItselfDeletesTheLast) {
  TVMFunctionHandle function = nullptr;
  static int finalized = 0;
  finalized = 0;
  ASSERT_EQ(
      TVMFuncCreateFromCFunc(
          [](TVMValue*, int*, int, TVMRetValueHandle, void*) { return 0; },
          nullptr, [](void*) { ++finalized; }, &function),
      0);
  Head* const head = HeadOf(function);
  EXPECT_EQ(head->count, 1);
  ASSERT_EQ(TVMObjectRetain(function), 0);
  EXPECT_EQ(head->count, 2);
  ++head->count;
  ASSERT_EQ(TVMObjectFree(function), 0);
  ASSERT_EQ(TVMFuncFree(function), 0);
  EXPECT_EQ(head->count, 1);
  EXPECT_EQ(finalized, 0);
  if (--head->count == 0) head->deleter(head);
  EXPECT_EQ(finalized, 1);
}

TEST(ObjectMemoryTest, ArrayLiesBehindItsHeader) {
  const int64_t shape[] = {4};
  TVMArrayHandle array = nullptr;
  ASSERT_EQ(TVMArrayAlloc(shape, 1, kDLFloat, 32, 1, kDLCPU, 0, &array), 0);
  auto* const container = reinterpret_cast<Container*>(
      reinterpret_cast<char*>(array) - offsetof(Container, tensor));
  EXPECT_EQ(KeyOf(container->head), "runtime.NDArray");
  EXPECT_EQ(container->head.count, 1);
  ++container->head.count;
  TVMArrayFree(array);
  EXPECT_EQ(container->tensor.shape[0], 4);
  if (--container->head.count == 0) container->head.deleter(&container->head);
}

// A string that the binding made.
struct OwnText : Text {
  explicit OwnText(std::string value) : text(std::move(value)) {
    head = {3, 1, [](Head* self) {
              ++deleted;
              delete reinterpret_cast<OwnText*>(self);
            }};
    data = text.data();
    size = text.size();
  }
  std::string text;
  static inline int deleted = 0;
};

TEST(ObjectMemoryTest, StringOfABindingIsTextHere) {
  OwnText::deleted = 0;
  auto* const text = new OwnText(std::string("a\0b", 3));
  const CValue made = CallGlobal("runtime.Array", {CHandle(text, 8)});
  EXPECT_EQ(text->head.count, 3);  // The array's two views hold it.
  const CValue item = CallGlobal("runtime.ArrayGetItem", {made, CInt(0)});
  EXPECT_EQ(item.value.v_handle, text);
  const CValue bytes = CallGlobal("runtime.String", {item});
  const auto* const copy = static_cast<Text*>(bytes.value.v_handle);
  EXPECT_EQ(std::string(copy->data, copy->size), text->text);
  for (const CValue& held : {made, item, bytes}) {
    TVMObjectFree(held.value.v_handle);
  }
  EXPECT_EQ(text->head.count, 1);
  TVMObjectFree(text);
  EXPECT_EQ(OwnText::deleted, 1);
}

// As test_ref_count_raw_fn of the crate has it.
TEST(ObjectMemoryTest, ObjectOfABindingPassesThroughFunctionsAsItself) {
  OwnText::deleted = 0;
  auto* const object = new OwnText("mine");
  object->head.type_index = 0;
  TVMFunctionHandle function = nullptr;
  const auto second = [](TVMValue* args, int* codes, int count,
                         TVMRetValueHandle ret, void*) {
    EXPECT_EQ(count, 2);
    EXPECT_EQ(HeadOf(args[0].v_handle)->count, 1);
    return TVMCFuncSetReturn(ret, &args[1], &codes[1], 1);
  };
  ASSERT_EQ(TVMFuncCreateFromCFunc(second, nullptr, nullptr, &function), 0);
  int rc = -1;
  const CValue result =
      CallC(function, {CHandle(object, 8), CHandle(object, 8)}, &rc);
  EXPECT_EQ(rc, 0);
  EXPECT_EQ(result.value.v_handle, object);
  EXPECT_EQ(result.code, kTVMObjectHandle);
  EXPECT_EQ(object->head.count, 2);
  TVMObjectFree(object);
  TVMObjectFree(object);
  EXPECT_EQ(OwnText::deleted, 1);
  TVMFuncFree(function);
}

TEST(ObjectMemoryTest, ArrayOfABindingIsSharedAndFreedByIt) {
  static int deleted = 0;
  deleted = 0;
  float data[] = {1, 2};
  int64_t shape[] = {2};
  Container container{{2, 1, [](Head*) { ++deleted; }}, {}};
  container.tensor.data = data;
  container.tensor.device = kCpu;
  container.tensor.ndim = 1;
  container.tensor.dtype = kFloat32;
  container.tensor.shape = shape;
  const CValue map =
      CallGlobal("runtime.Map", {CText("x"), CHandle(&container.tensor, 13)});
  EXPECT_GT(container.head.count, 1);
  const CValue found = CallGlobal("runtime.MapGetItem", {map, CText("x")});
  EXPECT_EQ(static_cast<DLTensor*>(found.value.v_handle)->data, data);
  TVMArrayFree(static_cast<TVMArrayHandle>(found.value.v_handle));
  TVMObjectFree(map.value.v_handle);
  EXPECT_EQ(container.head.count, 1);
  TVMArrayFree(&container.tensor);
  EXPECT_EQ(deleted, 1);
}

// A hash table of 32 slots, as maps of more than four pairs have. The slots
// without a pair hold what must not be read.
TEST(ObjectMemoryTest, HashTableOfCompiledCodeIsTakenApart) {
  struct Block {
    uint8_t marks[16];
    void* pairs[16][2];
  };
  struct {
    Head head;
    uint64_t slots, size;
    uint32_t shift;
    Block* blocks;
  } map{{5, 1, nullptr}, 31, 3, 0, nullptr};
  std::vector<Block> blocks(2);
  std::memset(blocks.data(), 0xff, 2 * sizeof(Block));
  blocks[1].marks[15] = 0xfe;
  map.blocks = blocks.data();
  std::vector<std::unique_ptr<OwnText>> texts;
  for (const int slot : {3, 16, 30}) {
    texts.push_back(std::make_unique<OwnText>("k" + std::to_string(slot)));
    blocks[slot / 16].marks[slot % 16] = slot == 16 ? 0x81 : 0x01;
    blocks[slot / 16].pairs[slot % 16][0] = texts.back().get();
    blocks[slot / 16].pairs[slot % 16][1] = nullptr;
  }
  const CValue value = CHandle(&map, 8);
  EXPECT_EQ(CallGlobal("runtime.MapSize", {value}).value.v_int64, 3);
  for (const char* key : {"k3", "k16", "k30"}) {
    EXPECT_EQ(CallGlobal("runtime.MapCount", {value, CText(key)}).value.v_int64,
              1);
  }
  EXPECT_EQ(map.head.count, 1);
}

TEST(ObjectMemoryTest, TypeOfAnObjectThatDoesNotFitIsNamed) {
  OwnText text("x");
  TVMFunctionHandle function = nullptr;
  ASSERT_EQ(TVMFuncGetGlobal("runtime.MapSize", &function), 0);
  int rc = 0;
  CallC(function, {CHandle(&text, 8)}, &rc);
  EXPECT_EQ(rc, -1);
  EXPECT_THAT(TVMGetLastError(),
              HasSubstr("object of type runtime.String, expected a map"));
  TVMFuncFree(function);
}

}  // namespace
}  // namespace nodewise
