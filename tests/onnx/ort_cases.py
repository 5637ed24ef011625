#!/usr/bin/env python3
"""Writes cases whose outputs are onnxruntime's, in ONNX's layout:

    build/venv/bin/python tests/onnx/ort_cases.py FOLDER PART [--seed N]
        [--count N] [--step N] [--filter TEXT]

The parts: `operators`, each operator in each version of opsets 7 to 22;
`networks`, whole networks; `random`, COUNT operators with random shapes and
attributes; `contrib`, COUNT cases of each of onnxruntime's own operators. Prints a line for what is at fault, such as an operator that
onnxruntime cannot run and that ort_table.LACKING does not name, and exits with
1 if there was one.
"""

import argparse
import pathlib
import sys

import onnxruntime

import ort_attention  # noqa: F401 (adds to ort_contrib)
import ort_case
import ort_classic  # noqa: F401
import ort_contrib
import ort_control  # noqa: F401 (fills the table)
import ort_layers  # noqa: F401
import ort_models  # noqa: F401
import ort_networks
import ort_networks_more  # noqa: F401 (adds to ort_networks)
import ort_packed  # noqa: F401
import ort_pointwise  # noqa: F401
import ort_random
import ort_shapes  # noqa: F401
import ort_table


def operators(options):
    """Each operator in each version: its name and its cases."""
    left_out = {op for names in ort_table.NOT_COMPARED.values()
                for op in names.split()}
    for op, version in ort_table.versions():
        if options.filter in f"{op}_{version}":
            if op in left_out:
                continue
            # One without a row has no cases, which is a fault.
            yield f"{op}_{version}", ort_table.make(op, version, options.seed)


def networks(options):
    for name, cases in ort_networks.cases(options.seed):
        if options.filter in name:
            yield name, cases


def random_ones(options):
    numbers = range(options.count)
    if options.filter:
        numbers = [int(options.filter)]
    for number in numbers:
        case = ort_random.make(options.seed, number)
        yield case.name, [case]


def contrib(options):
    for op in ort_contrib.OPERATORS:
        if options.filter in op:
            yield op, [ort_contrib.make(op, options.seed, number)
                       for number in range(options.count)]


def write_all(groups, folder, step):
    """How many were written and how many things were at fault."""
    written = faults = 0
    for name, cases in groups:
        count, reasons = 0, []
        rest = [case for i, case in enumerate(cases) if i % step]
        for i, case in enumerate(cases[::step] + rest):
            # The rest only where onnxruntime can run none of the sample.
            if count and i >= len(cases) - len(rest):
                break
            try:
                ort_case.write(folder, case)
                count += 1
            except ort_case.CannotRun as reason:
                reasons.append(str(reason))
            except Exception as error:
                print(f"FAULT {case.name}: {error}")
                faults += 1
        if count == 0 and name not in ort_table.LACKING:
            print(f"FAULT {name}: {(reasons or ['has no case'])[0]}")
            faults += 1
        written += count
    return written, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200,
                        help="so many random ones")
    parser.add_argument("--step", type=int, default=1,
                        help="one in so many of each operator")
    parser.add_argument("--filter", default="",
                        help="a part of the name; a number for random ones")
    options = parser.parse_args()
    groups = PARTS[options.part](options)
    written, faults = write_all(groups, options.folder / "node", options.step)
    print(f"{written} cases by onnxruntime {onnxruntime.__version__}")
    return 1 if faults or not written else 0


PARTS = {"operators": operators, "networks": networks, "random": random_ones,
         "contrib": contrib}

if __name__ == "__main__":
    sys.exit(main())
