"""What adapters share that convert an ONNX model before they run it: its sizes
and types, and a folder in which what was made of a model is kept.
"""

import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import time

# nodewise asks for one and the same model several times, and people ask again.
MOST_KEPT = 16
PART = "part_"
# No conversion takes longer.
LONGEST_S = 3600


def folder_kept(kind, parts, make):
    """A folder that `make(folder)` has filled, now or in an earlier run that
    had the same parts. Parts are texts and paths, of which the bytes count."""
    place = _place()
    key = hashlib.sha256(kind.encode())
    for part in parts:
        _add(key, part)
    made = place / f"{kind}_{key.hexdigest()[:32]}"
    if not made.is_dir():
        _forget_oldest(place)
        # Half a folder must never be taken for a whole one.
        fresh = pathlib.Path(tempfile.mkdtemp(prefix=PART, dir=place))
        try:
            make(fresh)
            fresh.rename(made)
        except OSError:
            # Another process was faster; else the error is ours.
            if not made.is_dir():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(made)
    return made


def _place():
    """What lies there is loaded as code, so only its owner may write there."""
    place = pathlib.Path(tempfile.gettempdir()) / f"nodewise_made_{os.getuid()}"
    place.mkdir(mode=0o700, exist_ok=True)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or \
            found.st_mode & 0o077:
        raise PermissionError(
            f"{place}: others can write there, expected a folder of this user "
            "alone (remove it, or set TMPDIR)")
    return place


def _add(key, part):
    if isinstance(part, pathlib.Path):
        with open(part, "rb") as file:
            part = hashlib.file_digest(file, "sha256").hexdigest()
    # With its length, so that no two lists of parts read alike.
    key.update(f"{len(part)}:{part}".encode())


def _forget_oldest(place):
    now = time.time()
    folders = []
    for folder in place.iterdir():
        try:
            age = now - folder.stat().st_mtime
        except OSError:  # Another process has removed it.
            continue
        # Others are being made, or were left by a process that was killed.
        if not folder.name.startswith(PART) or age > LONGEST_S:
            folders.append((age, folder))
    for _, folder in sorted(folders)[MOST_KEPT - 1:]:
        shutil.rmtree(folder, ignore_errors=True)


def inputs_and_outputs_of(path):
    """What a run gives a model, and the names and types of what it makes."""
    import onnx  # pylint: disable=import-outside-toplevel
    graph = onnx.load(path, load_external_data=False).graph
    held = {each.name for each in graph.initializer}
    return ([each.name for each in graph.input if each.name not in held],
            [(each.name, type_of(each)) for each in graph.output])


def files_of(path):
    """The file of a model, and those in which it keeps its weights."""
    import onnx  # pylint: disable=import-outside-toplevel
    path = pathlib.Path(path)
    model = onnx.load(path, load_external_data=False)
    beside = {entry.value for each in model.graph.initializer
              for entry in each.external_data if entry.key == "location"}
    return [path, *(path.parent / name for name in sorted(beside))]


def with_sizes(path, shapes):
    """The model with the sizes of these inputs, and with what follows from
    them. Sizes that a file states for others would contradict them."""
    import onnx  # pylint: disable=import-outside-toplevel
    model = onnx.load(path)
    for value in model.graph.input:
        if value.name not in shapes:
            continue
        dims = value.type.tensor_type.shape
        del dims.dim[:]
        for size in shapes[value.name]:
            dims.dim.add().dim_value = size
    del model.graph.value_info[:]
    stated = [onnx.ValueInfoProto.FromString(each.SerializeToString())
              for each in model.graph.output]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for value, before in zip(model.graph.output, stated):
        if not value.type.tensor_type.HasField("shape"):
            value.CopyFrom(before)
    return model


def type_of(value):
    """The numpy type of an input or output of an ONNX graph, None if that is
    not a tensor of numbers."""
    import onnx  # pylint: disable=import-outside-toplevel
    kind = value.type.tensor_type.elem_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    except (KeyError, TypeError):
        return None
    return None if dtype.hasobject else dtype


def run_tool(command, what):
    """Runs a converter. What it prints about a failure is its own last error,
    which stands in one line so that it can be quoted."""
    done = subprocess.run([str(word) for word in command], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        raise RuntimeError(f"{what} ended with {done.returncode}: "
                           f"{first_error(text)}")
    return text


def first_error(text):
    """What a tool says is wrong, without the place in a file of ours."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = re.findall(r"\berror: (.*)", text)
    return ((wrong or lines[-1:] or ["it printed nothing"])[0])[:200]
