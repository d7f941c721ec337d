//! Rows of a table as text for a spreadsheet.

use egui::Ui;

/// Rows, with fields between separators.
#[derive(Debug)]
pub(crate) struct Sheet {
    separator: char,
    text: String,
}

impl Sheet {
    /// Begins a sheet with the titles of its columns.
    fn new(separator: char, titles: &[&str]) -> Self {
        let mut sheet = Self {
            separator,
            text: String::new(),
        };
        sheet.row(titles);
        sheet
    }

    /// Appends a row. Fields are quoted where necessary.
    pub(crate) fn row<T: AsRef<str>>(&mut self, fields: impl IntoIterator<Item = T>) {
        for (i, field) in fields.into_iter().enumerate() {
            if i > 0 {
                self.text.push(self.separator);
            }
            let field = field.as_ref();
            if field.contains([self.separator, '"', '\n', '\r']) {
                self.text.push('"');
                self.text.push_str(&field.replace('"', "\"\""));
                self.text.push('"');
            } else {
                self.text.push_str(field);
            }
        }
        self.text.push('\n');
    }
}

/// Shows two buttons that copy the shown rows as CSV and as TSV; `fill` appends them.
pub(crate) fn copy_buttons(ui: &mut Ui, titles: &[&str], fill: impl Fn(&mut Sheet)) {
    for (name, separator) in [("CSV", ','), ("TSV", '\t')] {
        let hint = format!("Copies the shown rows as {name}, times in nanoseconds");
        if ui.button(name).on_hover_text(hint).clicked() {
            let mut sheet = Sheet::new(separator, titles);
            fill(&mut sheet);
            ui.ctx().copy_text(sheet.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sheet;

    #[test]
    fn fields_are_quoted_where_necessary() {
        let mut sheet = Sheet::new(',', &["name", "ns"]);
        sheet.row(["a,b", "1"]);
        sheet.row(["say \"x\"", "2"]);
        sheet.row(["two\nlines", "3"]);
        sheet.row(["tab\there", ""]);
        let expected = "name,ns\n\"a,b\",1\n\"say \"\"x\"\"\",2\n\"two\nlines\",3\ntab\there,\n";
        assert_eq!(sheet.text, expected);
        let mut sheet = Sheet::new('\t', &["name"]);
        sheet.row(["a,b"]);
        sheet.row(["tab\there"]);
        assert_eq!(sheet.text, "name\na,b\n\"tab\there\"\n");
    }
}
