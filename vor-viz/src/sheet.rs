//! Rows of a table, a list or a chart as text for a spreadsheet.

use egui::{Button, Ui};

/// The formats, with their separators of fields.
const FORMATS: [(&str, char); 2] = [("CSV", ','), ("TSV", '\t')];

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
    for (name, separator) in FORMATS {
        let hint = hint(name, "the shown rows");
        if ui.button(name).on_hover_text(hint).clicked() {
            copy(ui, separator, titles, &fill);
        }
    }
}

/// Shows two small buttons that copy the values of a part of a view, such as a chart: its name, and
/// the description of these values.
pub(crate) fn small_copy_buttons(
    ui: &mut Ui,
    (part, values): (&str, &str),
    titles: &[&str],
    fill: impl Fn(&mut Sheet),
) {
    for (name, separator) in FORMATS {
        let button = ui.add(Button::new(name).small());
        let button = button.accessible_name(format!("{name} of the {part}"));
        if button.on_hover_text(hint(name, values)).clicked() {
            copy(ui, separator, titles, &fill);
        }
    }
}

fn hint(format: &str, what: &str) -> String {
    format!("Copies {what} as {format}, times in nanoseconds")
}

fn copy(ui: &Ui, separator: char, titles: &[&str], fill: impl Fn(&mut Sheet)) {
    let mut sheet = Sheet::new(separator, titles);
    fill(&mut sheet);
    ui.ctx().copy_text(sheet.text);
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
