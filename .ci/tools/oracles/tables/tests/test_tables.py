import contextlib
import copy
import io
import json
import math
import pathlib
import shutil
import struct
import tempfile
import unittest

import pyarrow
import pyarrow.dataset
import pyarrow.parquet

from .. import __main__ as program

SPANS = [
    {"process": "app", "pid": 1, "thread": "main", "tid": 5, "frame": frame, "depth": depth,
     "name": name, "file": "src/a.rs", "line": 7, "start_ns": 100 * frame, "dur_ns": 90,
     "self_ns": self_ns, "args": args}
    for frame, depth, name, self_ns, args in [
        (0, 0, "it's outer", 60, {"n": "3"}), (0, 1, "inner", 30, {}),
        (1, 0, "it's outer", 90, {}),
    ]
]
METRICS = [
    {"frame": 0, "time_ns": 100, "name": "load", "unit": "", "value": 0.5},
    {"frame": 1, "time_ns": 200, "name": "load", "unit": "", "value": float("nan")},
]
SKETCHES = [
    {"name": "inner", "count": 1, "self_sum_ns": 30, "buckets": [{"count": 1}]},
    {"name": "it's outer", "count": 2, "self_sum_ns": 150,
     "buckets": [{"count": 1}, {"count": 1}]},
]
SPAN_TYPES = {"args": pyarrow.map_(pyarrow.string(), pyarrow.string())}


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write_lines("spans.jsonl", SPANS)
        self.write_lines("metrics.jsonl", [
            {**row, "value_bits": struct.unpack("<Q", struct.pack("<d", row["value"]))[0]}
            for row in METRICS
        ])
        self.write(SPANS)

    def write_lines(self, name, rows):
        with open(self.folder / name, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)

    def write(self, spans, metrics=METRICS, sketches=SKETCHES, host="the host"):
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        spans = [{**row, "args": list(row["args"].items()), "host": host} for row in spans]
        for name, rows in ("spans", spans), ("metrics", metrics), ("sketches", sketches):
            table = pyarrow.Table.from_pylist(rows)
            for column, type_ in SPAN_TYPES.items() if name == "spans" else ():
                index = table.schema.get_field_index(column)
                values = pyarrow.array([row[column] for row in rows], type_)
                table = table.set_column(index, column, values)
            pyarrow.parquet.write_table(table, self.folder / f"{name}.parquet", row_group_size=1)
            if name != "sketches":
                partitions = ["host"] if name == "spans" else None
                pyarrow.dataset.write_dataset(
                    table, self.folder / "data" / name, format="parquet", partitioning=partitions,
                    partitioning_flavor="hive" if partitions else None,
                )

    def run_program(self):
        """Returns why the program fails, or None if the tables hold the capture."""
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                program.main([str(self.folder)])
            except SystemExit as exit_:
                return str(exit_.code)
        return None

    def assert_rejects(self, reason):
        self.assertIn(reason, self.run_program() or "nothing")

    def test_accepts_the_rows_of_the_capture(self):
        self.assertIsNone(self.run_program())

    def test_rejects_each_changed_column_of_spans(self):
        for column, value in SPANS[0].items():
            with self.subTest(column):
                spans = copy.deepcopy(SPANS)
                spans[0][column] = {"n": "4"} if column == "args" else value * 2 or 9
                self.write(spans)
                self.assert_rejects("spans by pyarrow: 3 rows for 3")

    def test_rejects_missing_rows(self):
        self.write(SPANS[1:])
        self.assert_rejects("spans by pyarrow: 2 rows for 3")

    def test_rejects_other_metrics(self):
        next_value = math.nextafter(0.5, 1.0)
        self.write(SPANS, metrics=[{**METRICS[0], "value": next_value}, METRICS[1]])
        self.assert_rejects("metrics by pyarrow")

    def test_rejects_another_host(self):
        self.write(SPANS, host="another")
        self.assert_rejects("the hosts are")

    def test_rejects_sketches_that_count_something_else(self):
        for change in {"count": 3}, {"self_sum_ns": 149}, {"buckets": [{"count": 1}]}:
            with self.subTest(change):
                self.write(SPANS, sketches=[SKETCHES[0], {**SKETCHES[1], **change}])
                self.assert_rejects("sketches: ")
