#include <algorithm>
#include <string_view>

#include "nodewise/func/containers.h"
#include "nodewise/graph/executor_module.h"
#include "nodewise/graph/params.h"
#include "nodewise/support/status.h"
#include "nodewise/support/thread_pool.h"
#include "runtime/builtin/builtin_functions.h"

namespace nodewise {
namespace {

absl::StatusOr<std::vector<NamedTensor>> TakeTensors(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const Ref<MapObject> map,
                            args.ObjectAt<MapObject>(0, "a map of arrays"));
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value] : map->items()) {
    const NDArray* array = value.Get<NDArray>();
    if (array == nullptr) {
      return InvalidArgument("parameter {}: is not an array", name);
    }
    tensors.push_back({name, *array});
  }
  return tensors;
}

Result SaveParams(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, TakeTensors(args));
  NODEWISE_ASSIGN_OR_RETURN(std::string bytes, SerializeParams(tensors));
  return Value(Value::Bytes{std::move(bytes)});
}

Result SaveParamsToFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const auto tensors, TakeTensors(args));
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(1));
  NODEWISE_RETURN_IF_ERROR(WriteParams(std::string(path), tensors));
  return Value();
}

// Copies the arrays, since the host must own them and needs them aligned.
Result ParamsMap(const Params& params) {
  MapObject::Items items;
  for (const NamedTensor& param : params.tensors) {
    NODEWISE_ASSIGN_OR_RETURN(NDArray copy, param.tensor.CopyToHost());
    items.emplace_back(param.name, std::move(copy));
  }
  return Value(MapObject::Make(std::move(items)));
}

Result LoadParams(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view bytes, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(
      const Params params,
      ParseParams(
          {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
          "params", nullptr));
  return ParamsMap(params);
}

Result LoadParamsFromFile(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const std::string_view path, args.TextAt(0));
  NODEWISE_ASSIGN_OR_RETURN(const Params params, OpenParams(std::string(path)));
  return ParamsMap(params);
}

// The number of the pool, whether or not its threads run yet.
Result GetNumThreads(PackedArgs) { return Value(NumThreads()); }

// runtime.config_threadpool(mode, threads, cores): we bind no thread to a core,
// so only the number has an effect.
Result ConfigThreadPool(PackedArgs args) {
  NODEWISE_ASSIGN_OR_RETURN(const int threads, args.SmallIntAt(1));
  SetNumThreads(threads);
  return Value();
}

#ifdef NODEWISE_USE_PROFILER
constexpr char kProfiler[] = "ON";
#else
constexpr char kProfiler[] = "OFF";
#endif

// TVM's names for parts of a build, which hosts check before they use them:
// those that are there, those that are not, and the versions of others that are
// not there either. Blanks separate them.
constexpr std::string_view kPartsThereAre =
    "USE_GRAPH_EXECUTOR USE_SORT USE_THREADS USE_RTTI";
constexpr std::string_view kPartsThereAreNot =
    "USE_AOT_EXECUTOR USE_ARM_COMPUTE_LIB USE_BLAS USE_BNNS USE_BYODT_POSIT "
    "USE_CLML USE_CMSISNN USE_COREML USE_CPP_RPC USE_CPP_RTVM USE_CUBLAS "
    "USE_CUDA USE_CUDNN USE_CURAND USE_CUTLASS USE_DNNL USE_ETHOSN USE_ETHOSU "
    "USE_FLASHINFER USE_GRAPH_EXECUTOR_CUDA_GRAPH USE_HEXAGON USE_HIPBLAS "
    "USE_IOS_RPC USE_LIBBACKTRACE USE_LIBTORCH USE_LLVM USE_METAL USE_MICRO "
    "USE_MIOPEN USE_MKL USE_MLIR USE_MRVL USE_MSC USE_NCCL USE_NNPACK "
    "USE_NVSHMEM USE_OPENCL USE_OPENMP USE_PAPI USE_PT_TVMDSOOP USE_RANDOM "
    "USE_RCCL USE_RELAY_DEBUG USE_ROCBLAS USE_ROCM USE_RPC "
    "USE_STACKVM_RUNTIME USE_TENSORRT_CODEGEN USE_TENSORRT_RUNTIME "
    "USE_TF_TVMDSOOP USE_TFLITE USE_THRUST USE_UMA USE_VERILATOR USE_VITIS_AI "
    "USE_VULKAN";
constexpr std::string_view kNotFound =
    "CUDA_VERSION GIT_COMMIT_HASH GIT_COMMIT_TIME LLVM_VERSION MLIR_VERSION "
    "ROCM_PATH";

Result GetLibInfo(PackedArgs) {
  MapObject::Items items;
  const auto set = [&](std::string_view keys, const char* value) {
    while (!keys.empty()) {
      const size_t end = std::min(keys.find(' '), keys.size());
      items.emplace_back(keys.substr(0, end), MakeRef<StringObject>(value));
      keys.remove_prefix(std::min(end + 1, keys.size()));
    }
  };
  set("USE_PROFILER", kProfiler);
  set(kPartsThereAre, "ON");
  set(kPartsThereAreNot, "OFF");
  set(kNotFound, "NOT-FOUND");
  // How TVM was configured when it compiled; this is what it does by default.
  set("INDEX_DEFAULT_I64", "ON");
  return Value(MapObject::Make(std::move(items)));
}

constexpr FunctionRow kRuntimeFunctions[] = {
    {"tvm.graph_executor.create", &CreateGraphExecutor},
    {"tvm.graph_runtime.create", &CreateGraphExecutor},
    {"runtime.SaveParams", &SaveParams},
    {"runtime.SaveParamsToFile", &SaveParamsToFile},
    {"runtime.LoadParams", &LoadParams},
    {"runtime.LoadParamsFromFile", &LoadParamsFromFile},
    {"tvm.relay._save_param_dict", &SaveParams},
    {"tvm.relay._load_param_dict", &LoadParams},
    {"runtime.NumThreads", &GetNumThreads},
    {"runtime.config_threadpool", &ConfigThreadPool},
    {"support.GetLibInfo", &GetLibInfo},
};

}  // namespace

absl::Span<const FunctionRow> RuntimeFunctions() { return kRuntimeFunctions; }

}  // namespace nodewise
