/* Parallel loops of the LLVM target. */
#include "kernels.h"
#include "llvm_shape.h"

USES_PARALLEL;
USES_SET_LAST_ERROR;

typedef struct {
  const float* in;
  float* out;
  int64_t count;
} Job;

/* The range of a task, split as generated code splits it. */
static int64_t Begin(int64_t count, int task, int num_task) {
  const int64_t step = (count + num_task - 1) / num_task;
  return task * step < count ? task * step : count;
}

static int SquareTask(int task, TVMParallelGroupEnv* env, void* cdata) {
  const Job* job = cdata;
  const int64_t end = Begin(job->count, task + 1, env->num_task);
  for (int64_t i = Begin(job->count, task, env->num_task); i < end; ++i) {
    job->out[i] = job->in[i] * job->in[i];
  }
  return 0;
}

int square(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  Job job = {FloatsAt(args, 0), FloatsAt(args, 1), CountAt(args, 0)};
  return __TVMBackendParallelLaunch(&SquareTask, &job, 0);
}

/* Squares, waits for all the others, then adds what its right neighbour made
 * before the barrier. */
static int NeighbourTask(int task, TVMParallelGroupEnv* env, void* cdata) {
  const Job* job = cdata;
  job->out[task] = job->in[task] * job->in[task];
  if (__TVMBackendParallelBarrier(task, env) != 0) return -1;
  const float neighbour = job->out[(task + 1) % env->num_task];
  if (__TVMBackendParallelBarrier(task, env) != 0) return -1;
  job->out[task] += neighbour;
  return 0;
}

int add_neighbours_square(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  Job job = {FloatsAt(args, 0), FloatsAt(args, 1), CountAt(args, 0)};
  return __TVMBackendParallelLaunch(&NeighbourTask, &job, (int)job.count);
}

static int FailingTask(int task, TVMParallelGroupEnv* env, void* cdata) {
  (void)env;
  (void)cdata;
  if (task != 1) return 0;
  __TVMAPISetLastError("Assert fail: task one is out of luck");
  return -1;
}

int fails_in_task_one(PACKED_PARAMETERS) {
  UNUSED_PARAMETERS;
  return __TVMBackendParallelLaunch(&FailingTask, NULL, 4);
}
