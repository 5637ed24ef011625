"""What a dump that Python writes is made of: tensors, folders, hashes."""

import pathlib
import re
import subprocess
import tempfile
import weakref

from package_support import BUILD, ROOT, PackageTest, numpy

# pylint: disable=wrong-import-order
from nodewise import _dlpack, _dump_files, _xxh3


def tensor_of(*shape, value=0):
    return _dlpack.Tensor(numpy.full(shape, value, numpy.float32))


class FileTest(PackageTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "output_tensors.params"

    def inspected(self):
        return subprocess.run(
            [BUILD / "bin/nodewise", "inspect", self.path.parent, "--all"],
            check=True, capture_output=True, text=True).stdout

    def written(self, names):
        file = _dump_files.TensorFile(self.path)
        for number, name in enumerate(names):
            tensor = tensor_of(2, 3, value=number)
            file.add(name, tensor, tensor.contents())
        return file

    def test_the_file_is_in_the_order_that_is_asked_for(self):
        file = self.written(["c", "a", "b"])
        file.close(["a", "b", "c", "never added"])
        shown = self.inspected()
        self.assertEqual(re.findall(
            r"^ +(\w) +float32 \(2, 3\) .* max (\d)$", shown, re.M),
                         [("a", "1"), ("b", "2"), ("c", "0")])

    def test_more_names_than_there_is_room_for_are_kept(self):
        names = [f"{i}_{'n' * 300}" for i in range(2000)]
        file = self.written(names)
        self.assertEqual(self.path.stat().st_size > 1 << 19, True)
        file.close(names)
        head = 24 + sum(8 + len(name) for name in names) + 8
        self.assertEqual(self.path.stat().st_size,
                         head + len(names) * (32 + 16 + 8 + 24))
        self.assertIn("tensors    2000", self.inspected())

    def test_a_file_that_was_not_closed_can_be_read(self):
        self.written(["a", "b"]).plan(["c"])
        shown = self.inspected()
        self.assertRegex(shown, r"(?s) a +float32 \(2, 3\).* b +float32")
        self.assertRegex(shown, r"(?s)cut short: 1 tensor missing.* c\n")

    def test_what_was_planned_and_did_not_come_is_not_named(self):
        file = self.written(["a"])
        file.plan(["b", "c"])
        tensor = tensor_of(4)
        file.add("d", tensor, tensor.contents())
        self.assertNotIn("missing", self.inspected())
        file.close(["a", "d"])
        self.assertRegex(self.inspected(), r" d +float32 \(4,\)")

    def test_each_run_has_a_folder_that_no_other_one_had(self):
        root = self.path.parent / "deep/root"
        folders = [_dump_files.make_folder(root, "cuda:1")
                   for _ in range(2)]
        (root / "run_7").mkdir()
        folders.append(_dump_files.make_folder(root, "cuda:1"))
        self.assertEqual([str(path.relative_to(root)) for path in folders],
                         ["_tvmdbg_device_CUDA_1",
                          "run_2/_tvmdbg_device_CUDA_1",
                          "run_8/_tvmdbg_device_CUDA_1"])
        self.assertEqual(folders[0].stat().st_mode & 0o777, 0o700)


class TensorTest(PackageTest):
    def test_a_tensor_on_a_device_is_copied_to_the_host(self):
        class OnDevice:
            def __dlpack__(self):
                return numpy.zeros(3, numpy.float32).__dlpack__()

            def copyto(self, host):
                assert host == "host 0"
                return numpy.array([1, 2, 3], numpy.float32)

        tensor = _dlpack.Tensor(OnDevice())
        tensor.device = (2, 0)
        _dlpack.sys.modules["tvm"] = type("Tvm", (), {
            "cpu": staticmethod("host {}".format)})
        self.addCleanup(_dlpack.sys.modules.pop, "tvm")
        self.assertEqual(numpy.frombuffer(tensor.contents(), "f4").tolist(),
                         [1, 2, 3])

    def test_halves_of_bytes_take_a_byte_each(self):
        tensor = _dlpack.Tensor(numpy.array([0x12, 0xF4], numpy.uint8))
        tensor.shape = (3,)
        for code, last in ((0, 0xFF), (1, 15), (17, 15)):
            tensor.dtype = _dlpack.Type(code, 4, 1)
            self.assertEqual(bytes(tensor.contents()), bytes([1, 2, last]))

    def test_a_type_without_a_name_is_taken_for_its_bits(self):
        for bits, shape, expected in ((8, (2, 3), ("uint8", (2, 3))),
                                      (6, (4,), ("uint8", (3,)))):
            tensor = _dlpack.Tensor(numpy.zeros(shape, numpy.uint8))
            tensor.dtype = _dlpack.Type(15, bits, 1)
            tensor.nbytes = tensor.dtype.bytes_of(tensor.nbytes)
            tensor._take_for_bits()  # pylint: disable=protected-access
            self.assertEqual((tensor.dtype.name, tensor.shape), expected)

    def test_a_tensor_that_is_not_compact_is_refused(self):
        array = numpy.zeros((4, 6), numpy.float32)
        with self.assertRaisesRegex(ValueError, r"has strides \(1, 6\)"):
            _dlpack.Tensor(array.T)
        for sound in (array, array[:1, :].T, array[:0].T):
            self.assertEqual(_dlpack.Tensor(sound).nbytes, sound.nbytes)

    def test_memory_lives_as_long_as_it_is_looked_at(self):
        array = numpy.zeros(3, numpy.float32)
        is_alive, contents = weakref.ref(array), _dlpack.Tensor(
            array).contents()
        del array
        self.assertIsNotNone(is_alive())
        del contents
        self.assertIsNone(is_alive())

    def test_a_part_of_a_tensor_is_where_it_begins(self):
        array = numpy.arange(6, dtype=numpy.int64)
        self.assertEqual(numpy.frombuffer(
            _dlpack.Tensor(array[2:]).contents(), "i8").tolist(), [2, 3, 4, 5])


class HashTest(PackageTest):
    def test_hashes_are_those_of_the_page(self):
        page = (ROOT / "docs/formats/hash.md").read_text()
        expected = [int(number, 16) for number in re.findall(
            r"^\|.*\| `(0x[0-9A-F]+)` \|$", page, re.M)][:6]
        contents = [b"", b"\0", b"abc", bytes(64), bytes(range(256)),
                    bytes(i * 31 % 251 for i in range(10000))]
        self.assertEqual([_xxh3.xxh3_64(each) for each in contents], expected)

    def test_hashes_of_every_length_are_those_of_the_command(self):
        # The command hashes what it dumps; a network for each length has a
        # constant of that many bytes.
        for length in (4, 7, 12, 17, 100, 130, 200, 241, 1024, 1025, 70001):
            data = bytes(i * 7 % 256 for i in range(length))
            self.assertEqual(_xxh3.xxh3_64(data), _of_command(self, data),
                             length)


def _of_command(test, data):
    """The hash that nodewise records of an input."""
    from onnx_bytes import (onnx_graph, onnx_model,  # noqa: E402
                            onnx_node, value_info)
    uint8 = 2
    folder = test.folder / f"hash_{len(data)}"
    folder.mkdir()
    dims = (len(data),)
    (folder / "m.onnx").write_bytes(onnx_model(onnx_graph(
        [onnx_node("BitwiseNot", ["x"], ["y"])],
        [value_info("x", uint8, dims)], [value_info("y", uint8, dims)]),
        opset=18))
    numpy.savez(folder / "x.npz", x=numpy.frombuffer(data, numpy.uint8))
    subprocess.run(
        [BUILD / "bin/nodewise", "dump", folder / "m.onnx", "--inputs",
         folder / "x.npz", "--dump-root", folder, "--no-table"], check=True,
        stdout=subprocess.DEVNULL)
    records = next(folder.glob("*/_nodewise_nodes.bin")).read_bytes()
    return int.from_bytes(records[24 + 16:24 + 24], "little")


if __name__ == "__main__":
    import unittest
    unittest.main()
