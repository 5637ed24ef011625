"""Every figure that tensors are compared by is in the schema of documents,
which refuses members that it does not know."""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class MetricsTest(unittest.TestCase):
    def test_every_metric_is_in_the_schema(self):
        source = (ROOT / "contrib/compare/metrics.cc").read_text(
            encoding="utf-8")
        rows = source.partition("MetricRow kMetrics[] = {")[2].partition("};")
        names = re.findall(r'^    \{"(\w+)"', rows[0], re.MULTILINE)
        self.assertGreater(len(names), 10)
        schema = json.loads((ROOT / "contrib/report/nodewise-1.schema.json")
                            .read_text(encoding="utf-8"))
        known = schema["$defs"]["tensor_comparison"]["properties"]
        self.assertEqual([name for name in names if name not in known], [])


if __name__ == "__main__":
    unittest.main()
