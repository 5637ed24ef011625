"""Runs a notebook's cells as Jupyter does, as far as ours need it: in one
namespace, with the last expression shown, and lines of the shell.

  notebook_runner.py NOTEBOOK   runs it and stores what its cells show
"""

import ast
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def needs_of(cell):
    """The packages that a cell's tags say it needs: "needs:pandas"."""
    tags = cell["metadata"].get("tags", ())
    return [tag.partition(":")[2] for tag in tags if tag.startswith("needs:")]


def can_run(cell):
    return all(importlib.util.find_spec(name) for name in needs_of(cell))


def run_cell(code, names):
    """Runs a cell, and returns its outputs as a notebook stores them."""
    code = re.sub(r"^!(.*)$", r"_shell(\1)",
                  re.sub(r"^!(.*)$", lambda line: "!" + repr(line.group(1)),
                         code, flags=re.M), flags=re.M)
    body = ast.parse(code).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    shown = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        # pylint: disable=exec-used,eval-used
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"),
                         names)
    outputs = []
    if out.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream",
                        "text": _lines(out.getvalue())})
    if shown is not None:
        data = {"text/plain": _lines(repr(shown))}
        html = getattr(shown, "_repr_html_", lambda: None)()
        if html is not None:
            data = {"text/html": _lines(html), **data}
        outputs.append({"data": data, "metadata": {},
                        "output_type": "execute_result"})
    return outputs


def _shell(command):
    done = subprocess.run(command, shell=True, text=True, check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    print(done.stdout, end="")


def _lines(text):
    return text.splitlines(keepends=True)


def run(path):
    """Runs the cells of a notebook in the working directory. Yields each code
    cell and its outputs; None for one whose packages are missing."""
    names = {"_shell": _shell, "__name__": "__main__"}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            yield cell, run_cell(code, names) if can_run(cell) else None


def store(path):
    """Writes what the cells show into the notebook."""
    notebook = json.loads(path.read_text())
    made = iter(list(run(path)))
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        _, outputs = next(made)
        if outputs is None:
            sys.exit(f"{path}: a cell needs {', '.join(needs_of(cell))}, "
                     "expected it installed")
        count += 1
        cell["execution_count"] = count
        for output in outputs:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
        cell["outputs"] = outputs
    path.write_text(json.dumps(notebook, indent=1, sort_keys=True,
                               ensure_ascii=False) + "\n")


def main():
    path = pathlib.Path(sys.argv[1]).resolve()
    # pylint: disable-next=import-outside-toplevel
    from package_support import BUILD
    os.environ["PATH"] = f"{BUILD / 'bin'}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        store(path)


if __name__ == "__main__":
    main()
