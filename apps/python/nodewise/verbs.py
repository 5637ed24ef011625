"""The verbs of the command as functions. Made by write_verbs.py."""

# pylint: disable=too-many-arguments,unused-argument,redefined-builtin

from __future__ import annotations

from typing import TYPE_CHECKING

from nodewise._call import call as _call

if TYPE_CHECKING:
    from nodewise._answer import Answer
    from nodewise._types import (Inputs, Names, Number, Target, Tensors, Value)


def locate(target: Target, /, *, lib: Value | None = None,
           params: Value | None = None, function: Value | None = None,
           device: Value | None = None, input: Tensors | None = None,
           inputs: Inputs | None = None, random_inputs: Number | None = None,
           reference: Value | None = None, method: Value | None = None,
           series: Value | None = None, samples: Value | None = None,
           worst: Number | None = None, repeats: Number | None = None,
           node_timeout: Number | None = None, stand_in: Value | None = None,
           strict: bool = False, known: Value | None = None,
           top: Number | None = None, repro: Value | None = None,
           anonymous: bool = False, backend: Value | None = None,
           no_fuse: bool = False, no_reuse: bool = False,
           no_layouts: bool = False, dim: Names | None = None,
           freeze: Tensors | None = None, seed: Number | None = None,
           opaque: Value | None = None, precision: Value | None = None,
           calibrate: Value | None = None, calibration: Value | None = None,
           keep: Value | None = None, model: Value | None = None,
           python: Value | None = None, ort_provider: Value | None = None,
           ort_level: Value | None = None, runtime_option: Names | None = None,
           foreign_limit: Number | None = None, at_once: Number | None = None,
           referee: Value | None = None, trust: Value | None = None,
           third: Value | None = None, special_inputs: bool = False,
           sets: Number | None = None) -> Answer:
    """Names the node that makes a network's results wrong.

    >>> answer = nodewise.locate("net", reference="model.onnx", random_inputs=1)
    >>> [(each.node, each.operations) for each in answer.culprits]
    [('fused_1', ('pool1',))]

    target: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    device: where to run: cpu (the default); may be given again for graphs
        on several devices
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    reference: what is right: the model that TARGET was made of, also
        before a quantiser or simplifier; another build; ort:MODEL.onnx, or
        exec:COMMAND with model=; or interpreter, the operators'
        definitions (interpreter)
    method: auto; intermediate: nodes are run once, on what they read and
        from end to end, and no more; bisect: halves the network, or with
        reference= the functions of both builds; recursive: for each node
        what leads to it is run, in little memory; or replay: TARGET is a
        dump, and nothing of it runs (auto)
    series: builds in their order, the first one good and the last one bad:
        finds the first bad one and its functions. A library goes with the
        graph and parameters of TARGET
    samples: many inputs: runs every file and folder of inputs in DIR, and
        examines those with the largest errors
    worst: how many of the samples with the largest errors are examined (3)
    repeats: how often auto runs TARGET again, to find nodes that are not
        deterministic (12; 1 for another program)
    node_timeout: how long a node may take before it hangs (60)
    stand_in: has the reference compute the nodes in whose name, key or
        function it is found; may be repeated
    strict: accuses every node that is beyond its bound, also where that is
        too little to matter for anything
    known: for ort: and exec: what nodewise adapter learn has measured of
        the runtime
    top: how many culprits are shown (10)
    repro: writes each culprit as a folder of its own in DIR, which shows
        the failure wherever it is moved to
    anonymous: with repro=: the folders may be given to strangers, since
        names are replaced, and weights and inputs where the failure
        survives it; what stays is listed
    backend: what computes the nodes of a model, or of a folder that
        convert made: onednn, with the reference for what that has not, or
        reference
    no_fuse: for ONNX models: one node for each operation
    no_reuse: for ONNX models: memory of its own for each tensor
    no_layouts: for ONNX models: every tensor in the order of the model,
        never with its channels last
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    precision: for ONNX models: fp16, bf16 or int8, as far as its operators
        take it
    calibrate: sample inputs for precision=: a .npz or .params file with
        all of them, an ONNX test set, or random:SEED; may be given again
    calibration: how int8 takes ranges from them: minmax, percentile (99.9)
        or percentile=N (minmax)
    keep: operations in whose name this is found stay float32
    model: for TARGET exec:COMMAND: the ONNX model to run
    python: for TARGET ort:MODEL.onnx and its like: the Python that has the
        runtime ($NODEWISE_PYTHON, or python3)
    ort_provider: for ort: the execution provider (CPU)
    ort_level: for ort: its graph optimisations: disabled, basic, extended
        or all (all)
    runtime_option: for openvino: and its like: an option of the runtime;
        may be given again (docs/adapters.md lists them)
    foreign_limit: for ort: and exec: how many seconds one run of the
        program may take (600)
    at_once: for ort: and exec: how many values are asked for in one run of
        the program (all)
    referee: what else computes a node that the reference accuses: ort or
        exec:COMMAND
    trust: target or reference: which of two builds is right whose nodes do
        not say what they compute (neither: only where they differ is said)
    third: a third build of that network, which decides which of the two is
        right
    special_inputs: beside a model by its values: one more set of inputs,
        with NaN and infinities in some places
    sets: how many sets of inputs both sides run with, where these are two
        models or a compiled network and its model: the given one, and
        others drawn like it (1 or 2)
    """
    return _call("locate", (("target", target),), locals())


def align(target: Target, model: Target, /, *, lib: Value | None = None,
          params: Value | None = None, function: Value | None = None,
          device: Value | None = None, input: Tensors | None = None,
          inputs: Inputs | None = None, random_inputs: Number | None = None,
          sets: Number | None = None, dim: Names | None = None,
          freeze: Tensors | None = None, seed: Number | None = None,
          opaque: Value | None = None, all: bool = False) -> Answer:
    """Shows which tensor of its model each node of an artefact makes.

    >>> answer = nodewise.align("net", "model.onnx", random_inputs=1)
    >>> answer.text.splitlines()[-1]
    '1 of 7 nodes that depend on inputs hold a tensor of the model'

    target: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    model: the ONNX model that it was compiled from, or another build of
        that
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    device: where to run: cpu (the default); may be given again for graphs
        on several devices
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    sets: how many sets of inputs both sides run with, where these are two
        models or a compiled network and its model: the given one, and
        others drawn like it (1 or 2)
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    all: every line of lists that are cut otherwise
    """
    return _call("align", (("target", target), ("model", model)), locals())


def compare(expected: Target, actual: Target, /, *, rule: Value | None = None,
            atol: Number | None = None, rtol: Number | None = None,
            threshold: Number | None = None, map: Value | None = None,
            fuzzy: bool = False, convert: bool = False, strict: bool = False,
            sort: Value | None = None, all: bool = False,
            opaque: Value | None = None) -> Answer:
    """Compares two sets of tensors, and says whether they may differ.

    >>> numpy.savez("old.npz", logits=numpy.array([1.0, 2.0]))
    >>> numpy.savez("new.npz", logits=numpy.array([1.0, 2.5]))
    >>> nodewise.compare("old.npz", "new.npz", rule="absolute").status
    'differs'
    >>> nodewise.compare("old.npz", "new.npz", rule="absolute",
    ...                  threshold=0.5).status
    'ok'

    expected: the reference: a dump, a .npz, .npy, .params or .pb file, or
        an ONNX test set
    actual: what is compared with it, as EXPECTED
    rule: what judges, bounds unless told: bounds, by-type, tolerance,
        absolute, ascend
    atol: the absolute part of rule= tolerance (0)
    rtol: the relative part of rule= tolerance (0)
    threshold: the limit of rule= absolute (1e-5)
    map: which tensors are compared: on each line the name in EXPECTED and
        that in ACTUAL
    fuzzy: pairs what has no partner of its name by spelling, order and
        words of the names
    convert: compares elements of different types as the numbers they are
    strict: warnings and tensors that only one side has count as
        differences
    sort: error: the worst first, and what a network is given last; order:
        as the reference has them (error)
    all: every line of lists that are cut otherwise
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    """
    return _call("compare", (("expected", expected), ("actual", actual)), locals())


def verify(network: Target, /, *, lib: Value | None = None,
           params: Value | None = None, function: Value | None = None,
           target: Value | None = None, strict: bool = False,
           dim: Names | None = None, freeze: Tensors | None = None,
           seed: Number | None = None) -> Answer:
    """Lists every fault of a network, running none of it.

    >>> print(nodewise.verify("net").text, end="")
    net: 0 errors, 0 warnings

    network: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    target: what it is to run on: a device of an artefact (those of this
        build); onednn, c or reference for a network; may be given again
    strict: for ONNX models: nodes that stand before what they read are an
        error, as the specification has it, not a warning
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    """
    return _call("verify", (("network", network),), locals())


def profile(target: Target, /, *, lib: Value | None = None,
            params: Value | None = None, function: Value | None = None,
            device: Value | None = None, input: Tensors | None = None,
            inputs: Inputs | None = None, random_inputs: Number | None = None,
            reference: bool = False, backend: Value | None = None,
            no_fuse: bool = False, no_reuse: bool = False,
            no_layouts: bool = False, dim: Names | None = None,
            freeze: Tensors | None = None, seed: Number | None = None,
            opaque: Value | None = None, precision: Value | None = None,
            calibrate: Value | None = None, calibration: Value | None = None,
            keep: Value | None = None, stand_in: Value | None = None,
            model: Value | None = None, python: Value | None = None,
            ort_provider: Value | None = None, ort_level: Value | None = None,
            runtime_option: Names | None = None,
            foreign_limit: Number | None = None, runs: Number | None = None,
            warm_up: Number | None = None, isolated: bool = False,
            number: Number | None = None, repeat: Number | None = None,
            min_repeat_ms: Number | None = None,
            limit_zero_time: Number | None = None,
            cooldown_ms: Number | None = None,
            repeats_to_cooldown: Number | None = None,
            counter: Value | None = None, threads: Number | None = None,
            sort: Value | None = None, layout: Value | None = None,
            top: Number | None = None, all: bool = False,
            by: Value | None = None, depth: Number | None = None,
            against: Value | None = None,
            trace: Value | None = None) -> Answer:
    """Times every node, in place and by itself.

    >>> answer = nodewise.profile("net", random_inputs=1, runs=3)
    >>> [node["name"] for node in answer.document["profile"]["nodes"]][:3]
    ['fused_0', 'fused_1', 'fused_2']

    target: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    device: where to run: cpu (the default); may be given again for graphs
        on several devices
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    reference: computes an ONNX model slowly but surely, by the definitions
        of its operators, one node for each
    backend: what computes the nodes of a model, or of a folder that
        convert made: onednn, with the reference for what that has not, or
        reference
    no_fuse: for ONNX models: one node for each operation
    no_reuse: for ONNX models: memory of its own for each tensor
    no_layouts: for ONNX models: every tensor in the order of the model,
        never with its channels last
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    precision: for ONNX models: fp16, bf16 or int8, as far as its operators
        take it
    calibrate: sample inputs for precision=: a .npz or .params file with
        all of them, an ONNX test set, or random:SEED; may be given again
    calibration: how int8 takes ranges from them: minmax, percentile (99.9)
        or percentile=N (minmax)
    keep: operations in whose name this is found stay float32
    stand_in: has the reference compute the nodes in whose name, key or
        function it is found; may be repeated
    model: for TARGET exec:COMMAND: the ONNX model to run
    python: for TARGET ort:MODEL.onnx and its like: the Python that has the
        runtime ($NODEWISE_PYTHON, or python3)
    ort_provider: for ort: the execution provider (CPU)
    ort_level: for ort: its graph optimisations: disabled, basic, extended
        or all (all)
    runtime_option: for openvino: and its like: an option of the runtime;
        may be given again (docs/adapters.md lists them)
    foreign_limit: for ort: and exec: how many seconds one run of the
        program may take (600)
    runs: in place: N timed passes, each paired with a plain run (10)
    warm_up: pairs before those (3)
    isolated: times every node by itself too, as TVM's debugger does; so
        does each option that begins with "isolated"
    number: isolated: calls in a repeat (10)
    repeat: isolated: measurements (1)
    min_repeat_ms: isolated: more calls until a repeat takes this (0)
    limit_zero_time: isolated: gives up after N repeats of no time (100)
    cooldown_ms: isolated: sleeps between repeats (0)
    repeats_to_cooldown: isolated: sleeps after the first of every N
        repeats (1)
    counter: reads a counter of the processor or the kernel around every
        node: cycles, instructions, cache-misses, page-faults, ...; may be
        given again
    threads: threads for the compiled code's parallel loops
    sort: rows by time, or in graph order
    layout: clock: with start and end times; measurements: as TVM 0.9 and
        later (clock; measurements with isolated=)
    top: only the N slowest nodes, or the first N rows in the order of
        sort=
    all: every row of lists that are cut otherwise, for against= and other
        programs
    by: time by kind (of operator) or by module, in place of the table of
        nodes
    depth: modules by so many parts of their names (as many as tell two
        apart)
    against: another build of the network, run in turns with this one on
        the same inputs: which nodes are slower here
    trace: writes a trace that Perfetto and chrome://tracing open
    """
    return _call("profile", (("target", target),), locals())


def dump(target: Target, /, *, lib: Value | None = None,
         params: Value | None = None, function: Value | None = None,
         device: Value | None = None, input: Tensors | None = None,
         inputs: Inputs | None = None, random_inputs: Number | None = None,
         reference: bool = False, backend: Value | None = None,
         no_fuse: bool = False, no_reuse: bool = False,
         no_layouts: bool = False, dim: Names | None = None,
         freeze: Tensors | None = None, seed: Number | None = None,
         opaque: Value | None = None, precision: Value | None = None,
         calibrate: Value | None = None, calibration: Value | None = None,
         keep: Value | None = None, stand_in: Value | None = None,
         dump_root: Value | None = None, what: Value | None = None,
         select: Value | None = None, nodes: Value | None = None,
         max_bytes: Number | None = None, runs: Number | None = None,
         threads: Number | None = None, no_table: bool = False,
         model: Value | None = None, python: Value | None = None,
         ort_provider: Value | None = None, ort_level: Value | None = None,
         runtime_option: Names | None = None,
         foreign_limit: Number | None = None,
         at_once: Number | None = None) -> Answer:
    """Records every tensor of a run, as TVM's debugger lays them out.

    >>> answer = nodewise.dump("model.onnx", random_inputs=1, dump_root="dumps")
    >>> nodewise.tensors("dumps/_tvmdbg_device_CPU_0")["pool1"]
    Tensor(float32[1, 8, 8, 8])

    target: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    device: where to run: cpu (the default); may be given again for graphs
        on several devices
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    reference: computes an ONNX model slowly but surely, by the definitions
        of its operators, one node for each
    backend: what computes the nodes of a model, or of a folder that
        convert made: onednn, with the reference for what that has not, or
        reference
    no_fuse: for ONNX models: one node for each operation
    no_reuse: for ONNX models: memory of its own for each tensor
    no_layouts: for ONNX models: every tensor in the order of the model,
        never with its channels last
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    precision: for ONNX models: fp16, bf16 or int8, as far as its operators
        take it
    calibrate: sample inputs for precision=: a .npz or .params file with
        all of them, an ONNX test set, or random:SEED; may be given again
    calibration: how int8 takes ranges from them: minmax, percentile (99.9)
        or percentile=N (minmax)
    keep: operations in whose name this is found stay float32
    stand_in: has the reference compute the nodes in whose name, key or
        function it is found; may be repeated
    dump_root: where the dump goes (a fresh folder in $TMPDIR or /tmp)
    what: tensor, stats or tensor,stats (tensor): whole tensors, or what
        they are like
    select: only nodes in whose name, function or key this is found
    nodes: only the nodes numbered A to B
    max_bytes: leaves out whole tensors that would make more
    runs: runs N times, a dump each (1)
    threads: threads for the compiled code's parallel loops
    no_table: leaves out the table of the nodes' times in these runs
    model: for TARGET exec:COMMAND: the ONNX model to run
    python: for TARGET ort:MODEL.onnx and its like: the Python that has the
        runtime ($NODEWISE_PYTHON, or python3)
    ort_provider: for ort: the execution provider (CPU)
    ort_level: for ort: its graph optimisations: disabled, basic, extended
        or all (all)
    runtime_option: for openvino: and its like: an option of the runtime;
        may be given again (docs/adapters.md lists them)
    foreign_limit: for ort: and exec: how many seconds one run of the
        program may take (600)
    at_once: for ort: and exec: how many values are asked for in one run of
        the program (all)
    """
    return _call("dump", (("target", target),), locals())


def run(target: Target, /, *, lib: Value | None = None,
        params: Value | None = None, function: Value | None = None,
        device: Value | None = None, input: Tensors | None = None,
        inputs: Inputs | None = None, random_inputs: Number | None = None,
        reference: bool = False, backend: Value | None = None,
        no_fuse: bool = False, no_reuse: bool = False,
        no_layouts: bool = False, dim: Names | None = None,
        freeze: Tensors | None = None, seed: Number | None = None,
        opaque: Value | None = None, precision: Value | None = None,
        calibrate: Value | None = None, calibration: Value | None = None,
        keep: Value | None = None, stand_in: Value | None = None,
        output: Value | None = None, repeat: Number | None = None,
        threads: Number | None = None, until: Value | None = None,
        patch: Tensors | None = None, stop_on: Value | None = None,
        sanitize: bool = False, isolate: bool = False,
        time_limit_ms: Number | None = None, sweep: bool = False,
        model: Value | None = None, python: Value | None = None,
        ort_provider: Value | None = None, ort_level: Value | None = None,
        runtime_option: Names | None = None,
        foreign_limit: Number | None = None) -> Answer:
    """Runs a network and shows its outputs.

    >>> answer = nodewise.run("model.onnx", random_inputs=1, output="made.npz")
    >>> nodewise.tensors("made.npz")["probabilities"]
    Tensor(float32[1, 10])

    target: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    device: where to run: cpu (the default); may be given again for graphs
        on several devices
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    reference: computes an ONNX model slowly but surely, by the definitions
        of its operators, one node for each
    backend: what computes the nodes of a model, or of a folder that
        convert made: onednn, with the reference for what that has not, or
        reference
    no_fuse: for ONNX models: one node for each operation
    no_reuse: for ONNX models: memory of its own for each tensor
    no_layouts: for ONNX models: every tensor in the order of the model,
        never with its channels last
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    precision: for ONNX models: fp16, bf16 or int8, as far as its operators
        take it
    calibrate: sample inputs for precision=: a .npz or .params file with
        all of them, an ONNX test set, or random:SEED; may be given again
    calibration: how int8 takes ranges from them: minmax, percentile (99.9)
        or percentile=N (minmax)
    keep: operations in whose name this is found stay float32
    stand_in: has the reference compute the nodes in whose name, key or
        function it is found; may be repeated
    output: writes the outputs to a .npz, .params or (a single one) .npy or
        .pb file
    repeat: runs N times, to time it
    threads: threads for the compiled code's parallel loops
    until: stops after this node and shows what it made; NODE is a name or
        #NUMBER
    patch: gives NODE or NODE:OUTPUT the tensor of that name in a file, or
        its only one, instead of running it; may be given again
    stop_on: stops at the first node that makes such a value: nan, inf or
        abs>LIMIT; may be given again
    sanitize: finds nodes that write or read memory that is not theirs, and
        faults of the storage plan
    isolate: runs every node in a process of its own, so that one that
        crashes or hangs is named
    time_limit_ms: with isolate=: for one node (10000)
    sweep: repeats the run over thread counts and buffer addresses, and
        finds nodes that do not always make the same
    model: for TARGET exec:COMMAND: the ONNX model to run
    python: for TARGET ort:MODEL.onnx and its like: the Python that has the
        runtime ($NODEWISE_PYTHON, or python3)
    ort_provider: for ort: the execution provider (CPU)
    ort_level: for ort: its graph optimisations: disabled, basic, extended
        or all (all)
    runtime_option: for openvino: and its like: an option of the runtime;
        may be given again (docs/adapters.md lists them)
    foreign_limit: for ort: and exec: how many seconds one run of the
        program may take (600)
    """
    return _call("run", (("target", target),), locals())


def inspect(*file: Target, all: bool = False, function: Value | None = None,
            node: Value | None = None, recover: Value | None = None,
            dim: Names | None = None, freeze: Tensors | None = None,
            seed: Number | None = None) -> Answer:
    """Shows what is in a file, running nothing of it.

    >>> print(nodewise.inspect("model.onnx").text.splitlines()[0])
    model.onnx: ONNX model, opset 13, 12,094 bytes

    file: graph JSONs, compiled libraries, ONNX models, .params, .npy, .npz
        and .pb files, or folders with an artefact or a dump
    all: every line of lists that are cut otherwise
    function: in a VM library, the function whose graph to show: main, if
        it has one
    node: one operation of an ONNX model: what it reads and makes, and the
        module and line of the program that it is from
    recover: writes the complete tensors of a dump or a .params file that
        was cut short to OUT
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    """
    return _call("inspect", (*(("file", each) for each in file),), locals())


def convert(model: Target, /, *, output: Value | None = None,
            emit: Value | None = None, passes: Value | None = None,
            text: Value | None = None, no_fuse: bool = False,
            no_reuse: bool = False, no_layouts: bool = False,
            input: Tensors | None = None, inputs: Inputs | None = None,
            random_inputs: Number | None = None, dim: Names | None = None,
            freeze: Tensors | None = None, seed: Number | None = None,
            precision: Value | None = None, calibrate: Value | None = None,
            calibration: Value | None = None, keep: Value | None = None,
            sensitivity: bool = False) -> Answer:
    """Makes an artefact folder of an ONNX model.

    >>> print(nodewise.convert("model.onnx", output="converted").text, end="")
    model.onnx: 9 operations in 7 function nodes, 6 parameters
    wrote converted

    model: an ONNX model
    output: the folder to write, with graph.json and params.params
    emit: c: write the functions too, as lib.c, to be compiled to lib.so;
        the graph names those
    passes: changes the network first: names of passes with commas between
        them; help lists those that there are
    text: writes the network as text, after the passes; - is stdout. Needs
        no -o
    no_fuse: for ONNX models: one node for each operation
    no_reuse: for ONNX models: memory of its own for each tensor
    no_layouts: for ONNX models: every tensor in the order of the model,
        never with its channels last
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    precision: for ONNX models: fp16, bf16 or int8, as far as its operators
        take it
    calibrate: sample inputs for precision=: a .npz or .params file with
        all of them, an ONNX test set, or random:SEED; may be given again
    calibration: how int8 takes ranges from them: minmax, percentile (99.9)
        or percentile=N (minmax)
    keep: operations in whose name this is found stay float32
    sensitivity: ranks the operations by what precision= does to the
        outputs through each; needs no -o
    """
    return _call("convert", (("model", model),), locals())


def extract(model: Target, /, *, from_: Value | None = None,
            to: Value | None = None, output: Value | None = None,
            dim: Names | None = None, freeze: Tensors | None = None,
            seed: Number | None = None) -> Answer:
    """Cuts a part out of an ONNX model.

    >>> print(nodewise.extract("model.onnx", from_="p1", to="r2",
    ...                        output="part.onnx").text, end="")
    model.onnx: 2 operations, 1 input, 1 output
    wrote part.onnx

    model: an ONNX model
    from_: a value that becomes an input, or an operation whose inputs do;
        may be given again. Without any: the inputs of the model
    to: a value that becomes an output, or an operation whose outputs do;
        may be given again
    output: the ONNX model to write
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    """
    return _call("extract", (("model", model),), locals())


def repro(target: Target, /, *, lib: Value | None = None,
          params: Value | None = None, function: Value | None = None,
          device: Value | None = None, input: Tensors | None = None,
          inputs: Inputs | None = None, random_inputs: Number | None = None,
          reference: bool = False, backend: Value | None = None,
          no_fuse: bool = False, no_reuse: bool = False,
          no_layouts: bool = False, dim: Names | None = None,
          freeze: Tensors | None = None, seed: Number | None = None,
          opaque: Value | None = None, precision: Value | None = None,
          calibrate: Value | None = None, calibration: Value | None = None,
          keep: Value | None = None, stand_in: Value | None = None,
          node: Value | None = None, all_nodes: bool = False,
          shard: Value | None = None, output: Value | None = None,
          shrink_runs: Number | None = None,
          anonymous: bool = False) -> Answer:
    """Cuts a node out as a folder that shows what it computes.

    >>> answer = nodewise.repro("model.onnx", node="pool1", random_inputs=1,
    ...                         output="repro")
    >>> answer.status, pathlib.Path("repro").is_dir()
    ('ok', True)

    target: an artefact folder, a factory or VM library, a graph JSON with
        lib= and params=, or an ONNX model; run, dump, profile and locate
        take ort:MODEL.onnx and its like (docs/adapters.md), and
        exec:COMMAND
    lib: the compiled library to use
    params: the parameters to use
    function: in a VM library, the function to use: main, if it has one
    device: where to run: cpu (the default); may be given again for graphs
        on several devices
    input: an input from a .npy, .npz, .params or .pb file; once for each
        input
    inputs: inputs by their names from a .npz or .params file; may be given
        again
    random_inputs: draws the inputs that are not given; one seed gives the
        same values everywhere
    reference: computes an ONNX model slowly but surely, by the definitions
        of its operators, one node for each
    backend: what computes the nodes of a model, or of a folder that
        convert made: onednn, with the reference for what that has not, or
        reference
    no_fuse: for ONNX models: one node for each operation
    no_reuse: for ONNX models: memory of its own for each tensor
    no_layouts: for ONNX models: every tensor in the order of the model,
        never with its channels last
    dim: for ONNX models: the size of a dimension by its name, or by
        INPUT:SIDE, as in x:0=1, where it has none; may be given again
    freeze: for ONNX models: an input that is always this tensor; may be
        given again
    seed: for ONNX models: what random operators draw from that have no
        seed of their own (1)
    opaque: for ONNX models: what runs the operations that are not known
        here, each as a model of its own: ort or exec:COMMAND
    precision: for ONNX models: fp16, bf16 or int8, as far as its operators
        take it
    calibrate: sample inputs for precision=: a .npz or .params file with
        all of them, an ONNX test set, or random:SEED; may be given again
    calibration: how int8 takes ranges from them: minmax, percentile (99.9)
        or percentile=N (minmax)
    keep: operations in whose name this is found stay float32
    stand_in: has the reference compute the nodes in whose name, key or
        function it is found; may be repeated
    node: the node, by its name or that of an operation in it
    all_nodes: every node that computes something else than those before
        it, each in a folder of its own in DIR
    shard: with all_nodes=: the I-th of N parts of them
    output: the folder to write
    shrink_runs: how often a wrong node runs at most, to make its inputs
        simpler; 0: they stay as they are (64)
    anonymous: the folders may be given to strangers: names are replaced,
        and weights and inputs where the failure survives it; what stays is
        listed
    """
    return _call("repro", (("target", target),), locals())


def run_autotest(*, op: Value | None = None, networks: bool = False,
                 mutate: Value | None = None, pass_: Value | None = None,
                 attribute: bool = False, candidate: Value | None = None,
                 with_: Value | None = None, runs: Number | None = None,
                 time: Number | None = None, seed: Number | None = None,
                 sets: Number | None = None, shard: Value | None = None,
                 limit: Number | None = None, output: Value | None = None,
                 case: Value | None = None, model: Value | None = None,
                 python: Value | None = None,
                 ort_provider: Value | None = None,
                 ort_level: Value | None = None,
                 runtime_option: Names | None = None,
                 foreign_limit: Number | None = None) -> Answer:
    """Tests operators and networks on random cases.

    >>> answer = nodewise.run_autotest(op="Relu", runs=20, seed=1)
    >>> print(answer.text.splitlines()[-1])
    nothing found

    op: an operator to test; may be given again (all)
    networks: whole networks of these operators instead of one operation at
        a time
    mutate: changed parts of this ONNX model, or of those in this folder,
        instead
    pass_: rewrites each network first: merge (quantised operations) or
        split; may be given again (none)
    attribute: judges each finding again with one thing of the candidate
        switched off at a time
    candidate: what is tested: onednn, c (the C that is emitted, compiled),
        graph (the reference's own kernels as a graph), ort, onnx (the
        evaluator of ONNX's own Python package), or exec:COMMAND (onednn)
    with_: forward (the operators or networks), backward (the gradients of
        those that have one) or both (forward)
    runs: how many sets of values (1000)
    time: stops after so long, and runs without another limit unless runs=
        is given, too
    seed: draws the same cases again (one drawn anew, and shown)
    sets: how many sets of values for one configuration (16; of networks=
        4)
    shard: runs part I of N, from 1 on; all parts together are the whole
        run
    limit: how long a case may take in this process (10000)
    output: writes a folder for each finding into this new folder
    case: runs this case alone: a folder of -o, or of ONNX's own tests
    model: for TARGET exec:COMMAND: the ONNX model to run
    python: for TARGET ort:MODEL.onnx and its like: the Python that has the
        runtime ($NODEWISE_PYTHON, or python3)
    ort_provider: for ort: the execution provider (CPU)
    ort_level: for ort: its graph optimisations: disabled, basic, extended
        or all (all)
    runtime_option: for openvino: and its like: an option of the runtime;
        may be given again (docs/adapters.md lists them)
    foreign_limit: for ort: and exec: how many seconds one run of the
        program may take (600)
    """
    return _call("autotest", (), locals())


diagnose = locate
