//! The table of targets and measurements.

/// A question, its limit, and the measurement.
#[derive(Clone, Debug)]
struct Row {
    question: String,
    target: Target,
    measured: f64,
    unit: &'static str,
    note: String,
}

/// The limit of a measured value.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Printed for information only.
    None,
}

impl Target {
    fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtMost(most) => measured <= most,
            Self::AtLeast(least) => measured >= least,
            Self::None => true,
        }
    }
}

/// Rows in the order of the measurements.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Row>,
    unmeasured: Vec<String>,
}

impl Table {
    /// Adds a measurement, and prints it immediately.
    pub fn add(
        &mut self,
        question: impl Into<String>,
        target: Target,
        measured: f64,
        unit: &'static str,
    ) {
        self.add_noted(question, target, measured, unit, String::new());
    }

    /// Like [`add`](Self::add), with a remark.
    pub fn add_noted(
        &mut self,
        question: impl Into<String>,
        target: Target,
        measured: f64,
        unit: &'static str,
        note: String,
    ) {
        let row = Row {
            question: question.into(),
            target,
            measured,
            unit,
            note,
        };
        println!("{}", line(&row));
        self.rows.push(row);
    }

    /// Reports that a question cannot be measured here, and why. This prints a line and does not
    /// count as a failure.
    pub fn not_measured(&mut self, question: impl Into<String>, reason: impl std::fmt::Display) {
        let text = format!("not measured: {}: {reason}", question.into());
        println!("{text}");
        self.unmeasured.push(text);
    }

    /// Prints the exceeded limits, and returns whether there are none.
    pub fn conclude(&self) -> bool {
        let exceeded: Vec<&Row> = self
            .rows
            .iter()
            .filter(|row| !row.target.holds(row.measured))
            .collect();
        let asked = self
            .rows
            .iter()
            .filter(|row| !matches!(row.target, Target::None))
            .count();
        println!(
            "\n{asked} targets, {} missed, {} not measured",
            exceeded.len(),
            self.unmeasured.len()
        );
        for row in &exceeded {
            println!("missed: {}", line(row).trim_end());
        }
        exceeded.is_empty()
    }
}

fn line(row: &Row) -> String {
    let target = match row.target {
        Target::AtMost(most) => format!("<= {most}"),
        Target::AtLeast(least) => format!(">= {least}"),
        Target::None => "-".to_owned(),
    };
    let verdict = match row.target {
        Target::None => "",
        target if target.holds(row.measured) => "ok",
        _ => "MISSED",
    };
    let measured = if row.measured.abs() >= 1000.0 {
        format!("{:.0}", row.measured)
    } else {
        format!("{:.3}", row.measured)
    };
    format!(
        "{:<58} {target:>10} {measured:>12} {:<10} {verdict:<7} {}",
        row.question, row.unit, row.note
    )
}
