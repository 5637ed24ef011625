# What `./dev measure` does; read by `dev`.

verb_measure() {
  local limit=() status=0
  case "${1-}" in
    "") ;;
    --time)
      [[ ${2-} =~ ^[0-9]+$ ]] || fail "measure: --time needs a number"
      limit=(--time "$2")
      ;;
    --constants)
      [[ ${2-} == align ]] || fail "measure: --constants needs align"
      measure_align_constants
      return
      ;;
    *) fail "measure: unknown argument '$1'" ;;
  esac
  mkdir -p build
  # A ratio above its limit does not keep the rest from being measured. As a
  # command of its own it stops at its first error all the same.
  {
    when_and_where
    ./dev bench --check
  } | tee build/measure.txt || status=$?
  measure_repros "${limit[@]}" | tee build/measure_repros.txt || status=$?
  measure_align | tee build/measure_align.txt || status=$?
  measure_layers | tee build/measure_layers.txt || status=$?
  measure_disagreements | tee build/measure_disagreements.txt || status=$?
  measure_gradients | tee build/measure_gradients.txt || status=$?
  measure_autotest | tee build/measure_autotest.txt || status=$?
  measure_mutants | tee build/measure_mutants.txt || status=$?
  measure_hostile | tee build/measure_hostile.txt || status=$?
  measure_locate "${limit[@]}" | tee build/measure_locate.txt
  return "$status"
}

# Writes culprits as folders, moves them and runs their commands. That takes a
# minute, so it comes before what takes hours.
measure_repros() {
  local commit status=0
  need_build
  need_onnx
  build_preset test nodewise
  mkdir -p build/measure
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  when_and_where
  NODEWISE_BUILD=build python3 tests/measure/repro_measure.py --cases 50 \
    --seed 1 --results "build/measure/repros_$commit.jsonl" "$@" || status=$?
  # Out of time: the next time goes on.
  ((status == 3)) || return "$status"
}

# Has today's TVM compile models with faults of a new seed, and looks for them
# beside the sound model; and real models, which must be known again.
measure_align() {
  local status=0
  need_build
  need_tvm
  build_preset test nodewise
  if [[ ! -e build/tvm_venv/is_complete ]]; then
    say skipped "faults that TVM compiles: TVM is not installed"
    return
  fi
  when_and_where
  NODEWISE_BUILD=build python3 tests/tvm/judge_faulty_models.py --faults 20 ||
    status=$?
  NODEWISE_BUILD=build python3 tests/tvm/align_light_models.py || status=$?
  return "$status"
}

# Halves and doubles each number that align was tuned with.
measure_align_constants() {
  need_build
  need_tvm
  if [[ ! -e build/tvm_venv/is_complete ]]; then
    fail "measure: --constants needs TVM, which could not be installed"
  fi
  {
    when_and_where
    python3 tests/tvm/measure_align_constants.py
  } | tee build/measure_constants.txt
}

# Quantises real models one layer at a time, and compares the order.
measure_layers() {
  local status=0
  need_build
  build_preset test nodewise
  if ! build/venv/bin/python -c "import onnxruntime.quantization" 2>/dev/null ||
    [[ ! -e build/bench_models/magika.onnx ]]; then
    say skipped "ranks of layers: no onnxruntime, or no models of ./dev bench"
    return
  fi
  when_and_where
  build/venv/bin/python tests/measure/layer_ranking.py || status=$?
  return "$status"
}

# Real disagreements between runtimes, converters and hosts, each with a truth
# that was found without us; then pairs that agree, in which no operation may be accused.
measure_disagreements() {
  local status=0
  need_build
  need_disagreements
  build_preset test nodewise
  if [[ ! -e build/disagreements_venv/is_complete ]]; then
    say skipped "real disagreements: the runtimes are not installed"
    return
  fi
  when_and_where
  build/disagreements_venv/bin/python tests/measure/disagreements.py all ||
    status=$?
  build/disagreements_venv/bin/python tests/measure/disagreements.py --sound ||
    status=$?
  return "$status"
}

# Compares gradients of drawn operators with those of Debian's PyTorch.
measure_gradients() {
  local status=0
  need_build
  build_preset test nodewise_gradient_cases
  when_and_where
  build/bin/nodewise_gradient_cases 40 |
    /usr/bin/python3 tests/measure/torch_gradients.py || status=$?
  # Skipped where there is no torch.
  ((status == 77)) || return "$status"
}

# A million random sets of numbers for our own kernels, by a new seed.
measure_autotest() {
  local candidate runs status=0 seed
  need_build
  build_preset test nodewise
  seed=$((RANDOM * 32768 + RANDOM))
  when_and_where
  for candidate in graph:400000 onednn:400000 c:200000; do
    runs=${candidate#*:}
    build/bin/nodewise autotest --candidate "${candidate%:*}" --seed "$seed" \
      --runs "$runs" || status=$?
  done
  return "$status"
}

# Spoiled files and options by a new seed; then every call to the C library
# failing once, and little memory.
measure_hostile() {
  local status=0
  need_build
  build_preset test nodewise network-debugger
  when_and_where
  NODEWISE_BUILD="$PWD/build" python3 tests/measure/hostile_commands.py || status=$?
  NODEWISE_BUILD="$PWD/build" NODEWISE_TEST_FULL=1 \
    python3 tests/apps/failing_calls_test.py 2>&1 || status=$?
  return "$status"
}

# How many faults and clean runs there are is what docs/measured.md speaks of.
measure_locate() {
  local models=build/measure/models python=() commit
  need_build
  need_onnx
  build_preset test nodewise_measure_locate
  if [[ -e build/venv/is_complete ]]; then
    build/venv/bin/python tests/measure/make_models.py "$models" 1 2 3
    python=(--python "$PWD/build/venv/bin/python")
  fi
  # Results of another state of the sources say nothing about this one.
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  when_and_where
  build/bin/nodewise_measure_locate --faults 1300 --clean 10000 \
    --models "$models" "${python[@]}" --jobs "$(nproc)" \
    --results "build/measure/results_$commit.jsonl" "$@"
}

# Breaks every promise that has a mutant, and prints what no test notices.
measure_mutants() {
  need_build
  need_onnx
  build_preset test
  when_and_where
  "$PYTHON" tests/run_tests.py --suite=mutants
}
