//! A library that splits text into words and counts them.

use std::collections::BTreeMap;

/// The words of some texts.
#[derive(Default)]
pub struct Words {
    counts: BTreeMap<String, u32>,
}

#[profiling::all_functions]
impl Words {
    /// Adds the words of a text.
    pub fn add(&mut self, text: &str) {
        for line in text.lines() {
            for word in split(line) {
                *self.counts.entry(Self::clean(word)).or_default() += 1;
            }
        }
    }

    /// Returns the word that is most frequent.
    pub fn most_frequent(&self) -> Option<&str> {
        let most = self.counts.iter().max_by_key(|(_, count)| **count)?;
        Some(most.0)
    }

    // Too short to be worth a scope.
    #[profiling::skip]
    fn clean(word: &str) -> String {
        word.trim_matches(|c: char| !c.is_alphanumeric())
            .to_lowercase()
    }
}

#[profiling::function]
fn split(line: &str) -> Vec<&str> {
    profiling::scope!("find spaces", line);
    line.split_whitespace().collect()
}
