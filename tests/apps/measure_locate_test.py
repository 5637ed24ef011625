"""A fixed sample of what `./dev measure` measures in full: faults are planted
and looked for, and networks without any are examined."""

import json
import os
import subprocess
import unittest

from support import BUILD, Scratch

PROGRAM = BUILD / "bin/nodewise_measure_locate"
JOBS = str(os.cpu_count())
# A weight of a sum is wrong, in float16; and a sum is cut off to 5 bits, which
# is within what so long sums of bfloat16 may be off by.
SMALL_ON_EXACT_INPUTS = ("fault demo/3+fp16 one-weight 3 exact",
                         "fault demo/9+bf16 truncation 9 exact")


def measure(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=500, check=False)


class MeasureLocate(Scratch):
    def setUp(self):
        super().setUp()
        if not PROGRAM.exists():
            self.skipTest("this build has no debugger to measure")
        self.results = self.folder / "results.jsonl"

    def kept(self):
        return [json.loads(line)
                for line in self.results.read_text().splitlines()]

    def report(self, *results):
        """What is said about results that are made up."""
        lines = [json.dumps({"case": case, "outcome": outcome, "size": size,
                             "on_whole_numbers": (*more, "")[0],
                             "effect": "0.5", "seconds": 0.1,
                             "inconclusive": 0, "node": "conv", "text": "why"})
                 for case, outcome, size, *more in results]
        self.results.write_text("\n".join(lines) + "\n")
        return measure("--report", "--results", self.results)


class Sample(MeasureLocate):
    def test_thirty_planted_faults_are_named_exactly(self):
        methods = {"auto": 22, "intermediate": 15, "replay": 15}
        ran = measure("--what", "faults", "--faults", 30, "--method",
                      ",".join(methods), "--jobs", JOBS, "--results",
                      self.results)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        kept = self.kept()
        self.assertEqual(
            sum(r["case"].endswith(" auto") for r in kept), 30)
        # Some kinds have no place in some networks, and some effects are too
        # small to be seen.
        for method, least in methods.items():
            exact = [r for r in kept if r["outcome"] == "exact"
                     and r["case"].endswith(f" {method}")]
            self.assertGreaterEqual(len(exact), least, ran.stdout)
        self.assertIn("replay cannot see: plan-overlap, overrun, flaky, crash, "
                      "hang", ran.stdout)

    def test_every_method_names_a_weight_that_is_wrong(self):
        ran = measure("--what", "faults", "--faults", 1, "--network",
                      "convolutional", "--kind", "one-weight", "--results",
                      self.results)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(
            {r["case"].split()[-1]: r["outcome"] for r in self.kept()},
            {method: "exact" for method in
             ("auto", "intermediate", "replay", "recursive", "bisect",
              "exact")})

    def test_exact_inputs_find_what_changes_bits_of_an_exact_computation(self):
        for case in SMALL_ON_EXACT_INPUTS:
            with self.subTest(case=case):
                ran = measure("--case", case)
                found = json.loads(ran.stdout)
                self.assertEqual(
                    [found["size"], found["on_whole_numbers"],
                     found["outcome"]],
                    ["small", "other bits", "exact"], ran.stdout + ran.stderr)

    def test_in_a_hundred_clean_runs_no_node_is_named(self):
        ran = measure("--what", "clean", "--clean", 100, "--draws", 2,
                      "--method", "auto", "--jobs", JOBS, "--results",
                      self.results)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        kept = self.kept()
        self.assertEqual(len(kept), 100)
        self.assertGreaterEqual(
            sum(r["outcome"] == "exact" for r in kept), 95, ran.stdout)


class Resume(MeasureLocate):
    def run_some(self, count):
        return measure("--what", "faults", "--faults", count, "--network",
                       "recurrent", "--kind", "nan,scale", "--method",
                       "intermediate", "--results", self.results)

    def test_a_second_start_goes_on_where_the_first_one_stopped(self):
        self.assertIn("1 cases, 0 of them known", self.run_some(1).stdout)
        # A run that was killed may leave half a line.
        with open(self.results, "a", encoding="utf-8") as file:
            file.write('{"case": "fault recu')
        self.assertIn("2 cases, 1 of them known", self.run_some(2).stdout)
        self.assertIn("2 cases, 2 of them known", self.run_some(2).stdout)

    def test_a_case_gives_the_same_again_alone(self):
        self.run_some(1)
        (kept,) = self.kept()
        ran = measure("--case", kept["case"])
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        again = json.loads(ran.stdout)
        del kept["seconds"], again["seconds"]
        self.assertEqual(again, kept)


class Verdict(MeasureLocate):
    def test_a_missed_fault_fails_with_the_command_that_repeats_it(self):
        case = "fault demo/3 scale 3 auto"
        said = self.report((case, "missed", "large"))
        self.assertEqual(said.returncode, 1)
        self.assertIn("missed: node conv: why\n", said.stdout)
        self.assertIn(f"{PROGRAM.name} --case '{case}'", said.stdout)

    def test_each_way_to_be_wrong_about_a_large_effect_fails(self):
        for outcome in ("extra", "other", "misnamed", "died", "hung",
                        "failed"):
            with self.subTest(outcome=outcome):
                said = self.report(("fault demo/1 nan 1 auto", outcome,
                                    "large"))
                self.assertEqual(said.returncode, 1, said.stdout)

    def test_small_effects_may_be_missed(self):
        said = self.report(("fault demo/1 scale 1 auto", "missed", "small"))
        self.assertEqual(said.returncode, 0, said.stdout)

    def test_an_accusation_in_a_clean_run_fails(self):
        said = self.report(("clean demo/1 - 1 auto", "accused", ""))
        self.assertEqual(said.returncode, 1, said.stdout)

    def test_a_fault_of_another_program_is_listed_and_not_counted(self):
        case = "foreign light:net/1+ort-all - 1 auto"
        self.assertEqual(self.report((case, "accused", "")).returncode, 1)
        said = self.report((case, "their fault", ""))
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertIn("light:net/1+ort-all, not counted: why\n", said.stdout)

    def test_what_a_method_must_see_is_not_asked_of_the_others(self):
        for method, status in (("replay", 1), ("bisect", 0), ("exact", 0)):
            with self.subTest(method=method):
                said = self.report((f"fault demo/1 nan 1 {method}", "missed",
                                    "large"))
                self.assertEqual(said.returncode, status, said.stdout)
                said = self.report((f"fault demo/1 nan 1 {method}", "other",
                                    "large"))
                self.assertEqual(said.returncode, 1, said.stdout)

    def test_exact_inputs_must_find_half_of_what_changes_exact_bits(self):
        case = "fault demo/{}+fp16 scale 3 exact"
        found = (case.format(3), "exact", "small", "other bits")
        missed = [(case.format(seed), "missed", "small", "other bits")
                  for seed in (8, 13)]
        unseen = (case.format(18), "missed", "small", "same bits")
        said = self.report(found, missed[0], unseen)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertIn("2 of 3 change bits of an exact computation", said.stdout)
        self.assertEqual(self.report(found, *missed).returncode, 1)

    def test_one_in_a_hundred_large_effects_may_be_inconclusive(self):
        exact = [(f"fault demo/1 nan {seed} auto", "exact", "large")
                 for seed in range(1, 100)]
        unsure = [(f"fault demo/2 nan {seed} auto", "inconclusive", "large")
                  for seed in (1, 2)]
        self.assertEqual(self.report(*exact, unsure[0]).returncode, 0)
        self.assertEqual(self.report(*exact, *unsure).returncode, 1)


class BadUse(MeasureLocate):
    def test_names_that_mean_nothing_are_refused_with_those_that_do(self):
        for option, value, named in (("--kind", "rust", "lane-drop"),
                                     ("--network", "whale", "recurrent"),
                                     ("--method", "magic", "intermediate"),
                                     ("--case", "fault", "fault NETWORK"),
                                     ("--jobs", "many", "--jobs")):
            with self.subTest(option=option):
                ran = measure(option, value)
                self.assertEqual(ran.returncode, 2, ran.stdout)
                self.assertIn(named, ran.stderr)


if __name__ == "__main__":
    unittest.main()
