import unittest

import rust
import write

FILE = '''//! A file; of tests {
use std::sync::{Arc, Mutex};

/* { */ const BRACE: char = '{';

fn helper<'a>(text: &'a str) -> &'a str {
    "}"
}

#[test]
#[cfg(not(miri))]
fn first() {
    assert_eq!(helper(r#""{"#), "}");
}

macro_test!(
    name: second,
    test_body: { let x = 1; }
);

#[cfg(test)]
mod tests {
    use crate::Mutex;

    #[tokio::test]
    async fn third() {}

    mod inner {
        #[test]
        fn fourth() {}
    }
}
'''


class Items(unittest.TestCase):
    def test_names_and_places_of_items(self):
        found = rust.items(FILE)
        names = ["", "", "helper", "first", "second", "", "tests::third", "tests::inner::fourth"]
        self.assertEqual([item.name for item in found], names)
        tests = [item.name for item in found if item.is_test]
        self.assertEqual(tests, ["first", "second", "tests::third", "tests::inner::fourth"])
        first = next(item for item in found if item.name == "first")
        self.assertTrue(FILE[first.start : first.end].strip().startswith("#[test]"))
        self.assertTrue(FILE[first.start : first.end].endswith('"}");\n}'))

    def test_what_is_not_for_tests_is_blank(self):
        kept = rust.only_tests(FILE)
        self.assertEqual(kept.count("\n"), FILE.rstrip().count("\n"))
        self.assertNotIn("helper", kept)
        self.assertIn("fn fourth", kept)

    def test_items_and_modules_are_left_out(self):
        out = {"lib::file::first": "", "lib::file::tests::inner": ""}
        paths = {r"\bcrate::": "other::"}
        text, left, tests = write.adapted(FILE, "lib::file", paths, out)
        self.assertEqual(left, list(out))
        self.assertEqual(tests, 2)
        self.assertEqual(text.count("\n"), FILE.count("\n"))
        self.assertNotIn("fn first", text)
        self.assertNotIn("fn fourth", text)
        self.assertIn("use other::Mutex;", text)


if __name__ == "__main__":
    unittest.main()
