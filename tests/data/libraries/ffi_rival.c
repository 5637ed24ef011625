/* What of TVM's own runtime may be in a process beside ours: it takes the
 * errors that compiled code raises, and gives them out as objects. */
#include <stdio.h>
#include <stdlib.h>

#include "nodewise/func/ffi_abi.h"

typedef struct {
  TVMFFIObject head;
  TVMFFIErrorCell cell;
  char kind[64];
  char message[256];
} ErrorObject;

static ErrorObject* raised = NULL;
static int num_alive = 0;

static void Delete(void* self, int flags) {
  if ((flags & 1) != 0) --num_alive;
  if ((flags & 2) != 0) free(self);
}

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  if (raised != NULL) Delete(raised, 3);
  raised = calloc(1, sizeof *raised);
  ++num_alive;
  raised->head = (TVMFFIObject){(1ull << 32) + 1, kTVMFFIError, 0, &Delete};
  const int kind_size = snprintf(raised->kind, sizeof raised->kind, "%s", kind);
  const int message_size =
      snprintf(raised->message, sizeof raised->message, "%s", message);
  raised->cell.kind = (TVMFFIByteArray){raised->kind, kind_size};
  raised->cell.message = (TVMFFIByteArray){raised->message, message_size};
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts,
                                       int32_t num_parts) {
  char message[200];
  size_t size = 0;
  message[0] = 0;
  for (int32_t i = 0; i < num_parts; ++i) {
    if (parts[i] == NULL || size >= sizeof message) continue;
    size += snprintf(message + size, sizeof message - size, "%s", parts[i]);
  }
  TVMFFIErrorSetRaisedFromCStr(kind, message);
}

void TVMFFIErrorMoveFromRaised(void** out) {
  *out = raised;
  raised = NULL;
}

int rival_has_error(void) { return raised != NULL; }
int rival_errors_alive(void) { return num_alive; }
