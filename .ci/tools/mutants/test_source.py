import os
import pathlib
import subprocess
import tempfile
import unittest

import source

TEXT = """\
pub const SIZE: usize = 1 << 4;
const fn half(x: u32) -> u32 { x / 2 }
/// Text with a { brace.
fn least(a: [u8; 2], b: char) -> bool
{
    // A } in a comment.
    b == '{' && a[0] < a[1]
}
fn outer() -> u32 { fn inner() -> u32 { 1 + 2 } inner() }
"""


def place(line, column):
    return {"line": line, "column": column}


def mutant(at, to, replacement, function=None):
    span = {"start": place(*at), "end": place(*to)}
    mutant = {"file": "a.rs", "span": span, "replacement": replacement}
    if function:
        start, end = function
        mutant["function"] = {"span": {"start": place(*start), "end": place(*end)}}
    return mutant


HALF, LEAST = ((2, 1), (2, 39)), ((4, 1), (8, 2))
OUTER, INNER = ((9, 1), (9, 58)), ((9, 21), (9, 48))
MUTANTS = {
    1: mutant((1, 27), (1, 29), ">>"),
    2: mutant((2, 34), (2, 35), "*", HALF),
    3: mutant((7, 5), (7, 28), "true", LEAST),
    4: mutant((7, 22), (7, 23), "<=", LEAST),
    5: mutant((9, 43), (9, 44), "-", INNER),
    6: mutant((9, 49), (9, 56), "0", OUTER),
}


class Source(unittest.TestCase):
    def setUp(self):
        self.batch = source.Batch({"a.rs": TEXT}, MUTANTS)

    def test_constants_and_const_functions_are_left(self):
        self.assertEqual(self.batch.left, [1, 2])

    def test_a_nested_function_belongs_to_the_one_around_it(self):
        self.assertEqual(self.batch.function_of, {3: 0, 4: 0, 5: 1, 6: 1})

    def test_each_mutant_is_an_arm_with_a_body_of_its_own(self):
        files, lines = self.batch.write(dropped={})
        text = files["a.rs"]
        self.assertIn("-> bool\n{ match crate::mutant::of(0) {", text)
        self.assertIn("a[0]  <=  a[1]", text)
        self.assertIn("_ => {\n    // A } in a comment.\n    b == '{' && a[0] < a[1]\n} } }", text)
        self.assertIn("5 => { fn inner() -> u32 { 1  -  2 } inner() \n}", text)
        self.assertIn("6 => { fn inner() -> u32 { 1 + 2 }  0  \n}", text)
        rows = text.split("\n")
        found = []
        for first, last, numbers in lines["a.rs"]:
            arm = str(numbers[0]) if rows[last - 1] == "}" else "_"
            self.assertTrue(rows[first - 1].startswith(f"{arm} => {{"))
            found.append(numbers)
        self.assertEqual(found, [[3], [4], [3, 4], [5], [6], [5, 6]])

    def test_a_dropped_mutant_has_no_arm(self):
        files, _ = self.batch.write(dropped={4})
        self.assertNotIn("<=", files["a.rs"])
        self.assertIn("3 => {", files["a.rs"])


class Runtime(unittest.TestCase):
    def test_each_call_chooses_the_mutant_or_says_that_it_was_reached(self):
        calls = "mutant::of(2), mutant::of(0), mutant::of(2)"
        program = 'fn main() { println!("{:?}", (' + calls + ")) }\n"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            text = program + source.RUNTIME.replace("COUNT", "3")
            (folder / "main.rs").write_text(text)
            rustc = "rustc", "--edition=2024", "-o", folder / "main", folder / "main.rs"
            subprocess.run(rustc, check=True)

            def run(**variables):
                variables = {**os.environ, **variables}
                return subprocess.check_output([folder / "main"], env=variables, text=True)

            self.assertEqual(run(VOR_MUTANT="7"), "(7, 7, 7)\n")
            self.assertEqual(run(), "(0, 0, 0)\n")
            reached = folder / "reached"
            reached.touch()
            self.assertEqual(run(VOR_MUTANT_REACHED=str(reached)), "(0, 0, 0)\n")
            self.assertEqual(reached.read_text(), "2\n0\n")
