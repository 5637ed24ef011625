#ifndef NODEWISE_RUNTIME_C_API_H_
#define NODEWISE_RUNTIME_C_API_H_

/*
 * TVM's C API, TVM 0.8 to 0.19, as libnodewise_runtime.so exports it. A host
 * program written against TVM's own header needs no change and may go on using
 * that header; docs/c_api.md says what each function does here and where it
 * differs.
 *
 * Every function that returns int returns 0, or -1 after which TVMGetLastError
 * tells why. Handles own one count; the matching *Free gives it back.
 */

#include "nodewise/func/packed_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors of the calling thread. */
void TVMAPISetLastError(const char* message);
const char* TVMGetLastError(void);
/* TVM 0.14 and later keep Python exceptions here; we keep what we are given. */
void TVMAPISetLastPythonError(void* error);
void* TVMGetLastPythonError(void);
const char* TVMGetLastBacktrace(void);
void TVMDropLastPythonError(void);
void TVMThrowLastError(void); /* does nothing: no exception crosses C */

/* Modules. A missing function is NULL and no error. */
int TVMModLoadFromFile(const char* file_name, const char* format,
                       TVMModuleHandle* out);
int TVMModImport(TVMModuleHandle module, TVMModuleHandle dependency);
int TVMModGetFunction(TVMModuleHandle module, const char* name,
                      int query_imports, TVMFunctionHandle* out);
int TVMModFree(TVMModuleHandle module);

/* Functions. */
int TVMFuncFree(TVMFunctionHandle function);
int TVMFuncCall(TVMFunctionHandle function, TVMValue* args, int* type_codes,
                int num_args, TVMValue* ret, int* ret_code);
int TVMCFuncSetReturn(TVMRetValueHandle ret, TVMValue* value, int* type_code,
                      int num_ret);
int TVMCbArgToReturn(TVMValue* value, int* code);
int TVMFuncCreateFromCFunc(TVMPackedCFunc function, void* resource_handle,
                           TVMPackedCFuncFinalizer finalizer,
                           TVMFunctionHandle* out);
int TVMFuncRegisterGlobal(const char* name, TVMFunctionHandle function,
                          int override_existing);
int TVMFuncGetGlobal(const char* name, TVMFunctionHandle* out);
int TVMFuncListGlobalNames(int* out_size, const char*** out_array);
int TVMFuncRemoveGlobal(const char* name);

/* Arrays. */
int TVMArrayAlloc(const int64_t* shape, int ndim, int dtype_code,
                  int dtype_bits, int dtype_lanes, int device_type,
                  int device_id, TVMArrayHandle* out);
int TVMArrayFree(TVMArrayHandle handle);
int TVMArrayCopyFromBytes(TVMArrayHandle handle, void* data, size_t nbytes);
int TVMArrayCopyToBytes(TVMArrayHandle handle, void* data, size_t nbytes);
int TVMArrayCopyFromTo(TVMArrayHandle from, TVMArrayHandle to,
                       TVMStreamHandle stream);
int TVMArrayFromDLPack(DLManagedTensor* from, TVMArrayHandle* out);
int TVMArrayToDLPack(TVMArrayHandle from, DLManagedTensor** out);
void TVMDLManagedTensorCallDeleter(DLManagedTensor* managed);
int TVMArrayGetTypeIndex(TVMArrayHandle handle, unsigned* out_index);

/* Devices. */
int TVMDeviceAllocDataSpace(DLDevice device, size_t nbytes, size_t alignment,
                            DLDataType type_hint, void** out);
int TVMDeviceAllocDataSpaceWithScope(DLDevice device, int ndim,
                                     const int64_t* shape, DLDataType dtype,
                                     const char* mem_scope, void** out);
int TVMDeviceFreeDataSpace(DLDevice device, void* data);
int TVMDeviceCopyDataFromTo(DLTensor* from, DLTensor* to,
                            TVMStreamHandle stream);
int TVMStreamCreate(int device_type, int device_id, TVMStreamHandle* out);
int TVMStreamFree(int device_type, int device_id, TVMStreamHandle stream);
int TVMSetStream(int device_type, int device_id, TVMStreamHandle handle);
int TVMSynchronize(int device_type, int device_id, TVMStreamHandle stream);
int TVMStreamStreamSynchronize(int device_type, int device_id,
                               TVMStreamHandle from, TVMStreamHandle to);

/* Objects. */
int TVMObjectGetTypeIndex(TVMObjectHandle object, unsigned* out_index);
int TVMObjectTypeKey2Index(const char* type_key, unsigned* out_index);
int TVMObjectTypeIndex2Key(unsigned index, char** out_type_key);
int TVMObjectRetain(TVMObjectHandle object);
int TVMObjectFree(TVMObjectHandle object);
int TVMObjectDerivedFrom(uint32_t child, uint32_t parent, int* is_derived);
int TVMByteArrayFree(TVMByteArray* array);
int TVMExtTypeFree(void* handle, int type_code); /* TVM 0.6 */

/* Called by compiled code. */
int TVMBackendGetFuncFromEnv(void* module_context, const char* name,
                             TVMFunctionHandle* out);
int TVMBackendRegisterSystemLibSymbol(const char* name, void* address);
int TVMBackendRegisterEnvCAPI(const char* name, void* address);
void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                               int dtype_code_hint, int dtype_bits_hint);
int TVMBackendFreeWorkspace(int device_type, int device_id, void* data);
int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* cdata,
                             int num_task);
int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv* env);
int TVMBackendRunOnce(void** handle, int (*function)(void*), void* cdata,
                      int nbytes);

#ifdef __cplusplus
}
#endif

#endif /* NODEWISE_RUNTIME_C_API_H_ */
