#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds up the bytes as words of 64 bits, those at the end that fill none left
 * out: the least that a pass over them can do. */
uint64_t NodewiseReadPass(const void* data, size_t size);

#ifdef __cplusplus
}
#endif
