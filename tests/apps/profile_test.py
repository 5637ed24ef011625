"""nodewise profile, on artefacts made here."""

import csv
import io
import json
import os
import re
import unittest
import unittest.mock

from debug_support import DebugLibrary, chain, sum_graph
from support import ROOT, Scratch, document, nodewise, nodewise_on_terminal

LIBRARY = DebugLibrary()
NAMES = ["sum", "copied", "last"]
CLOCK = ["Node Name", "Ops", "Time(us)", "Time(%)", "Start Time", "End Time",
         "Shape", "Inputs", "Outputs"]
MEASUREMENTS = ["Node Name", "Ops", "Time(us)", "Time(%)", "Shape", "Inputs",
                "Outputs", "Measurements(us)"]


def read_table(text):
    """The columns' titles and the rows' cells of the table in a report; its
    columns are two blanks apart at least."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines)
              if line.startswith("Node Name"))
    rows = [lines[at]]
    for line in lines[at + 2:]:
        if not line or line.startswith("("):
            break
        rows.append(line)
    rows = [[cell.strip() for cell in row.split("  ") if cell.strip()]
            for row in rows]
    return rows[0], rows[1:]


class WithNetwork(Scratch):
    """data + bias, copied twice."""

    def setUp(self):
        super().setUp()
        self.make_network(LIBRARY, sum_graph())

    def chain(self, *functions):
        return LIBRARY.artefact(self.folder / "chain", chain(*functions), {})

    def text(self, *arguments, net=None):
        result = nodewise("profile", net or self.net, "--inputs", self.inputs,
                          *arguments)
        self.assertEqual((result.code, result.err), (0, ""), result)
        return result.out

    def found(self, *arguments, net=None, code=0):
        """The document of a run with --json."""
        result = nodewise("profile", net or self.net, "--inputs", self.inputs,
                          *arguments, "--json")
        self.assertEqual((result.code, result.err), (code, ""), result)
        return document(result)

    def profile(self, *arguments, net=None):
        return self.found(*arguments, net=net)["profile"]


class Groups(WithNetwork):
    def test_by_kind_takes_the_functions_of_one_name_together(self):
        net = self.chain("copy", "busy", "copy")
        groups = self.found(net=net)["by_kind"]
        self.assertEqual([(each["name"], each["nodes"]) for each in groups],
                         [("busy", 1), ("copy", 2)])
        self.assertAlmostEqual(sum(each["percent"] for each in groups), 100)
        text = self.text("--by", "kind", net=net)
        self.assertRegex(text, r"(?m)^busy +1 +[\d.]+ +[\d.]+ %$")
        self.assertNotIn("busy_1", text)

    def test_by_module_is_by_parts_of_names(self):
        text = self.text("--by", "module")
        self.assertRegex(text, r"(?m)^\(no module\) +3 ")

    def test_a_build_against_itself_pairs_every_node(self):
        net = self.chain("copy", "busy", "copy")
        changes = self.found("--against", net, "--runs", 12,
                             net=net)["changes"]
        self.assertEqual(sorted(each["after"] for each in changes),
                         [["busy_1"], ["copy_0"], ["copy_2"]])
        for change in changes:
            self.assertEqual(change["before"], change["after"])
            self.assertGreater(change["after_us"], 0)

    def test_what_another_build_lacks_is_new(self):
        more = self.chain("copy", "busy", "copy")
        less = LIBRARY.artefact(self.folder / "less", chain("copy", "busy"), {})
        verdicts = {tuple(each["after"] or each["before"]): each["verdict"]
                    for each in self.found("--against", less, "--runs", 8,
                                           net=more)["changes"]}
        self.assertEqual(verdicts[("copy_2",)], "new")

    def test_against_takes_nothing_that_it_does_not_compare(self):
        result = nodewise("profile", self.net, "--inputs", self.inputs,
                          "--against", self.net, "--csv")
        self.assertEqual(result.code, 2, result)
        self.assertIn("--against: compares the times", result.err)


class Table(WithNetwork):
    def test_has_a_row_for_each_function_node(self):
        # TV-35, TV-36, TV-37, TV-42
        header, rows = read_table(self.text())
        self.assertEqual(header, CLOCK)
        self.assertEqual([row[:2] for row in rows],
                         [["sum", "add_bias"], ["copied", "copy"],
                          ["last", "copy"]])
        self.assertEqual([row[6:] for row in rows],
                         [["(2, 3)", "2", "1"], ["(2, 3)", "1", "1"],
                          ["(2, 3)", "1", "1"]])

    def test_of_measurements_has_one_for_each_repeat(self):
        header, rows = read_table(self.text("--layout", "measurements",
                                            "--repeat", 2))
        self.assertEqual(header, MEASUREMENTS)
        self.assertEqual([row[0] for row in rows], NAMES)
        for row in rows:
            self.assertRegex(row[-1], r"\A\[[\d.]+, [\d.]+\]\Z")

    def test_of_measurements_by_time_ends_with_their_total(self):
        net = self.chain("busy", "busy")
        rows = read_table(self.text("--layout", "measurements", "--sort",
                                    "time", net=net))[1]
        self.assertEqual([row[0] for row in rows][2:], ["Total_time"])
        self.assertAlmostEqual(sum(float(row[2]) for row in rows[:2]),
                               float(rows[2][2]), delta=0.01)

    def test_says_what_its_times_add_up_to(self):
        text = self.text()
        for line in (r"nodes +[\d.]+ us  sum of the means of 3 nodes",
                     r"debug run +[\d.]+ us  mean of 10",
                     r"rest +[\d.]+ us  [\d.]+ % of the debug run, in no node",
                     r"plain run +[\d.]+ us  median of 10; min "):
            self.assertRegex(text, rf"(?m)^{line}")

    def test_is_in_graph_order_or_by_time(self):
        # TV-45
        net = self.chain("copy", "busy", "copy")
        for order in ([], ["--sort", "graph"]):
            rows = read_table(self.text(*order, net=net))[1]
            self.assertEqual([row[0] for row in rows],
                             ["copy_0", "busy_1", "copy_2"])
        rows = read_table(self.text("--sort", "time", net=net))[1]
        self.assertEqual(rows[0][0], "busy_1")
        times = [float(row[2]) for row in rows]
        self.assertEqual(times, sorted(times, reverse=True))

    def test_top_leaves_out_rows_and_says_how_many(self):
        text = self.text("--top", 1, "--sort", "graph")
        self.assertEqual([row[0] for row in read_table(text)[1]], ["sum"])
        self.assertIn("(2 more rows)\n", text)

    def test_top_is_the_slowest_unless_an_order_is_asked_for(self):
        net = self.chain("copy", "busy", "copy")
        for order, first in [([], "busy_1"), (["--sort", "time"], "busy_1"),
                             (["--sort", "graph"], "copy_0")]:
            rows = read_table(self.text("--top", 1, *order, net=net))[1]
            self.assertEqual([row[0] for row in rows], [first])

    def test_names_from_files_cannot_command_the_terminal(self):
        tree = chain("copy").tree()
        tree["nodes"][1]["name"] = "\x1b[2J"
        net = LIBRARY.artefact(self.folder / "chain", tree, {})
        for layout in ("clock", "measurements"):
            self.assertNotIn("\x1b", self.text("--layout", layout, net=net))


class OnATerminal(WithNetwork):
    def shown(self, net):
        return nodewise_on_terminal(120, "profile", net, "--inputs",
                                    self.inputs)

    def test_lines_of_the_table_fit(self):
        tree = chain("copy", "copy").tree()
        for node in tree["nodes"][1:]:
            node["name"] = "tvmgen_default_" + 100 * "n" + node["name"]
        net = LIBRARY.artefact(self.folder / "chain", tree, {})
        text = self.shown(net)
        self.assertEqual(read_table(text)[0], CLOCK)
        for line in text[text.index("Node Name"):].splitlines():
            self.assertLessEqual(len(line), 120, line)

    def test_functions_that_are_named_like_their_nodes_have_no_column(self):
        tree = chain("copy").tree()
        tree["nodes"][1]["name"] = "copy"
        net = LIBRARY.artefact(self.folder / "chain", tree, {})
        self.assertEqual(read_table(self.shown(net))[0],
                         CLOCK[:1] + CLOCK[2:])
        self.assertEqual(read_table(self.text(net=net))[0], CLOCK)


class InPlace(WithNetwork):
    def test_rows_do_not_overlap_and_start_times_rise(self):
        found = self.profile("--runs", 4, "--warm-up", 0)
        self.assertEqual([node["name"] for node in found["nodes"]], NAMES)
        last_end = 0
        for run, (start, end) in enumerate(found["debug_runs_ns"]):
            self.assertLessEqual(last_end, start)
            last_end = start
            for node in found["nodes"]:
                first, last = node["in_place"]["intervals_ns"][run]
                self.assertLessEqual(last_end, first)
                self.assertLess(first, last)
                last_end = last
            self.assertLessEqual(last_end, end)
            last_end = end

    def test_end_minus_start_is_never_less_than_the_time_of_a_row(self):
        # TV-41. A mean over several runs belongs to none of them.
        nodes = self.profile("--runs", 1)["nodes"]
        self.assertEqual(len(nodes), 3)
        for node in nodes:
            (start, end), = node["in_place"]["intervals_ns"]
            time_ns = round(node["in_place"]["mean_us"] * 1000)
            self.assertGreaterEqual(end - start, time_ns)
            self.assertGreater(time_ns, 0)

    def test_rows_of_one_run_rise_and_do_not_overlap(self):
        # TV-46
        intervals = [node["in_place"]["intervals_ns"][0]
                     for node in self.profile("--runs", 1)["nodes"]]
        for (start, end), (next_start, _) in zip(intervals, intervals[1:]):
            self.assertLess(start, next_start)
            self.assertLessEqual(end, next_start)

    def test_times_add_up_to_the_run_measured_around_them(self):
        net = self.chain(*["busy"] * 4)
        rests = []
        for _ in range(5):
            summary = self.profile("--runs", 3, net=net)["summary"]
            rests.append(abs(1 - summary["nodes_sum_us"] /
                             summary["debug_run_mean_us"]))
            if rests[-1] <= 0.05:
                return
        self.fail(f"the best of 5 is not within 5 %: {rests}")

    def test_each_run_is_timed_and_has_a_plain_one_beside_it(self):
        # OFc-08
        found = self.profile("--runs", 4)
        self.assertEqual(len(found["debug_runs_ns"]), 4)
        self.assertEqual(len(found["plain_runs_ns"]), 4)
        for node in found["nodes"]:
            self.assertEqual(len(node["in_place"]["runs_us"]), 4)

    def test_figures_are_those_of_the_runs(self):
        for node in self.profile("--runs", 5)["nodes"]:
            figures = node["in_place"]
            times = sorted(figures["runs_us"])
            self.assertAlmostEqual(figures["mean_us"], sum(times) / 5)
            self.assertEqual((figures["min_us"], figures["median_us"],
                              figures["max_us"]),
                             (times[0], times[2], times[4]))
            for time, (start, end) in zip(figures["runs_us"],
                                          figures["intervals_ns"]):
                self.assertAlmostEqual(time, (end - start) / 1000)

    def test_shares_are_those_of_all_nodes(self):
        nodes = self.profile()["nodes"]
        self.assertAlmostEqual(
            sum(node["in_place"]["percent"] for node in nodes), 100)

    def test_bytes_are_those_of_inputs_and_outputs(self):
        found = self.profile()
        self.assertEqual([(node["bytes_read"], node["bytes_written"])
                          for node in found["nodes"]],
                         [(36, 24), (24, 24), (24, 24)])
        self.assertEqual(max(node["live_bytes"] for node in found["nodes"]),
                         found["summary"]["peak_live_bytes"])

    def test_threads_are_those_asked_for(self):
        self.assertEqual(self.profile("--threads", 1)["threads"], 1)


class Isolated(WithNetwork):
    def test_is_there_only_if_asked_for(self):
        for node in self.profile()["nodes"]:
            self.assertIsNone(node["isolated"])
        for given in (["--isolated"], ["--number", 2], ["--repeat", 1]):
            for node in self.profile(*given)["nodes"]:
                self.assertEqual(len(node["isolated"]["repeats_us"]), 1)

    def test_their_times_are_in_the_table_unless_another_is_asked_for(self):
        for given in (["--isolated"], ["--number", 2]):
            self.assertIn("Measurements(us)", self.text(*given))
            self.assertNotIn("Measurements(us)",
                             self.text(*given, "--layout", "clock"))
        self.assertNotIn("Measurements(us)", self.text())

    def test_repeat_counts_the_measurements(self):
        for node in self.profile("--isolated", "--repeat", 3)["nodes"]:
            figures = node["isolated"]
            self.assertEqual(len(figures["repeats_us"]), 3)
            self.assertAlmostEqual(figures["mean_us"],
                                   sum(figures["repeats_us"]) / 3)
            self.assertEqual(figures["min_us"], min(figures["repeats_us"]))

    def test_number_counts_the_calls_of_each(self):
        # OFc-08
        calls = []
        log = self.folder / "calls"
        net = self.chain("counted")
        for number in (2, 12):
            log.write_bytes(b"")
            with unittest.mock.patch.dict(os.environ,
                                          NODEWISE_TEST_CALLS=str(log)):
                self.profile("--number", number, "--repeat", 3, net=net)
            calls.append(log.stat().st_size)
        self.assertEqual(calls[1] - calls[0], 3 * 10)

    def test_least_time_of_a_repeat_is_kept(self):
        log = self.folder / "calls"
        with unittest.mock.patch.dict(os.environ,
                                      NODEWISE_TEST_CALLS=str(log)):
            self.profile("--runs", 1, "--number", 1, "--min-repeat-ms", 20,
                         net=self.chain("busy", "counted"))
        self.assertGreater(log.stat().st_size, 20)


class Csv(WithNetwork):
    def rows(self, *arguments, net=None):
        """The rows that stdout holds; stderr may say more."""
        result = nodewise("profile", net or self.net, "--inputs", self.inputs,
                          "--csv", *arguments)
        self.assertEqual(result.code, 0, result)
        return list(csv.DictReader(io.StringIO(result.out, newline=""),
                                   strict=True))

    def test_has_a_row_for_each_function_node_and_nothing_else(self):
        rows = self.rows()
        self.assertEqual([row["name"] for row in rows], NAMES)
        for row in rows:
            self.assertNotIn(None, row, "a row with more cells")
            self.assertNotIn(None, row.values(), "a row with fewer cells")

    def test_holds_every_figure(self):
        row = self.rows("--runs", 2, "--repeat", 3)[0]
        self.assertEqual((row["node"], row["op"], row["shapes"]),
                         ("2", "add_bias", "(2, 3)"))
        times = [float(x) for x in row["in_place_runs_us"].split("; ")]
        self.assertEqual(len(times), 2)
        self.assertAlmostEqual(float(row["in_place_mean_us"]), sum(times) / 2)
        self.assertEqual(len(row["isolated_repeats_us"].split("; ")), 3)
        self.assertEqual((row["bytes_read"], row["bytes_written"]),
                         ("36", "24"))

    def test_names_stay_on_their_line_with_any_characters(self):
        tree = chain("copy", "copy").tree()
        names = ['a, "b"', "line\nfeed"]
        tree["nodes"][1]["name"], tree["nodes"][2]["name"] = names
        net = LIBRARY.artefact(self.folder / "chain", tree, {})
        rows = self.rows(net=net)
        self.assertEqual([row["name"] for row in rows][:2],
                         ['a, "b"', "line\\x0afeed"])

    def test_takes_no_options_of_the_table(self):
        for option in (["--sort", "time"], ["--top", 1],
                       ["--layout", "clock"]):
            result = nodewise("profile", self.net, "--inputs", self.inputs,
                              "--csv", *option)
            self.assertEqual((result.code, result.out), (2, ""), option)
            self.assertIn("--csv: has all figures", result.err)

    def test_with_a_trace_is_a_csv_all_the_same(self):
        rows = self.rows("--trace", self.folder / "t.json")
        self.assertEqual([row["name"] for row in rows], NAMES)
        self.assertTrue((self.folder / "t.json").exists())


class Trace(WithNetwork):
    def events(self, *arguments, net=None):
        path = self.folder / "t.json"
        self.assertIn(f"wrote {path}\n",
                      self.text("--trace", path, *arguments, net=net))
        return json.loads(path.read_text())["traceEvents"]

    def test_has_each_node_of_each_run_with_rising_times(self):
        events = self.events("--runs", 2)
        times = [event["ts"] for event in events if "ts" in event]
        self.assertEqual(times, sorted(times))
        nodes = [event["name"] for event in events
                 if event["ph"] == "X" and "node" in event["args"]]
        # The last is the run in which the workers are watched.
        self.assertEqual(nodes, NAMES * 3)

    def test_parallel_tasks_have_a_track_each_inside_their_node(self):
        net = self.chain("copy", "four_tasks", "copy")
        events = self.events("--runs", 1, "--threads", 1, net=net)
        tracks = {event["tid"]: event["args"]["name"] for event in events
                  if event["name"] == "thread_name"}
        spans = [event for event in events
                 if event["ph"] == "X" and event["name"] == "four_tasks_1"]
        node = [span for span in spans if tracks[span["tid"]] == "nodes"][-1]
        tasks = [span for span in spans if tracks[span["tid"]] != "nodes"]
        self.assertEqual(sorted(tracks[task["tid"]] for task in tasks),
                         [f"worker {i}" for i in range(4)])
        for task in tasks:
            self.assertGreaterEqual(task["ts"], node["ts"])
            # Both are rounded to thousandths before they are added up here.
            self.assertLessEqual(task["ts"] + task["dur"],
                                 node["ts"] + node["dur"] + 0.0015)

    def test_has_memory_as_a_counter(self):
        counted = [event["args"]["bytes"] for event in self.events("--runs", 1)
                   if event["ph"] == "C" and event["name"] == "live bytes"]
        self.assertEqual(max(counted),
                         self.profile()["summary"]["peak_live_bytes"])

    def test_that_cannot_be_written_is_refused_before_measuring(self):
        log = self.folder / "calls"
        net = self.chain("counted")
        table = [("no/t.json", "there is no folder "), ("", "is a folder")]
        for name, message in table:
            path = self.folder / name
            with self.subTest(name=name), unittest.mock.patch.dict(
                    os.environ, NODEWISE_TEST_CALLS=str(log)):
                error = self.refused("profile", net, "--inputs", self.inputs,
                                     "--trace", path)
                self.assertIn(f"--trace: {path}: {message}", error)
                self.assertFalse(log.exists())


class Counter(WithNetwork):
    def test_is_a_figure_at_each_node_or_a_note(self):
        found = self.profile("--counter", "page-faults")
        if found["notes"]:
            self.assertIn("page-faults", found["notes"][0])
            return
        for node in found["nodes"]:
            self.assertGreaterEqual(node["counters"]["page-faults"], 0)

    def test_that_is_not_there_does_not_stop_the_others(self):
        found = self.profile("--counter", "cycles", "--counter", "task-clock")
        for name in ("cycles", "task-clock"):
            has_note = any(name in note for note in found["notes"])
            for node in found["nodes"]:
                self.assertNotEqual(has_note, name in node["counters"], name)


class PlainRun(WithNetwork):
    def test_has_the_same_outputs_bit_for_bit(self):
        line = ("outputs: bit for bit those of a plain run (1 tensor, 24 "
                "bytes)")
        self.assertIn(f"\n{line}\n", self.text())
        self.assertEqual(self.found()["plain_run"],
                         {"same_bits": True, "text": line})

    def test_with_other_outputs_is_told_and_exits_with_1(self):
        found = self.found(net=self.chain("unsteady"), code=1)
        self.assertEqual(found["status"], "differs")
        self.assertFalse(found["plain_run"]["same_bits"])
        self.assertIn("NOT those of a plain run: output 0 (unsteady_0)",
                      found["plain_run"]["text"])

    def test_that_fails_leaves_table_and_trace(self):
        net, log = self.chain("counted", "fail_once"), self.folder / "calls"
        trace = self.folder / "t.json"
        given = ["profile", net, "--inputs", self.inputs, "--trace", trace]
        message = ("outputs: not compared, plain run: node 2 (fail_once_1): "
                   "fail_once: this call fails")
        with unittest.mock.patch.dict(os.environ, NODEWISE_TEST_FAILS="0",
                                      NODEWISE_TEST_CALLS=str(log)):
            nodewise(*given)
            trace.unlink()
            # The plain run is the last.
            os.environ["NODEWISE_TEST_FAILS"] = str(log.stat().st_size)
            result = nodewise(*given)
        self.assertEqual((result.code, result.err), (1, ""), result)
        self.assertEqual([row[0] for row in read_table(result.out)[1]],
                         ["counted_0", "fail_once_1"])
        self.assertIn(f"\n{message}\nwrote {trace}\n", result.out)
        self.assertTrue(trace.exists())


class Pages(unittest.TestCase):
    """The tables that the pages show were printed, not typed."""

    def test_rows_do_not_overlap(self):
        for page in ("docs/profile.md",):
            rows = re.findall(r"(\d\d:\d\d:\d\d\.\d{6})  "
                              r"(\d\d:\d\d:\d\d\.\d{6})",
                              (ROOT / page).read_text())
            self.assertGreater(len(rows), 2, page)
            last_end = rows[0][0]
            for start, end in sorted(rows):
                self.assertLessEqual(last_end, start, page)
                self.assertLessEqual(start, end, page)
                last_end = end


class BadInput(WithNetwork):
    def test_is_refused(self):
        table = [
            (["--sort", "tme"], 'found "tme", expected time or graph (did you '
                                'mean time?)'),
            (["--layout", "clok"],
             'found "clok", expected clock or measurements'),
            (["--counter", "cycels"], "did you mean cycles?"),
            (["--counter", ""], "--counter"),
            (["--runs", "0"], '--runs is "0", expected a whole number'),
            (["--repeat", "-1"], '--repeat is "-1"'),
            (["--number", "x"], '--number is "x"'),
            (["--top", "0"], '--top is "0"'),
            (["--threads", "0"], '--threads is "0"'),
            (["--warmup", "1"], "--warm-up"),
        ]
        for given, message in table:
            with self.subTest(given=given):
                self.assertIn(message, self.refused(
                    "profile", self.net, "--inputs", self.inputs, *given))

    def test_function_that_fails_is_named_with_its_node(self):
        error = self.refused("profile", self.chain("copy", "fail"),
                             "--inputs", self.inputs)
        self.assertIn("node 2 (fail_1): fail: this kernel always fails",
                      error)

    def test_every_input_that_is_missing_is_named(self):
        self.assertIn("input data: was not given",
                      self.refused("profile", self.net))


if __name__ == "__main__":
    unittest.main()
